"""Checks of retries: as often as the recorded policy says, not before the back-off is over, never past the deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...events import records as r
from ...events.contracts import ONCE
from ...events.failures import HEARTBEAT, STALLED
from ...events.retries import JITTER, backoff_ms, may_retry
from .evidence import Violation
from .history import At, Fact, History, cause_of, of
from .invariants import TIMERS


@dataclass(slots=True)
class _Asked:
    """`returned` attempts were given back unrun, and count for no retry; what was in doubt is not tried again.

    An attempt that was withheld is dispatched when it is approved, with the time that was left.
    """

    request: r.ActivityRequested
    deadline_ms: int
    left_ms: int | None = None
    """Of the time of an attempt that is withheld."""
    due_ms: int | None = None
    returned: int = 0
    in_doubt: bool = False


def retries(history: History) -> Iterator[Violation]:
    """21: what the request's own policy says, on the log's clock; the code of the day has no say."""
    for facts in history.sessions.values():
        asked: dict[str, _Asked] = {}
        kept_ms: dict[At, int] = {}
        for fact in facts:
            body, now_ms = fact.event.body, fact.event.envelope.at_ms
            match body:
                case r.CommandParked():
                    kept_ms.setdefault(cause_of(fact), now_ms)
                case r.ActivityRequested():
                    asked[body.activity_id] = _Asked(body, body.deadline_ms, body.withheld_ms)
                case r.ActivityRetryScheduled() if body.activity_id in asked:
                    # A failure that was kept while the session was held counts from when it came.
                    came_ms = kept_ms.get(cause_of(fact), now_ms)
                    yield from _scheduled(fact, body, asked[body.activity_id], came_ms)
                case r.ActivityRetried() if body.activity_id in asked:
                    yield from _retried(fact, body, asked[body.activity_id])
                case r.ActivityReturned() if body.activity_id in asked:
                    asked[body.activity_id].returned += 1
                    asked[body.activity_id].left_ms = body.withheld_ms
                case r.ActivityFailed() | r.ActivityUncertain() if body.activity_id in asked:
                    came_ms = kept_ms.get(cause_of(fact), now_ms)
                    yield from _given_up(fact, body, asked[body.activity_id], came_ms)
                    asked[body.activity_id].in_doubt = isinstance(body, r.ActivityUncertain)
                case _:
                    pass  # the others do not retry, and checks 14 and 15 say where a request is missing


def _scheduled(
    fact: Fact, body: r.ActivityRetryScheduled, asked: _Asked, came_ms: int
) -> Iterator[Violation]:
    request, failed = asked.request, body.attempt - 1
    asked.due_ms = body.due_ms
    counted = failed - asked.returned
    name = f"attempt {body.attempt} of activity {body.activity_id}"
    if request.retry is None or not may_retry(request.retry, counted, body.failure):
        yield of(fact, TIMERS, f"{name} is scheduled, and the policy of its request has none")
        return
    least_ms, most_ms = _bounds(request.retry, counted, body.failure)
    if _is_silence(body):
        # It rests from when its silence was too long, and the clock may have told of that long after.
        least_ms = min(least_ms, body.due_ms - came_ms)
    if not least_ms <= body.due_ms - came_ms <= most_ms:
        told = f"due after {body.due_ms - came_ms} ms, its policy says {least_ms} to {most_ms}"
        yield of(fact, TIMERS, f"{name} is {told}")
    if body.due_ms >= asked.deadline_ms:
        yield of(fact, TIMERS, f"{name} is due when nobody waits for it any more")


def _retried(fact: Fact, body: r.ActivityRetried, asked: _Asked) -> Iterator[Violation]:
    now_ms, due_ms = fact.event.envelope.at_ms, asked.due_ms
    asked.due_ms = None
    left_ms, asked.left_ms = asked.left_ms, body.withheld_ms
    name = f"attempt {body.attempt} of activity {body.activity_id}"
    if left_ms is not None:
        if body.withheld_ms is None and body.deadline_ms != now_ms + left_ms:
            told = f"{name} had {left_ms} ms left when it was withheld, and is due at {body.deadline_ms}"
            yield of(fact, TIMERS, told)
        asked.deadline_ms = body.deadline_ms or asked.deadline_ms
        return
    if due_ms is None:
        yield of(fact, TIMERS, f"{name} is dispatched and was not scheduled")
    elif now_ms < due_ms:
        yield of(fact, TIMERS, f"{name} is dispatched {due_ms - now_ms} ms early")
    elif now_ms >= asked.deadline_ms:
        yield of(fact, TIMERS, f"{name} is dispatched when nobody waits for it any more")


def _given_up(
    fact: Fact, body: r.ActivityFailed | r.ActivityUncertain, asked: _Asked, came_ms: int
) -> Iterator[Violation]:
    """A failure ends the activity only where no attempt is left, or none could begin in time."""
    request, counted = asked.request, body.attempt - asked.returned
    policy = request.retry
    if not body.worker and not _is_silence(body) and body.failure.type != STALLED:
        return  # at its deadline, which check 21 of waits judges
    if asked.in_doubt or (isinstance(body, r.ActivityUncertain) and request.contract in ONCE):
        return
    if policy is None or not may_retry(policy, counted, body.failure):
        return
    _, most_ms = _bounds(policy, counted, body.failure)
    if came_ms + most_ms < asked.deadline_ms:
        told = f"activity {body.activity_id} failed after attempt {body.attempt} of {policy.attempts_max}"
        yield of(fact, TIMERS, f"{told}, with time left for another")


def _is_silence(body: r.ActivityFailed | r.ActivityUncertain | r.ActivityRetryScheduled) -> bool:
    return not body.worker and body.failure.type == HEARTBEAT


def _bounds(policy: r.RetryPolicy, failed: int, failure: r.Failure) -> tuple[int, int]:
    """Shortest and longest rest: jitter takes from the policy's, and adds to what the tool asks for."""
    delay_ms, asked_ms = backoff_ms(policy, failed), max(0, failure.retry_after_ms or 0)
    part_ms = -(-delay_ms // JITTER)
    return max(asked_ms, delay_ms - part_ms), max(delay_ms, asked_ms + part_ms)
