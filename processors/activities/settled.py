"""Which attempts have a result in the log already, although their tasks are delivered again.

A killed worker leaves tasks whose results it had sent and whose offsets it had not committed. They come back to
another worker, which must not run them again: the log knows. One scan of the commands topic answers for all tasks
of an assignment, from the time of the earliest of them to the topic's end.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...commands.models import CompleteActivity, FailActivity
from ...commands.wire import decode_command
from ...events.errors import Undecodable
from ...events.headers import find
from ...events.log.protocol import EndOfPartition, Isolation, Log, LogFault, Place, Record

MARGIN_MS = 10_000
"""How far brokers' clocks may differ: a result is looked for that long before its task."""

IDLE_POLLS_MAX = 200
"""Empty polls before a scan gives up, 20 s in all: a pending transaction is settled by the broker before that."""

RECORDS_MAX = 2_000

POLL_MS = 100

_TYPES = frozenset({b"wakeful.v1.CompleteActivity", b"wakeful.v1.FailActivity"})


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a partition that still has to be read."""

    start: int
    end: int


class Settled:
    """The ids of results found so far; grows when an earlier task asks, never shrinks until `forget`."""

    def __init__(self, log: Log, commands_topic: str) -> None:
        self._log = log
        self._topic = commands_topic
        self._ids: set[str] = set()
        self._since_ms: int | None = None
        self._starts: dict[Place, int] = {}
        self.scans = 0

    def __contains__(self, command_id: str) -> bool:
        return command_id in self._ids

    @property
    def known(self) -> int:
        """How many results are held in memory."""
        return len(self._ids)

    def forget(self) -> None:
        """Drops what was found, for a new assignment or when its old tasks are all seen."""
        self._ids.clear()
        self._starts.clear()
        self._since_ms = None

    def cover(self, task_ms: int) -> None:
        """Makes sure that every result of a task appended at `task_ms` or later is known, as of the first scan."""
        if self._since_ms is not None and self._since_ms <= max(0, task_ms - MARGIN_MS):
            return
        since_ms = max(
            0, task_ms - 2 * MARGIN_MS
        )  # the next task asked for may be a little earlier
        places = [Place(self._topic, n) for n in range(self._log.partitions(self._topic))]
        starts = self._log.offsets_at(places, since_ms)
        ends = self._log.ends(places, Isolation.UNCOMMITTED)
        spans = {
            place: Span(max(starts[place], first), self._starts.get(place, end))
            for place, (first, end) in ends.items()
        }
        self._scan({place: span for place, span in spans.items() if span.start < span.end})
        self._starts = {place: span.start for place, span in spans.items()}
        self._since_ms = since_ms

    def _scan(self, spans: dict[Place, Span]) -> None:
        """Reads the spans to their ends, or raises `LogFault`: half an answer is none."""
        if not spans:
            return
        self.scans += 1
        left = {place: span.end for place, span in spans.items()}
        idle_polls = 0
        reader = self._log.reader(Isolation.COMMITTED)
        try:
            reader.assign({place: span.start for place, span in spans.items()})
            while left:
                items = reader.poll(RECORDS_MAX, POLL_MS)
                for item in items:
                    self._read(item, left)
                idle_polls = 0 if items else idle_polls + 1
                if idle_polls > IDLE_POLLS_MAX:
                    told = ", ".join(
                        f"{p.topic}[{p.partition}] to {end}" for p, end in left.items()
                    )
                    raise LogFault(
                        f"recorded results cannot be read, a transaction may be open: {told} unread"
                    )
        finally:
            reader.close()

    def _read(self, item: Record | EndOfPartition, left: dict[Place, int]) -> None:
        place = Place(item.topic, item.partition)
        if isinstance(item, Record):
            self._note(item)
            reached = item.offset + 1
        else:
            reached = item.offset
        if place in left and reached >= left[place]:
            del left[place]

    def _note(self, record: Record) -> None:
        try:
            found = result_id(record)
        except Undecodable:
            return  # the session processor sends it to the dead letters; it settles nothing
        if found is not None:
            self._ids.add(found)


def result_id(record: Record) -> str | None:
    """The command id of a worker's result; null for any other command."""
    type_, id_ = find(record.headers, "ce_type"), find(record.headers, "ce_id")
    if type_ is not None and id_ is not None:
        return id_.decode("utf-8", "replace") if type_ in _TYPES else None
    command = decode_command(record.value, record.headers)
    if isinstance(command.body, CompleteActivity | FailActivity):
        return command.header.command_id
    return None
