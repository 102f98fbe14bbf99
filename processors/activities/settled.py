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
- A key that is revoked since vouches for nothing, but what was recorded under it stays: see `accepted`.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from ...commands.check import Refusal
from ...commands.identity import INSECURE, Identity
from ...commands.keyring import REVOKED_KEY
from ...commands.models import CompleteActivity, FailActivity
from ...commands.wire import read_command
from ...events.codec import decode_task
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import find
from ...events.keys import attempt_id, effect_key, partition_of, session_key
from ...events.log.protocol import Isolation, Log, Place, Record
from ...events.topics import Topics
from .accepted import recorded_among
from .spans import Span, records_in, spans_since

AHEAD_MAX = 50_000
"""Tasks that one look-up answers for, over all partitions; about 20 MB while it lasts."""

TAIL = 50
"""Offsets before a partition's end from which the log's time is taken; some of them may be markers."""

_TYPES = frozenset({b"wakeful.v1.CompleteActivity", b"wakeful.v1.FailActivity"})

logger = structlog.get_logger("wakeful.worker")


class Settled:
    """The command ids of results found by the last look-up, and up to which offsets of the tasks it answers."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
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
        self._topics = topics
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
        log_ms = max([log_ms, *(record.timestamp_ms for record in records_in(self._log, tails))])
        asked: set[str] = set()
        since_ms: int | None = None
        for record in records_in(self._log, ahead):
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
        topic = self._topics.commands
        places = [Place(topic, n) for n in range(self._log.partitions(topic))]
        found: set[str] = set()
        doubted: dict[str, bytes] = {}
        for record in records_in(self._log, spans_since(self._log, places, since_ms)):
            self.scanned += 1
            command_id, refusal = _reported(record, self._identity)
            if command_id not in asked or not _is_at_home(record, len(places)):
                continue
            if refusal is None:
                found.add(command_id)
            elif refusal.reason == REVOKED_KEY:
                doubted[command_id] = record.key or b""
        if left := {one: key for one, key in doubted.items() if one not in found}:
            found |= recorded_among(self._log, self._topics.events, left, since_ms)
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


def result_id(record: Record, identity: Identity = INSECURE) -> str | None:
    """The id of the attempt whose result this is, as the session processor would take it; null for all else.

    Whether it lies in the partition of its key is asked of those that matter: there are many more of the others.
    """
    command_id, refusal = _reported(record, identity)
    return command_id if refusal is None else None


def _reported(record: Record, identity: Identity) -> tuple[str | None, Refusal | None]:
    """Whose result this says to be, and why nobody vouches for it, if so."""
    type_ = find(record.headers, "ce_type")
    if type_ is not None and type_ not in _TYPES:
        return None, None
    try:
        command, stored = read_command(record.value, record.headers)
        header, body = command.header, command.body
        if not isinstance(body, CompleteActivity | FailActivity):
            return None, None
        key = session_key(header.tenant, header.session_id)
    except (Undecodable, InvalidKey):
        return None, None  # the session processor sends it to the dead letters; it settles nothing
    if record.key != key:
        return None, None  # the same
    checked = identity.check(command, stored, record)
    own = effect_key(header.tenant, header.session_id, body.activity_id)
    return attempt_id(own, body.attempt), checked if isinstance(checked, Refusal) else None


def _is_at_home(record: Record, partitions: int) -> bool:
    return record.partition == partition_of(record.key or b"", partitions)
