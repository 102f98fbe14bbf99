"""What the history holds behind the fact that is fed: for questions whose answer is a matter of history.

An *activation* is what the function does from one fact that resumes it to its next wait. All it asks for is committed
in one transaction, so a history holds an activation whole or not at all. It holds that of a fact for certain where
an asked-for or a resolving fact follows it. Where none follows, either the fact is new, or its activation asked for
nothing, or held the session and left nothing behind: in all three the code that runs now decides, and what it decides
is recorded before anything else can follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...events import records as r
from .facts import RESOLVES, WAITS, is_asked

VERIFICATION_FAILED = "verification_failed"
"""The hold of a session whose verification failed and whose workflow did not catch it; a release verifies again."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A place in a journal: that of the fact which is fed."""

    journal: Sequence[r.Event]
    at: int

    def passes(self, change: str, asked: int) -> bool:
        """Whether `turn.version(change)` is true where this activation has asked for so many facts before.

        True where the history holds the mark at this place, and where it holds nothing of this activation yet: the
        mark is asked for. False where it holds the activation, and another fact, or none, at this place.
        """
        recorded = self._recorded()
        if asked < len(recorded):
            marked = recorded[asked]
            return isinstance(marked, r.VersionMarked) and marked.change == change
        return not recorded and self._is_last()

    def holds_wait(self, asked: int) -> bool:
        """Whether the history holds the begin of a wait at this place."""
        recorded = self._recorded()
        return asked < len(recorded) and isinstance(recorded[asked], WAITS)

    def cancels(self, activity_id: str) -> bool:
        """Whether this activation, as the history holds it, cancelled the activity."""
        return any(
            isinstance(body, r.ActivityCancelled) and body.activity_id == activity_id
            for body in self._following()
        )

    def verifies_again(self) -> bool:
        """Whether the verdict that is fed held the session and a release let it go on."""
        held = False
        for body in self._following():
            if is_asked(body):
                return False
            held = held or (isinstance(body, r.SessionHeld) and body.reason == VERIFICATION_FAILED)
            if held and isinstance(body, r.SessionReleased):
                return True
        return False

    def _recorded(self) -> list[r.EventBody]:
        return [body for body in self._following() if is_asked(body)]

    def _following(self) -> Iterator[r.EventBody]:
        """The facts up to the next that resolves."""
        for place in range(self.at + 1, len(self.journal)):
            body = self.journal[place].body
            if isinstance(body, RESOLVES):
                return
            yield body

    def _is_last(self) -> bool:
        later = (self.journal[place].body for place in range(self.at + 1, len(self.journal)))
        return not any(isinstance(body, RESOLVES) for body in later)


LIVE = Ahead((), 0)
"""The end of every history."""
