"""What an operator does to the session of a rehearsal besides a release: takes it back, and pins it to a version."""

from __future__ import annotations

from abc import abstractmethod

from ...commands import models as m
from ...events import records as r
from . import given
from .errors import Misuse
from .story import Story


class Operating(Story):
    """See the module."""

    def pin(self, version: int | None, reason: str = "as it was", *, by: str = "operator") -> None:
        """Lets turns begin on this version of the workflow, from the next one on; None: on the highest again."""
        wanted = None if version is None else given.count("version", version)
        self._command(m.PinSession(wanted, given.sentence("reason", reason)), actor=by)

    def reset(
        self,
        to_turn: int | None = None,
        reason: str = "mended",
        *,
        answers_again: bool = True,
        by: str = "operator",
    ) -> None:
        """Takes the session back to the end of this turn (None: of the last that has ended; 0: before the first).

        The message of the turn that is open is answered again from there, unless `answers_again` is False.
        """
        told = [event.body for event in self._wholes]
        ends = {b.turn: b.state for b in told if isinstance(b, r.TurnCompleted)}
        turn = max(ends, default=0) if to_turn is None else to_turn
        if turn and turn not in ends:
            known = ", ".join(map(str, [0, *ends]))
            raise Misuse(f"no turn {to_turn!r} has ended here: name one of turns {known}")
        again = given.yes_or_no("answers_again", answers_again)
        why = given.sentence("reason", reason)
        self._command(m.ResetSession(turn, ends.get(turn), again, why), actor=by)

    @abstractmethod
    def _command(self, body: m.CommandBody, *, actor: str) -> None:
        """Gives the command, and all that follows from it."""
