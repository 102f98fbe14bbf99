"""Reads topics for people: a session's last events, the last dead letters, and whatever comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from ...events.codec import decode_event
from ...events.errors import Transient, Undecodable
from ...events.keys import partition_of, session_key
from ...events.log.protocol import EndOfPartition, Isolation, Log, Place, Record
from ...events.records import CommandRefused, Event
from ...events.topics import Topics

RECORDS_MAX = 1_000
POLL_MS = 200
EMPTY_POLLS_MAX = 50
"""Polls without an answer before reading is given up."""


def last_events(
    log: Log, topics: Topics, tenant: str, session_id: str, since_ms: int, count: int
) -> list[tuple[Event, Record]]:
    """The session's last events since that time, oldest first."""
    key = session_key(tenant, session_id)
    place = Place(topics.events, partition_of(key, log.partitions(topics.events)))
    start = log.offsets_at([place], since_ms)[place]
    last: deque[tuple[Event, Record]] = deque(maxlen=count)
    for record in to_the_end(log, {place: start}):
        if record.key != key:
            continue
        try:
            last.append((decode_event(record.value, record.headers), record))
        except Undecodable:
            continue  # the session is held for it, which its status says
    return list(last)


def refusal_of(
    log: Log, topics: Topics, session: tuple[str, str], command_id: str, since_ms: int
) -> CommandRefused | None:
    """How the command of this id was refused since that time; null where it was not. `session` is tenant and id."""
    key = session_key(*session)
    place = Place(topics.events, partition_of(key, log.partitions(topics.events)))
    for record in to_the_end(log, {place: log.offsets_at([place], since_ms)[place]}):
        if record.key != key:
            continue
        try:
            event = decode_event(record.value, record.headers)
        except Undecodable:
            continue
        body = event.body
        if isinstance(body, CommandRefused) and event.envelope.cause.command_id == command_id:
            return body
    return None


def to_the_end(log: Log, positions: Mapping[Place, int]) -> Iterator[Record]:
    """Committed records from these positions to the ends as of now; `Transient` if the log falls silent."""
    ends = log.ends(list(positions), Isolation.COMMITTED)
    wanted = {place: max(at, ends[place][0]) for place, at in positions.items()}
    wanted = {place: at for place, at in wanted.items() if at < ends[place][1]}
    if not wanted:
        return
    reader = log.reader(Isolation.COMMITTED)
    silent = 0
    try:
        reader.assign(wanted)
        while wanted:
            polled = reader.poll(RECORDS_MAX, POLL_MS)
            silent = 0 if polled else silent + 1
            if silent > EMPTY_POLLS_MAX:
                raise Transient(f"no answer while reading {next(iter(wanted)).topic}: try again")
            for item in polled:
                place = Place(item.topic, item.partition)
                if isinstance(item, Record):
                    yield item
                reached = item.offset if isinstance(item, EndOfPartition) else item.offset + 1
                if reached >= ends[place][1]:
                    wanted.pop(place, None)
    finally:
        reader.close()


def as_they_come(log: Log, positions: Mapping[Place, int]) -> Iterator[Record | None]:
    """Committed records from these positions on, for ever; null whenever nothing came for a moment."""
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign(positions)
        while True:
            polled = reader.poll(RECORDS_MAX, POLL_MS)
            for item in polled:
                if isinstance(item, Record):
                    yield item
            if not polled:
                yield None
    finally:
        reader.close()
