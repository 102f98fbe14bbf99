"""Which attempts have a result in the log already, although their tasks are delivered again.

A killed worker leaves tasks whose results it had sent and whose offsets it had not committed. They come back to
another worker, which must not run them again: the log knows. Asked for the first of them, this reads ahead in the
tasks (`AHEAD_MAX` at most) and then through the commands once, from the time of the earliest that still can run.

- Memory is bounded by what was read ahead, whatever lies in the commands: only results asked for are kept.
- After a long outage most tasks are past their deadlines by the log's clock; they ask for nothing.
- Headers only say where to look: a result counts for the session, activity and attempt that its bytes name, and only
  under that session's key and in that key's partition, which is how the session processor takes it: a copy elsewhere
  is a dead letter, and must not keep a task from being run.
- Only what a key vouches for that this worker knows counts, too: a stranger's result must not keep a task from being
  run. So workers of one queue share a key, or know the public halves of each other's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog

from ...commands.check import Refusal
from ...commands.identity import INSECURE, Identity
from ...commands.models import CompleteActivity, FailActivity
from ...commands.wire import read_command
from ...events.codec import decode_task
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import find
from ...events.keys import attempt_id, effect_key, partition_of, session_key
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
"""How far brokers' clocks may differ: a result is looked for that long before its task."""

AHEAD_MAX = 50_000
"""Tasks that one look-up answers for, over all partitions; about 20 MB while it lasts."""

TAIL = 50
"""Offsets before a partition's end from which the log's time is taken; some of them may be markers."""

IDLE_POLLS_MAX = 200
"""Empty polls before a scan gives up, 20 s in all: a pending transaction is settled by the broker before that."""

RECORDS_MAX = 2_000

POLL_MS = 100

_TYPES = frozenset({b"wakeful.v1.CompleteActivity", b"wakeful.v1.FailActivity"})

logger = structlog.get_logger("wakeful.worker")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a partition."""

    start: int
    end: int


class Settled:
    """The command ids of results found by the last look-up, and up to which offsets of the tasks it answers."""

    def __init__(
        self,
        log: Log,
        commands_topic: str,
        *,
        late_ms: int,
        ahead_max: int | None = None,
        identity: Identity = INSECURE,
    ) -> None:
        """`late_ms`: how far past its deadline a task is not run any more, so that nobody asks for its result.

        `ahead_max` is for how many tasks one look-up answers, `AHEAD_MAX` where nothing else is said.
        """
        ahead_max = AHEAD_MAX if ahead_max is None else ahead_max
        if ahead_max < 1:
            raise ValueError(f"ahead_max is {ahead_max}, it must be at least 1")
        self._log = log
        self._topic = commands_topic
        self._late_ms = late_ms
        self._ahead_max = ahead_max
        self._identity = identity
        self._found: set[str] = set()
        self._upto: dict[Place, int] = {}
        self.scans = 0
        self.scanned = 0

    def __contains__(self, command_id: str) -> bool:
        return command_id in self._found

    @property
    def known(self) -> int:
        """How many results are held in memory."""
        return len(self._found)

    def answers_for(self, place: Place, offset: int) -> bool:
        """Whether the last look-up was told of the task at this offset."""
        return offset < self._upto.get(place, 0)

    def forget(self) -> None:
        """Drops what was found, for a new assignment or when its old tasks are all seen."""
        self._found = set()
        self._upto = {}

    def look_up(self, tasks: Mapping[Place, Span], log_ms: int) -> int:
        """Answers for the tasks at the beginning of each span, as of now; what was found before is dropped.

        Gives the log's time, by which tasks past their deadlines were left out: whoever asks must not run them.
        """
        self.forget()
        width = max(1, self._ahead_max // max(1, len(tasks)))
        firsts = self._log.ends(list(tasks), Isolation.COMMITTED)
        starts = {place: max(span.start, firsts[place][0]) for place, span in tasks.items()}
        tails = {p: Span(max(starts[p], s.end - TAIL), s.end) for p, s in tasks.items()}
        ahead = {p: Span(starts[p], min(s.end, starts[p] + width)) for p, s in tasks.items()}
        log_ms = max([log_ms, *(record.timestamp_ms for record in self._records(tails))])
        asked: set[str] = set()
        since_ms: int | None = None
        for record in self._records(ahead):
            command_id = self._asks_for(record, log_ms)
            if command_id is not None:
                asked.add(command_id)
                at_ms = record.timestamp_ms
                since_ms = at_ms if since_ms is None else min(since_ms, at_ms)
        found = set() if since_ms is None else self.found_among(asked, since_ms)
        self._found, self._upto = found, {place: span.end for place, span in ahead.items()}
        return log_ms

    def found_among(self, asked: set[str], since_ms: int) -> set[str]:
        """Which of these have a result, their tasks being of that time or later; raises `LogFault`."""
        self.scans += 1
        since_ms = max(0, since_ms - MARGIN_MS)
        places = [Place(self._topic, n) for n in range(self._log.partitions(self._topic))]
        starts = self._log.offsets_at(places, since_ms)
        ends = self._log.ends(places, Isolation.UNCOMMITTED)
        spans = {p: Span(max(starts[p], first), end) for p, (first, end) in ends.items()}
        found = set()
        for record in self._records(spans):
            self.scanned += 1
            command_id = result_id(record, self._identity)
            if command_id in asked and _is_at_home(record, len(places)):
                found.add(command_id)
        logger.debug("results looked up", asked=len(asked), found=len(found), since_ms=since_ms)
        return found

    def _asks_for(self, record: Record, log_ms: int) -> str | None:
        try:
            task = decode_task(record.value, record.headers)
        except Undecodable:
            return None  # it goes to the dead letters when it is taken
        if task.deadline_ms + self._late_ms <= log_ms:
            return None
        return attempt_id(task.idempotency_key, task.attempt)

    def _records(self, spans: Mapping[Place, Span]) -> Iterator[Record]:
        """Reads the spans to their ends, or raises `LogFault`: half an answer is none."""
        left = {place: span.end for place, span in spans.items() if span.start < span.end}
        if not left:
            return
        idle_polls = 0
        reader = self._log.reader(Isolation.COMMITTED)
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


def result_id(record: Record, identity: Identity = INSECURE) -> str | None:
    """The id of the attempt whose result this is, as the session processor would take it; null for all else.

    Whether it lies in the partition of its key is asked of those that matter: there are many more of the others.
    """
    type_ = find(record.headers, "ce_type")
    if type_ is not None and type_ not in _TYPES:
        return None
    try:
        command, stored = read_command(record.value, record.headers)
        header, body = command.header, command.body
        if not isinstance(body, CompleteActivity | FailActivity):
            return None
        key = session_key(header.tenant, header.session_id)
    except (Undecodable, InvalidKey):
        return None  # the session processor sends it to the dead letters; it settles nothing
    if record.key != key or isinstance(identity.check(command, stored, record), Refusal):
        return None  # the same
    own = effect_key(header.tenant, header.session_id, body.activity_id)
    return attempt_id(own, body.attempt)


def _is_at_home(record: Record, partitions: int) -> bool:
    return record.partition == partition_of(record.key or b"", partitions)


def _told(left: Mapping[Place, int]) -> str:
    return ", ".join(f"{place.topic}[{place.partition}] to {end}" for place, end in left.items())
