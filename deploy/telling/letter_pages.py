"""Dead letters in pages, the newest first: a page says up to where in each partition it has come, and the next goes on there.

Partitions are merged by the time of what is next in each, so no letter comes twice and none is passed over, whatever the
clocks of those who wrote them said, and whatever was added meanwhile. Marks lie behind their letters: each page reads to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...events.log.protocol import Log, Place, Record
from ...events.topics import Topics
from .dealing import SPREAD, Mark, ends_of, id_of, read_letters

Below = Mapping[int, int]
"""By partition, the offset below which a page goes on; a partition that is not in it has no more."""


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Letters, the newest first, with the marks of those that were dealt with; `below` is null on the last page."""

    records: list[Record]
    marks: Mapping[str, Mark]
    below: Below | None


def page_of_letters(
    log: Log,
    topics: Topics,
    limit: int,
    *,
    mine: Callable[[Record], bool],
    below: Below | None = None,
    all_of_them: bool = False,
) -> LetterPage:
    """The next so many that are `mine`, and that nobody has dealt with, unless all of them are asked for."""
    ends = ends_of(log, topics)
    tops = {
        place: end if below is None else min(end, below.get(place.partition, first))
        for place, (first, end) in ends.items()
    }
    back = limit * SPREAD
    while True:
        starts = {place: max(first, tops[place] - back) for place, (first, _) in ends.items()}
        left = {place: at for place, at in starts.items() if at < tops[place]}
        found = read_letters(log, left)
        shown = found.records if all_of_them else found.open
        waiting: dict[Place, list[Record]] = {place: [] for place in left}
        for record in sorted(shown, key=lambda r: r.offset):
            place = Place(record.topic, record.partition)
            if record.offset < tops[place] and mine(record):
                waiting[place].append(record)
        whole = {place for place, at in left.items() if at <= ends[place][0]}
        chosen = _merged(waiting, whole, limit + 1)
        if chosen is not None:
            return _paged(chosen, limit, {place: tops[place] for place in left}, found.marks)
        back *= 4


def _merged(
    waiting: Mapping[Place, list[Record]], whole: set[Place], count: int
) -> list[Record] | None:
    """The next so many of all partitions; null where one of them may have something newer that was not read yet."""
    chosen: list[Record] = []
    while len(chosen) < count:
        if any(not records and place not in whole for place, records in waiting.items()):
            return None
        heads = [records[-1] for records in waiting.values() if records]
        if not heads:
            break
        newest = max(heads, key=lambda r: (r.timestamp_ms, r.partition))
        chosen.append(waiting[Place(newest.topic, newest.partition)].pop())
    return chosen


def _paged(
    chosen: list[Record], limit: int, tops: dict[Place, int], marks: Mapping[str, Mark]
) -> LetterPage:
    shown = chosen[:limit]
    for record in shown:
        tops[Place(record.topic, record.partition)] = record.offset
    below = {place.partition: top for place, top in tops.items()} if len(chosen) > limit else None
    return LetterPage(shown, {i: marks[i] for r in shown if (i := id_of(r)) in marks}, below)
