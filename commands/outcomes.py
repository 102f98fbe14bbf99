"""What became of a session, for whoever asked: its outcomes, read from the one partition they lie in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog

from ..events.codec import decode_outcome
from ..events.errors import Transient, Undecodable
from ..events.keys import partition_of, session_key
from ..events.log.protocol import Isolation, Log, Place, Record
from ..events.records import Outcome
from ..events.topics import Topics

POLL_MS = 100

RECORDS_MAX = 500

FINAL = ("completed", "failed", "cancelled")
"""The outcomes after which nothing more comes. The others: `reply`; `approval_wanted` and `uncertain`, which wait for
a person (`Client.decide`, `Client.resolve`); `held`, which waits for an operator; and `refused`, of one command."""

logger = structlog.get_logger("wakeful.client")


class NoOutcome(Transient):
    """The outcome waited for has not come yet; the session may still reach it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An outcome and its offset: pass `offset + 1` as `start` to go on behind it."""

    outcome: Outcome
    offset: int


def outcomes(
    log: Log,
    topics: Topics,
    tenant: str,
    session_id: str,
    *,
    since_ms: int = 0,
    start: int | None = None,
    follow_ms: int = 0,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[Seen]:
    """The session's outcomes in order, from the offset `start` or the time `since_ms` on.

    Reads to the end that the partition has now, and goes on with what comes within `follow_ms` from now.
    """
    give_up = monotonic() + follow_ms / 1000
    key = session_key(tenant, session_id)
    place = Place(topics.outcomes, partition_of(key, log.partitions(topics.outcomes)))
    end = log.ends([place], Isolation.COMMITTED)[place][1]
    position = log.offsets_at([place], since_ms)[place] if start is None else start
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign({place: position})
        while position < end or monotonic() < give_up:
            for item in reader.poll(RECORDS_MAX, POLL_MS):
                if isinstance(item, Record):
                    position = item.offset + 1
                    seen = _seen(item, key)
                    if seen is not None:
                        yield seen
                else:
                    position = max(position, item.offset)
    finally:
        reader.close()


def wait_for_outcome(
    log: Log,
    topics: Topics,
    tenant: str,
    session_id: str,
    *,
    kinds: Sequence[str] = FINAL,
    since_ms: int = 0,
    start: int | None = None,
    timeout_ms: int = 30_000,
    monotonic: Callable[[], float] = time.monotonic,
) -> Seen:
    """The first outcome of one of these kinds; `NoOutcome` names what came instead within `timeout_ms`."""
    came: list[str] = []
    for seen in outcomes(
        log,
        topics,
        tenant,
        session_id,
        since_ms=since_ms,
        start=start,
        follow_ms=timeout_ms,
        monotonic=monotonic,
    ):
        if seen.outcome.kind in kinds:
            return seen
        came.append(seen.outcome.kind)
    raise NoOutcome(
        f"no outcome of {', '.join(kinds)} within {timeout_ms} ms (came: {', '.join(came) or 'nothing'})",
        session=session_id,
    )


def _seen(record: Record, key: bytes) -> Seen | None:
    if record.key != key:
        return None
    try:
        return Seen(decode_outcome(record.value, record.headers), record.offset)
    except Undecodable as error:
        logger.warning(
            "outcome cannot be read",
            offset=record.offset,
            partition=record.partition,
            why=str(error),
        )
        return None
