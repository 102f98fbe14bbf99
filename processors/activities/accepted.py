"""Which results their sessions had recorded before the key behind them was revoked, by the sessions' own events.

A result under a revoked key counts for nothing where it comes now, and what was recorded of it stays: nobody would wait for
the attempt that a worker made again. Only the session's events tell the two apart, and only a processor writes those. They
are asked where there is such a result, which is rare, and in the partitions of its session alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from ...events import records as r
from ...events.codec import decode_event
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import find
from ...events.keys import attempt_id, effect_key, partition_of, session_key
from ...events.log.protocol import Fatal, Log, Place, Record
from .spans import records_in, spans_since

logger = structlog.get_logger("wakeful.worker")


def recorded_among(log: Log, topic: str, doubted: Mapping[str, bytes], since_ms: int) -> set[str]:
    """Which of these attempts, each with its session's key, have a result among the events from that time on.

    `LogFault` where they cannot be read for now. A worker that may not read them at all says so, and knows of none.
    """
    try:
        partitions = log.partitions(topic)
        places = {Place(topic, partition_of(key, partitions)) for key in doubted.values()}
        keys = frozenset(doubted.values())
        found: set[str] = set()
        for record in records_in(log, spans_since(log, sorted(places), since_ms)):
            attempt = recorded(record) if record.key in keys else None
            if attempt is not None and attempt in doubted:
                found.add(attempt)
    except Fatal as fault:
        logger.warning(
            "results under revoked keys are not believed, and their tasks run again: the events cannot be read",
            topic=topic,
            attempts=len(doubted),
            fault=str(fault),
        )
        return set()
    logger.info("results under revoked keys", asked=len(doubted), recorded=len(found))
    return found


def recorded(record: Record) -> str | None:
    """The id of the attempt whose report this event records, whatever the report said; null for all else."""
    try:
        if find(record.headers, "ce_type") not in _TYPES:
            return None
        event = decode_event(record.value, record.headers)
        envelope = event.envelope
        key = session_key(envelope.tenant, envelope.session_id)
    except (Undecodable, InvalidKey):
        return None  # the audit names it
    match event.body:
        case r.ActivityRetryScheduled(worker=worker) as body if worker:
            attempt = body.attempt - 1
        case r.ActivityCompleted() | r.LateResultRecorded() as body:
            attempt = body.attempt
        case r.ActivityFailed(worker=worker) | r.ActivityUncertain(worker=worker) as body if worker:
            attempt = body.attempt
        case _:
            return None  # ended by the log's clock, without a report
    if record.key != key:
        return None
    own = effect_key(envelope.tenant, envelope.session_id, body.activity_id)
    return attempt_id(own, attempt)


_TYPES = frozenset(
    f"wakeful.v1.{kind.__name__}".encode()
    for kind in (
        r.ActivityCompleted,
        r.ActivityFailed,
        r.ActivityRetryScheduled,
        r.ActivityUncertain,
        r.LateResultRecorded,
    )
)
