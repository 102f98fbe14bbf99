"""When a failed attempt is followed by another: arithmetic over the recorded policy, the same for everybody."""

from __future__ import annotations

from hashlib import sha256

from .contracts import IDEMPOTENT, LOOKUP, ONCE
from .failures import (
    ARGUMENTS_UNAVAILABLE,
    CUT_OFF,
    FORBIDDEN,
    HEARTBEAT,
    LOOK_UP_FAILED,
    NO_CREDENTIALS,
    NOTHING_DONE,
    RAISED,
    RESOURCE_LOST,
    RESULT_NOT_STORED,
    SCHEDULE_TO_CLOSE,
    STALLED,
    TIMED_OUT,
    UNAPPROVED,
    UNKNOWN_ACTIVITY,
    WRONG_ARGUMENTS,
)
from .records import Failure, RetryPolicy
from .state import OpenActivity

RETRIED_KINDS = frozenset(
    {
        RAISED,
        TIMED_OUT,
        CUT_OFF,
        UNKNOWN_ACTIVITY,
        NO_CREDENTIALS,
        NOTHING_DONE,
        LOOK_UP_FAILED,
        ARGUMENTS_UNAVAILABLE,
        RESULT_NOT_STORED,
    }
)
"""Failures that may pass by themselves. The others (wrong arguments, a result that has no JSON form) do not."""

NEVER_BEGUN = frozenset(
    {
        UNKNOWN_ACTIVITY,
        WRONG_ARGUMENTS,
        ARGUMENTS_UNAVAILABLE,
        NO_CREDENTIALS,
        UNAPPROVED,
        FORBIDDEN,
    }
)
"""Failures of attempts that called nothing."""

NOTHING_RAN = NEVER_BEGUN | {NOTHING_DONE}
"""Failures after which it is certain that the tool changed nothing."""

LOOKED_UP = frozenset({RAISED, TIMED_OUT, RESOURCE_LOST})
"""Failures that a worker reports of a look-up-able write only after it had looked and found nothing."""

JITTER = 4
"""One part in so many of a delay is spread, so that sessions that failed together do not come back together."""

DRAWN_BYTES = 4
"""So much of a digest is drawn for it, and read as a fraction."""


def in_doubt(contract: str, failure: Failure) -> bool:
    """Whether the tool may have done its work although an attempt under this contract failed so.

    Not asked of reads and of idempotent writes: they may run again anyway.
    """
    if contract not in ONCE and contract != LOOKUP:
        return False
    if failure.kind in NOTHING_RAN:
        return False
    seen_by_worker = failure.type not in (SCHEDULE_TO_CLOSE, HEARTBEAT, STALLED)
    return not (contract == LOOKUP and failure.kind in LOOKED_UP and seen_by_worker)


def leaves_doubt(activity: OpenActivity, failure: Failure) -> bool:
    """Whether anybody can know, after this failure of its newest attempt, that nothing was done.

    An attempt that a worker could not even begin says nothing about the attempts before it.
    """
    if activity.contract == IDEMPOTENT:
        return activity.doubtful and failure.kind in (UNAPPROVED, FORBIDDEN)
    never_begun = failure.kind in NEVER_BEGUN
    return in_doubt(activity.contract, failure) or (activity.doubtful and never_begun)


def perhaps_done(activity: OpenActivity, failure: Failure) -> bool:
    """Whether this attempt, which failed so, or one before it may have been carried out.

    For an idempotent write that is no doubt while it may run again; it is one once it may not.
    """
    if activity.contract == IDEMPOTENT:
        return activity.doubtful or failure.kind not in NOTHING_RAN
    return leaves_doubt(activity, failure)


def may_retry(policy: RetryPolicy | None, attempt: int, failure: Failure) -> bool:
    """Whether the policy has another attempt after this one, the `attempt`-th that counts, failed so."""
    if policy is None or attempt >= policy.attempts_max:
        return False
    if failure.kind not in RETRIED_KINDS or failure.type == SCHEDULE_TO_CLOSE:
        return False
    return policy.never == () or not {failure.type, _last_name(failure.type)} & {*policy.never}


def backoff_ms(policy: RetryPolicy, attempt: int) -> int:
    """The policy's delay after this attempt, before jitter."""
    delay_ms = min(policy.initial_ms, policy.cap_ms)
    for _ in range(1, min(attempt, policy.attempts_max)):
        if delay_ms >= policy.cap_ms:
            break
        delay_ms = min(policy.cap_ms, delay_ms * policy.factor_thousandths // 1000)
    return delay_ms


def retry_due_ms(
    policy: RetryPolicy, attempt: int, failure: Failure, *, now_ms: int, name: str
) -> int:
    """When the next attempt is due. `name` is the attempt's own, and draws its jitter.

    Jitter shortens the policy's delay, which so never exceeds the cap, and lengthens the tool's `Retry-After`, which
    is never undercut.
    """
    delay_ms = backoff_ms(policy, attempt)
    asked_ms = max(0, failure.retry_after_ms or 0)
    if asked_ms > delay_ms:
        return now_ms + asked_ms + _part(delay_ms, name)
    return now_ms + max(asked_ms, delay_ms - _part(delay_ms, name))


def _part(delay_ms: int, name: str) -> int:
    """From 0 up to a quarter of the delay, derived from the name: the same in every replay."""
    drawn = int.from_bytes(sha256(name.encode(errors="surrogatepass")).digest()[:DRAWN_BYTES])
    return (delay_ms * drawn // JITTER) >> 8 * DRAWN_BYTES


def _last_name(type_: str) -> str:
    return type_.rpartition(".")[2]
