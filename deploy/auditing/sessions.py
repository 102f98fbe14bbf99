"""One session's records of a live namespace, from the topics alone: an audit does not ask the views where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...events.keys import partition_of, session_key, session_part
from ...events.log.protocol import Isolation, Log, Place, Record
from ...events.topics import Topics
from ...projections.audit.slices import Tell, quiet
from ..telling.reading import to_the_end

TELL_EVERY = 1_000


def home_of(log: Log, topic: str, session: tuple[str, str]) -> Place:
    """The partition in which all of the session's records of this topic are."""
    return Place(topic, partition_of(session_key(*session), log.partitions(topic)))


def records_of(
    log: Log, places: list[Place], wanted: Callable[[bytes | None], bool], tell: Tell = quiet
) -> Iterator[Record]:
    """The records with these keys, partition after partition, each in its order."""
    ends = log.ends(places, Isolation.COMMITTED)
    expected = sum(end - start for start, end in ends.values())
    count = 0
    for place in places:
        for record in to_the_end(log, {place: ends[place][0]}):
            count += 1
            if count % TELL_EVERY == 0:
                tell("reading", count, expected)
            if wanted(record.key):
                yield record


def of_session(
    log: Log, topics: Topics, session: tuple[str, str], tell: Tell = quiet
) -> tuple[list[Record], list[Record]]:
    """Its events, and its snapshots with what lies beside them."""
    key = session_key(*session)

    def own(other: bytes | None) -> bool:
        return session_part(other) == key

    events, snapshots = (
        list(records_of(log, [home_of(log, topic, session)], own, tell))
        for topic in (topics.events, topics.snapshots)
    )
    return events, snapshots
