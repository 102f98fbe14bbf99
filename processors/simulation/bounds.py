"""The engine's bounds, small enough for a schedule to meet them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ...events import blobs, sharing
from .. import effects, live, loop, outputs, partition, proposals, snapshots
from ..activities import settled
from .plan import Plan, limits

REVIEW_EXPIRES_MS = 8_000
"""As long as the proposals that the workload makes itself: virtual time passes in small steps."""

START_BY_MS = 2_000
"""In seeds with limits an approved attempt may wait for a worker this long: less than some are frozen, or down."""

TIGHT_BYTES = 600
"""Of one batch's commands, where a seed is tight: three or four messages."""

TIGHT_TASKS = 2
"""That one look-up of a worker answers for, there."""

SHARES_EACH = 3
"""In so many seeds one, requests and states are in parts whenever four characters are those of the state before."""

_SHARES_ALL = (
    (sharing, "SHARED_MIN", 2),
    (sharing, "RANGE_MIN", 4),
    (sharing, "PROBE", 4),
    (sharing, "WORTH", 100.0),
)


@contextmanager
def bounds(plan: Plan) -> Iterator[None]:
    """The engine's bounds, as small as this seed wants them."""
    start_by_ms = START_BY_MS if limits(plan.seed) else effects.START_BY_MS
    batch_bytes = TIGHT_BYTES if plan.tight else loop.BATCH_BYTES_MAX
    ahead_max = TIGHT_TASKS if plan.tight else settled.AHEAD_MAX
    with ExitStack() as stack:
        for module, name, value in (
            (effects, "START_BY_MS", start_by_ms),
            (loop, "BATCH_BYTES_MAX", batch_bytes),
            (settled, "AHEAD_MAX", ahead_max),
            (live, "RUNNING_MAX", plan.live_max),
            (live, "PARKED_MAX", plan.live_max),
            (partition, "SLICE_RECORDS", plan.slice_records),
            (outputs, "MARK_EVERY_EVENTS", plan.mark_every_events),
            (snapshots, "CHUNK_BYTES", plan.chunk_bytes),
            (blobs, "INLINE_MAX", plan.inline_max),
            *(_SHARES_ALL if plan.seed % SHARES_EACH == 0 else ()),
            (proposals, "REVIEW_EXPIRES_MS", REVIEW_EXPIRES_MS),
        ):
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield
