"""What an audit reads: committed records of every topic, the group's offsets, and the rows of the views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events.errors import Transient, Undecodable
from ...events.log.protocol import EndOfPartition, Headers, Isolation, Log, Place, Record
from ...events.signed import KEY_HEADER
from ...events.topics import Topics
from ..rows import Key, Rows
from ..views import Gap

READ_MAX = 1_000
POLL_MS = 1_000
EMPTY_POLLS_MAX = 30
"""Polls without an answer before reading a topic is given up."""

NEVER_MS = 1 << 62
SKEW_MS = 3_600_000
"""How far the clocks of processors may be apart, where retention is concerned."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: its number in the list of invariants, or a name where the list has none; where, and what."""

    invariant: int | str
    session: str
    offset: int | None
    sentence: str
    seq: int | None = None
    """The event of the session that does not fit, where it is at one."""

    @property
    def order(self) -> tuple[str, bool, int]:
        """By session, and in it the first place first; what is at none of its events comes last."""
        return self.session, self.seq is None, self.offset or 0

    def __str__(self) -> str:
        at = "" if self.offset is None else f" at offset {self.offset}"
        return f"{self.promise} {self.session or '-'}{at}: {self.sentence}"

    @property
    def promise(self) -> str:
        """How people call it: `I14`, or its name."""
        return f"I{self.invariant}" if isinstance(self.invariant, int) else self.invariant


@dataclass(frozen=True, slots=True)
class Asked:
    """What an audit needs of a command. `result_of` is the activity and attempt that a worker reports of.

    `expected_seq` is the version of the session that it asked for, `signed_by` the key that its headers name.
    """

    kind: str
    tenant: str
    session_id: str
    command_id: str
    result_of: tuple[str, int] | None
    actor: str = ""
    expected_seq: int | None = None
    signed_by: str | None = None


ReadCommand = Callable[[Record], Asked | None]
"""The command in a record, or none where there is none to read."""


def asked_by(decode_command: Callable[[bytes | None, Headers], Any]) -> ReadCommand:
    """Reads commands with the decoder of whoever knows them: the read side itself does not."""

    def read(record: Record) -> Asked | None:
        try:
            command = decode_command(record.value, record.headers)
        except Undecodable:
            return None
        header, body = command.header, command.body
        kind = type(body).__name__
        result_of = (body.activity_id, body.attempt) if hasattr(body, "attempt") else None
        key = dict(record.headers).get(KEY_HEADER)
        return Asked(
            kind,
            header.tenant,
            header.session_id,
            header.command_id,
            result_of,
            header.actor,
            header.expected_seq,
            None if key is None else key.decode(errors="backslashreplace"),
        )

    return read


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything an audit looks at. Records are in the order of their partitions.

    `committed` has the processors' group offset per commands partition; `rows` and `positions` are the views'
    (none: not audited), `gaps` what they say that they lack, `archived` the sessions that were taken out of them. `quiescent` says that nothing runs and nothing is due, so that liveness counts as well.
    `trimmed` has the first offset of partitions whose start was deleted by retention; `compacted` says that older
    snapshots may be gone: what is gone for that reason is no violation.
    """

    topics: Topics
    partitions: int
    commands: Sequence[Record] = ()
    events: Sequence[Record] = ()
    activities: Sequence[Record] = ()
    outcomes: Sequence[Record] = ()
    snapshots: Sequence[Record] = ()
    dead_letters: Sequence[Record] = ()
    attempts: Sequence[Record] = ()
    committed: Mapping[Place, int] | None = None
    rows: Rows | None = None
    positions: Mapping[Place, int] | None = None
    gaps: Sequence[Gap] = ()
    archived: frozenset[Key] = frozenset()
    quiescent: bool = False
    trimmed: Mapping[Place, int] = field(default_factory=dict)
    compacted: bool = False
    complete_since_ms: int | None = None
    """See `History.since_ms`; given where these records are a part of those that it is found from."""

    @property
    def records(self) -> Iterable[Record]:
        """All records that a processor wrote."""
        for topic in (
            self.events,
            self.activities,
            self.outcomes,
            self.snapshots,
            self.dead_letters,
        ):
            yield from topic


class Kept:
    """What retention has left of tasks, outcomes and dead letters, by the oldest record of each trimmed partition."""

    def __init__(self, topics: Topics, trimmed: Mapping[Place, int]) -> None:
        self._firsts = {
            place: at for place, at in trimmed.items() if place.topic != topics.commands
        }
        self._oldest_ms = dict.fromkeys(self._firsts, NEVER_MS)

    def see(self, record: Record) -> None:
        """Takes note of one record; of any topic, in any order."""
        place = Place(record.topic, record.partition)
        if record.offset >= self._firsts.get(place, record.offset + 1):
            self._oldest_ms[place] = min(self._oldest_ms[place], record.timestamp_ms)

    @property
    def since_ms(self) -> int:
        """From when on tasks and outcomes are still complete."""
        return max((oldest_ms + SKEW_MS for oldest_ms in self._oldest_ms.values()), default=0)


def evidence_from_log(
    log: Log,
    topics: Topics,
    queues: Iterable[str],
    *,
    committed: Mapping[Place, int] | None = None,
    rows: Rows | None = None,
    positions: Mapping[Place, int] | None = None,
    gaps: Sequence[Gap] = (),
    archived: frozenset[Key] = frozenset(),
    quiescent: bool = False,
    compacted: bool = False,
) -> Evidence:
    """Reads every topic of the namespace from its start to its end, read_committed."""
    activities = activity_topics(topics, queues)
    return Evidence(
        topics=topics,
        partitions=log.partitions(topics.events),
        commands=read_topic(log, topics.commands),
        events=read_topic(log, topics.events),
        activities=[record for topic in activities for record in read_topic(log, topic)],
        outcomes=read_topic(log, topics.outcomes),
        snapshots=read_topic(log, topics.snapshots),
        dead_letters=read_topic(log, topics.dead_letters),
        attempts=read_topic(log, topics.attempts),
        committed=committed,
        rows=rows,
        positions=positions,
        gaps=gaps,
        archived=archived,
        quiescent=quiescent,
        trimmed=trimmed_of(log, topics, activities),
        compacted=compacted,
    )


def activity_topics(topics: Topics, queues: Iterable[str]) -> list[str]:
    """The topics that tasks of these queues lie in."""
    return [
        topics.activities(queue, once=once)
        for queue in sorted(set(queues))
        for once in (False, True)
    ]


def trimmed_of(log: Log, topics: Topics, activities: Iterable[str]) -> dict[Place, int]:
    """The first offsets of partitions whose start was deleted by retention."""
    names = (topics.commands, topics.outcomes, topics.dead_letters, *activities)
    places = [Place(name, partition) for name in names for partition in range(log.partitions(name))]
    ends = log.ends(places, Isolation.COMMITTED)
    return {place: start for place, (start, _) in ends.items() if start > 0}


def read_topic(log: Log, topic: str) -> list[Record]:
    """The topic's committed records, partition after partition; `Transient` if the log falls silent."""
    places = places_of(log, topic)
    found: dict[Place, list[Record]] = {place: [] for place in places}
    for record in stream_topic(log, topic):
        found[Place(record.topic, record.partition)].append(record)
    return [record for place in places for record in found[place]]


def places_of(log: Log, topic: str) -> list[Place]:
    """The topic's partitions."""
    return [Place(topic, partition) for partition in range(log.partitions(topic))]


def stream_topic(log: Log, topic: str) -> Iterator[Record]:
    """The topic's committed records as they come, in order within a partition; `Transient` if the log falls silent."""
    places = places_of(log, topic)
    ends = log.ends(places, Isolation.COMMITTED)
    wanted = {place: start for place, (start, end) in ends.items() if start < end}
    if not wanted:
        return
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign(wanted)
        silent = 0
        while wanted and silent < EMPTY_POLLS_MAX:
            polled = reader.poll(READ_MAX, POLL_MS)
            silent = 0 if polled else silent + 1
            for item in polled:
                place = Place(item.topic, item.partition)
                if isinstance(item, Record):
                    yield item
                reached = item.offset if isinstance(item, EndOfPartition) else item.offset + 1
                if place in wanted and reached >= ends[place][1]:
                    del wanted[place]
    finally:
        reader.close()
    if wanted:
        raise Transient(
            f"no answer while reading {topic}: {len(wanted)} of {len(places)} partitions are not at their end"
        )
