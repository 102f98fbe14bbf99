"""A namespace as an audit reads it: its topics, what its processors have committed, and its views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...events.log.kafka_survey import committed_offsets, topic_names
from ...events.log.protocol import Isolation, Log, Place, Record
from ...projections.archive import archived_sessions
from ...projections.audit import Evidence
from ...projections.audit.evidence import activity_topics, places_of, stream_topic, trimmed_of
from ...projections.audit.slices import Source
from ...projections.postgres import stored_gaps
from ...projections.queries import Queries
from ...projections.stored import stream_rows
from ...projections.views import Gap
from ..processes import processors_group
from ..settings import Settings

READS_MAX = 5
"""Times the topics are read again because they moved meanwhile."""

VIEWS_MS = 10_000
"""How long the views may take to come to where the log is."""


def topics_of(given: Settings) -> list[str]:
    """The topics that processors read and write, control apart; tasks' topics are those that are there."""
    topics = given.topics
    prefix = _activities_prefix(given)
    names = topic_names(given.kafka_servers, prefix)
    queues = {name.removeprefix(prefix).removesuffix(".v1").removesuffix(".once") for name in names}
    return [
        topics.commands,
        topics.events,
        *(name for name in activity_topics(topics, queues) if name in names),
        topics.outcomes,
        topics.snapshots,
        topics.dead_letters,
        topics.attempts,
    ]


def ends_of(log: Log, names: Sequence[str]) -> dict[Place, tuple[int, int]]:
    """Where each partition of these topics begins and ends, for who reads what is committed."""
    places = [place for name in names for place in places_of(log, name)]
    return log.ends(places, Isolation.COMMITTED)


def committed_of(given: Settings, log: Log) -> dict[Place, int] | None:
    """Up to where the processors have read the commands; null where they have committed nothing yet."""
    commands = places_of(log, given.topics.commands)
    return committed_offsets(given.kafka_servers, processors_group(given), commands) or None


def left_of(given: Settings, log: Log, names: Sequence[str]) -> dict[Place, int]:
    """Where what retention has left begins, in the partitions of which it has taken something."""
    activities = [name for name in names if name.startswith(_activities_prefix(given))]
    return trimmed_of(log, given.topics, activities)


def live_source(
    given: Settings,
    log: Log,
    asked: Queries | None,
    ends: Mapping[Place, tuple[int, int]],
    *,
    quiescent: bool = False,
) -> Source:
    """The namespace up to these ends; with its views where somebody may ask them, once they have come so far."""
    topics = given.topics
    names = topics_of(given)
    positions = None
    gaps: Sequence[Gap] = ()
    archived: frozenset[tuple[str, ...]] = frozenset()
    if asked is not None:
        events = {place: end for place, (_, end) in ends.items() if place.topic == topics.events}
        asked.wait_for(events, timeout_ms=VIEWS_MS)
        positions = asked.positions()
        gaps = stored_gaps(given.postgres_url, given.namespace)
        archived = archived_sessions(given.postgres_url, given.namespace)
    evidence = Evidence(
        topics=topics,
        partitions=log.partitions(topics.events),
        committed=committed_of(given, log),
        positions=positions,
        gaps=gaps,
        archived=archived,
        quiescent=quiescent,
        trimmed=left_of(given, log, names),
    )
    return Source(
        evidence,
        records=partial(_records, log, names),
        rows=None if asked is None else partial(stream_rows, given.postgres_url, given.namespace),
        expected=sum(end - start for start, end in ends.values()),
    )


def events_source(given: Settings, log: Log) -> Source:
    """The events alone: for whoever drives sessions again."""
    topics = given.topics
    ends = ends_of(log, [topics.events])
    return Source(
        Evidence(topics, log.partitions(topics.events)),
        records=partial(_records, log, [topics.events]),
        rows=None,
        expected=sum(end - start for start, end in ends.values()),
    )


def _activities_prefix(given: Settings) -> str:
    return f"{given.namespace}.activities."


def _records(log: Log, names: Sequence[str]) -> Iterator[Record]:
    for name in names:
        yield from stream_topic(log, name)
