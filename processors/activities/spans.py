"""Parts of partitions that are read to their ends, once, beside what a consumer group reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...events.log.protocol import (
    EndOfPartition,
    Isolation,
    Log,
    LogFault,
    OffsetGone,
    Place,
    Record,
)

MARGIN_MS = 10_000
"""How far clocks may differ: what came at some time is looked for that long before it."""

IDLE_POLLS_MAX = 200
"""Empty polls before a scan gives up, 20 s in all: a pending transaction is settled by the broker before that."""

RECORDS_MAX = 2_000

POLL_MS = 100


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a partition."""

    start: int
    end: int


def spans_since(log: Log, places: Iterable[Place], since_ms: int) -> dict[Place, Span]:
    """All that came at that time or later, pending transactions included; raises `LogFault`."""
    asked = list(places)
    starts = log.offsets_at(asked, max(0, since_ms - MARGIN_MS))
    ends = log.ends(asked, Isolation.UNCOMMITTED)
    return {p: Span(max(starts[p], first), end) for p, (first, end) in ends.items()}


def records_in(log: Log, spans: Mapping[Place, Span]) -> Iterator[Record]:
    """Reads the spans to their ends, or raises `LogFault`: half an answer is none."""
    left = {place: span.end for place, span in spans.items() if span.start < span.end}
    if not left:
        return
    idle_polls = 0
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign({place: spans[place].start for place in left})
        while left:
            items = reader.poll(RECORDS_MAX, POLL_MS)
            for item in items:
                place = Place(item.topic, item.partition)
                reached = item.offset if isinstance(item, EndOfPartition) else item.offset + 1
                if place not in left:
                    continue
                if isinstance(item, Record) and item.offset < left[place]:
                    yield item
                if reached >= left[place]:
                    del left[place]
            idle_polls = 0 if items else idle_polls + 1
            if idle_polls > IDLE_POLLS_MAX:
                raise LogFault(f"a transaction may be open: {_told(left)} unread")
    except OffsetGone as gone:  # retention was quicker: the next look-up begins behind it
        raise LogFault(str(gone)) from gone
    finally:
        reader.close()


def _told(left: Mapping[Place, int]) -> str:
    return ", ".join(f"{place.topic}[{place.partition}] to {end}" for place, end in left.items())
