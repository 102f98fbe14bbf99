"""Which tokens are worth showing: those of the attempts that may still be recorded, and what is said when one loses.

```
token of a newer attempt, or of another run of the same ─▶ token-reset of the one shown so far, then the token
the log says that an attempt failed, was given back, … ──▶ token-reset of it
the log has a result ────────────────────────────────────▶ token-end
```

What is said about an event goes out before it: whoever comes back behind the event has heard it, and whoever has not is
told again. Tokens come by another way than events, so one may be here before the event that asks for its activity: it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....events import records as r
from ....processors.activities.tokens import Token
from .framing import told

HELD_MAX = 500
"""Tokens that wait for the event that asks for their activity; the oldest are dropped."""


@dataclass(slots=True)
class _Shown:
    """What a client has seen of an activity: the run it belongs to, how far, and the runs that have lost."""

    attempt: int
    run: str
    index: int = -1
    lost: set[str] = field(default_factory=set)


class InFlight:
    """Of one session, for one client. `open_` has the newest attempt of each activity that goes on, by its id."""

    def __init__(self, open_: Mapping[str, int], *, resumed: bool) -> None:
        """`resumed` where the client may have seen tokens before it came back."""
        self._open = dict(open_)
        self._resumed = resumed
        self._shown: dict[str, _Shown] = {}
        self._asked_here: set[str] = set()
        self._held: list[Token] = []

    def before(self, body: r.EventBody) -> bytes:
        """What is said ahead of this event, which is then counted in."""
        match body:
            case r.ActivityRequested():
                self._open[body.activity_id] = body.attempt
                self._asked_here.add(body.activity_id)
            case r.ActivityRetryScheduled():
                return self._next(body.activity_id, body.attempt, "failed")
            case r.ActivityReturned():
                return self._next(body.activity_id, body.attempt + 1, "given_back")
            case r.ActivityRetried():
                return self._next(body.activity_id, body.attempt, "superseded")
            case r.ActivityCompleted():
                return self._completed(body.activity_id, body.attempt)
            case r.ActivityFailed():
                return self._lost(body.activity_id, body.attempt, "failed")
            case r.ActivityUncertain():
                return self._lost(body.activity_id, body.attempt, "uncertain")
            case r.ActivityCancelled():
                return self._lost(body.activity_id, body.attempt, "cancelled")
            case _:
                pass
        return b""

    def after(self, body: r.EventBody) -> bytes:
        """Tokens that waited for this event."""
        if not isinstance(body, r.ActivityRequested) or not self._held:
            return b""
        waited, self._held = self._held, []
        return b"".join(self.token(one) for one in waited)

    def token(self, token: Token) -> bytes:
        """A token as it is shown; nothing where it has lost, was shown, or waits."""
        newest = self._open.get(token.activity_id)
        if newest is None:
            self._held = [*self._held[1 - HELD_MAX :], token]
            return b""
        shown = self._shown.get(token.activity_id)
        if token.attempt < newest or (shown is not None and _is_old(shown, token)):
            return b""
        told_first = b""
        if shown is None:
            shown = self._shown[token.activity_id] = _Shown(token.attempt, token.run)
        elif (shown.attempt, shown.run) != (token.attempt, token.run):
            told_first = _reset(token.activity_id, shown.attempt, "superseded")
            lost = shown.lost | {shown.run}
            shown = _Shown(token.attempt, token.run, lost=lost)
            self._shown[token.activity_id] = shown
        shown.index = token.index
        return told_first + told(
            "token",
            activity_id=token.activity_id,
            attempt=token.attempt,
            index=token.index,
            text=token.text,
        )

    def _next(self, activity_id: str, attempt: int, why: str) -> bytes:
        """Another attempt is owed: the one before has lost."""
        before = self._open.get(activity_id, attempt)
        self._open[activity_id] = attempt
        shown = self._shown.get(activity_id)
        if shown is not None:
            if shown.attempt >= attempt:
                return b""  # tokens of the new one were here first, and have said so
            del self._shown[activity_id]
            return _reset(activity_id, shown.attempt, why)
        is_news = before < attempt or why != "superseded"
        return (
            _reset(activity_id, attempt - 1, why)
            if is_news and self._may_have(activity_id)
            else b""
        )

    def _completed(self, activity_id: str, attempt: int) -> bytes:
        self._open.pop(activity_id, None)
        shown = self._shown.pop(activity_id, None)
        if shown is None and not self._may_have(activity_id):
            return b""
        told_first = b""
        if shown is not None and shown.attempt != attempt:
            told_first = _reset(activity_id, shown.attempt, "superseded")
        return told_first + told("token-end", activity_id=activity_id, attempt=attempt)

    def _lost(self, activity_id: str, attempt: int, why: str) -> bytes:
        self._open.pop(activity_id, None)
        shown = self._shown.pop(activity_id, None)
        if shown is not None:
            return _reset(activity_id, shown.attempt, why)
        return _reset(activity_id, attempt, why) if self._may_have(activity_id) else b""

    def _may_have(self, activity_id: str) -> bool:
        """Whether the client may have tokens of it from before it came back."""
        return self._resumed and activity_id not in self._asked_here


def _is_old(shown: _Shown, token: Token) -> bool:
    if token.attempt != shown.attempt:
        return token.attempt < shown.attempt
    if token.run == shown.run:
        return token.index <= shown.index
    return token.run in shown.lost


def _reset(activity_id: str, attempt: int, why: str) -> bytes:
    return told("token-reset", activity_id=activity_id, attempt=attempt, why=why)
