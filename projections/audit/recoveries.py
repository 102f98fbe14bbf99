"""Checks of recovery: each trigger is followed by what it asked for, and nothing is given up as stalled without one."""

from __future__ import annotations

from collections.abc import Iterator

from ...events import records as r
from ...events.failures import STALLED
from ...events.recovering import QUARANTINED, RECOVERIES_MAX
from .evidence import Violation
from .history import Fact, History, of
from .invariants import RECOVERY

_GIVEN_UP = r.ActivityRetryScheduled | r.ActivityFailed | r.ActivityUncertain
_ANEW = r.TurnStarted | r.TurnContinued | r.SessionReleased


def recoveries(history: History) -> Iterator[Violation]:
    """An attempt is given up by the trigger right before it; of sessions no stretch has more than so many triggers."""
    for facts in history.sessions.values():
        before: r.EventBody | None = None
        count = 0
        for fact in facts:
            body = fact.event.body
            if isinstance(before, r.RecoveryRequested):
                yield from _followed(fact, before, count)
            elif isinstance(body, _GIVEN_UP) and _is_stalled(body):
                yield of(fact, RECOVERY, f"{_named(body)} is given up, and nobody named it")
            if isinstance(body, _ANEW):
                count = 0
            elif isinstance(body, r.RecoveryRequested) and not body.activity_id:
                count += 1
            before = body


def _followed(fact: Fact, asked: r.RecoveryRequested, count: int) -> Iterator[Violation]:
    body = fact.event.body
    if asked.activity_id:
        wanted = (asked.activity_id, asked.attempt)
        if not (isinstance(body, _GIVEN_UP) and _is_stalled(body) and _attempt(body) == wanted):
            told = f"attempt {asked.attempt} of {asked.activity_id} was to be given up, and {type(body).__name__} follows"
            yield of(fact, RECOVERY, told)
    elif count > RECOVERIES_MAX and not (
        isinstance(body, r.SessionHeld) and body.reason == QUARANTINED
    ):
        told = f"it was recovered {count} times in one stretch, and {type(body).__name__} follows"
        yield of(fact, RECOVERY, told)


def _is_stalled(body: _GIVEN_UP) -> bool:
    return not body.worker and body.failure.type == STALLED


def _attempt(body: _GIVEN_UP) -> tuple[str, int]:
    failed = body.attempt - 1 if isinstance(body, r.ActivityRetryScheduled) else body.attempt
    return body.activity_id, failed


def _named(body: _GIVEN_UP) -> str:
    activity_id, attempt = _attempt(body)
    return f"attempt {attempt} of {activity_id}"
