"""The mistakes themselves: functions that take the place of the engine's own, each wrong in one way."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

from ...commands import check as checking
from ...commands import decide as deciding
from ...commands import models as m
from ...commands import reports as reporting
from ...commands.check import Refusal
from ...events import evolve_activities as evolving
from ...events import records as r
from ...events.log.memory import MemoryLog
from ...events.log.memory_producer import MemoryTransactionalProducer
from ...events.log.protocol import Group, Isolation, LogFault, NotYet, Place
from ...events.retries import may_retry
from ...events.state import OpenActivity
from ...events.verdicts import EXEMPT
from ...processors.handler import CommandHandler
from ...processors.loop import Loop
from ...processors.outputs import Folder
from ...processors.partition import Partition
from ...processors.session import Received, Session
from ...processors.simulation.actors import GROUP
from ...processors.workflow import replay
from ...processors.workflow.driver import Stretch

_TRANSACT, _REBALANCE, _COMMIT = Loop._transact, Loop._rebalance, MemoryTransactionalProducer.commit
_RECORD, _FROM_SNAPSHOTS = CommandHandler._record, Partition._from_snapshots
_RESTORE, _HANDLE, _FIRE_DUE = Partition.restore, CommandHandler.handle, CommandHandler._fire_due
_DECISION, _EXTERNAL, _LATE = checking._decision, deciding._external, reporting._late
_SETTLED, _REBUILD, _FOLD_ONE = evolving._settled, replay.rebuild, Folder._fold_one


# The loop


def goes_on(self: Loop, group: Group, shares: Any) -> Iterator[str]:
    """A refused transaction is tried again with today's membership and the same records."""
    try:
        yield from _TRANSACT(self, group, shares)
    except LogFault:
        self._producer.abandon()
        self._producer = self._log.transactional(self._settings.name)
        yield from self._start_producer()
        group.poll(0, 0)
        yield from _TRANSACT(self, group, shares)


def no_seek(self: Loop, group: Group, changes: Any) -> None:
    """A rebalance throws the records of its poll away, and nobody goes back for those of partitions that stay."""
    with mock.patch.object(group, "seek"):
        _REBALANCE(self, group, changes)


def no_rewind(self: Loop, group: Group, fault: LogFault) -> Iterator[str]:
    """A new producer, and on from where the consumer stands."""
    del group, fault
    self._producer.abandon()
    yield "p.abandoned"
    self._producer = self._log.transactional(self._settings.name)
    yield from self._start_producer()


def no_refold(self: Loop, group: Group, fault: LogFault) -> Iterator[str]:
    """Back to the committed offsets, with the states of before: "it was not committed", it hopes."""
    yield from no_rewind(self, group, fault)
    for partition in self._partitions.values():
        if partition.restoring is not None:
            continue
        place = partition.places.commands
        while True:
            try:
                found = group.committed([place])[place]
            except NotYet:
                yield "p.pending_offsets"
            else:
                break
        if found is not None:
            partition.next_offset = found
        group.seek(place, partition.next_offset)


def last_offset(self: Loop, group: Group, shares: Any) -> Iterator[str]:
    """Commits the offset of the last record, as if it were the next one's."""
    producer = self._producer
    with mock.patch.object(
        producer,
        "send_offsets",
        lambda offsets, member: type(producer).send_offsets(
            producer, {place: offset - 1 for place, offset in offsets.items()}, member
        ),
    ):
        yield from _TRANSACT(self, group, shares)


def no_offsets(self: Loop, group: Group, shares: Any) -> Iterator[str]:
    """Offsets are committed beside the transaction, after it."""
    producer = self._producer
    with mock.patch.object(producer, "send_offsets", return_value=None):
        yield from _TRANSACT(self, group, shares)
    group.commit({partition.places.commands: partition.next_offset for partition in shares})


def commits_again(self: MemoryTransactionalProducer) -> dict[Place, int]:
    """Commit failed? Once more, on the same producer."""
    try:
        return _COMMIT(self)
    except LogFault:
        self._broken, self._open = None, True
        return _COMMIT(self)


def stored_first(self: Loop, group: Group, shares: Any) -> Iterator[str]:
    """The store is written when the records are produced, before the commit."""
    folder = self._folder
    fold = folder.fold

    def folded(partition: Partition, records: Any) -> Any:
        share = fold(partition, records)
        position = partition.store.position or 0
        partition.store.write(
            share.changes(), position=position, open_from=position, cause_high=share.cause_high
        )
        return share

    with mock.patch.object(folder, "fold", folded):
        yield from _TRANSACT(self, group, shares)


# Recovery


def committed_end(self: Partition, group: Group) -> Iterator[str]:
    """Restores to what is visible, not to what may become so."""
    log = self._log

    class Blind(MemoryLog):
        def __init__(self) -> None:
            self.__dict__.update(log.__dict__)

        def ends(self, places: Sequence[Place], isolation: Isolation) -> Any:
            del isolation
            return log.ends(places, Isolation.COMMITTED)

    self._log = Blind()
    try:
        yield from _RESTORE(self, group)
    finally:
        self._log = log


def impatient(self: Partition, group: Group) -> Generator[str, None, int | None]:
    """Pending offsets? Takes the last ones that are known."""
    place = self.places.commands
    try:
        return group.committed([place])[place]
    except NotYet:
        yield "p.pending_offsets"
        known: MemoryLog = self._log  # type: ignore[assignment]
        return known.group_offsets(GROUP).get(place)


def mark_ahead(self: Partition) -> int:
    """The mark says that everything up to now has a snapshot, open turns and all."""
    return self.store.position or 0


def snapshots_only(self: Partition) -> Generator[str, None, int]:
    """What has no snapshot is not restored: the mark is not asked."""
    place = self.places.events
    end = self._log.ends([place], Isolation.COMMITTED)[place][1]
    yield from _FROM_SNAPSHOTS(self)
    self.store.write([], position=end, open_from=end, cause_high=-1)
    return end


def actor_of_the_batch(
    self: CommandHandler, session: Session, run: Any, body: r.EventBody, actor: str
) -> None:
    """Whoever spoke to the session first is taken for everybody."""
    if (
        session.state is not None
        and session.state.message is not None
        and run.received.command_hash
    ):
        actor = session.state.message.actor
    _RECORD(self, session, run, body, actor)


# The core


def by_name(state: Any, decision: m.DecideApproval, header: m.CommandHeader) -> Refusal | None:
    """Any open approval will do."""
    if state.approvals:
        return None
    return _DECISION(state, decision, header)


def external_by_name(
    state: Any, command: m.Command, proposals: Any, now_ms: int
) -> list[r.EventBody]:
    body = command.body
    if isinstance(body, m.DecideApproval) and state.approvals:
        body = replace(
            body, proposal_id=state.approvals[0].proposal_id, digest=state.approvals[0].digest
        )
        command = replace(command, body=body)
    return _EXTERNAL(state, command, proposals, now_ms)


def no_digest(state: Any, decision: m.DecideApproval, header: m.CommandHeader) -> Refusal | None:
    found = next((a for a in state.approvals if a.proposal_id == decision.proposal_id), None)
    if found is not None:
        decision = replace(decision, digest=found.digest)
    return _DECISION(state, decision, header)


def late_applied(state: Any, body: m.CompleteActivity | m.FailActivity) -> list[r.EventBody]:
    decided = _LATE(state, body)
    if decided and isinstance(decided[0], r.LateResultRecorded):
        if isinstance(body, m.CompleteActivity):
            return [r.ActivityCompleted(body.activity_id, body.attempt, body.result, body.worker)]
        return [r.ActivityFailed(body.activity_id, body.attempt, body.failure, body.worker)]
    return decided


def any_attempt(running: OpenActivity, attempt: int) -> bool:
    """Whatever result comes while the activity is open is taken for its own."""
    return attempt <= running.attempt


def at_once(policy: Any, attempt: int, failure: Any, *, now_ms: int, name: str) -> int:
    """The next attempt goes out with the failure of the one before: no timer, no back-off."""
    del policy, attempt, failure, name
    return now_ms


def code_of_the_day(policy: Any, attempt: int, failure: Any) -> bool:
    """The policy is looked up when it is needed, and this is what the deployed code says by then."""
    return may_retry(None if policy is None else replace(policy, attempts_max=2), attempt, failure)


def lenient_settled(state: Any, status: str, body: Any, outcome: str, digest: bytes) -> Any:
    open_ids = [a.activity_id for a in state.activities] + [u.activity_id for u in state.uncertain]
    return _SETTLED(state, status, body, outcome, digest) if body.activity_id in open_ids else state


def keeps_all(
    head: Any, state: Any, command: m.Command, command_hash: bytes, encoded: Any, now_ms: int
) -> list[r.EventBody]:
    """A held session keeps whatever comes, repeats and commands of long ago as well."""
    del head, state, command_hash, now_ms
    if isinstance(command.body, m.FireTimer):
        return []
    return [r.CommandParked(type(command.body).__name__, *encoded)]


def owners_clock(self: CommandHandler, session: Session, received: Received) -> Any:
    """A wake-up is believed: what its sender held for due fires now."""
    body = received.command.body
    if isinstance(body, m.FireTimer):
        received = replace(received, timestamp_ms=max(received.timestamp_ms, body.due_ms))
    return _HANDLE(self, session, received)


def commits_decide_late(self: CommandHandler, session: Session, run: Any, now_ms: int) -> None:
    """What is due fires when its wake-up is read, not before whatever was appended after it."""
    if isinstance(run.received.command.body, m.FireTimer):
        _FIRE_DUE(self, session, run, now_ms)


def by_key(workflow: Any, context: Any, data: Any, message: Any, journal: Sequence[r.Event]) -> Any:
    """Replay looks results up by their step, with the time of the newest fact."""
    now_ms = journal[-1].envelope.at_ms
    feed = Stretch.feed

    def fed(self: Stretch, event: r.Event) -> list[r.EventBody]:
        late = replace(event.envelope, at_ms=now_ms)
        return feed(self, replace(event, envelope=late))

    with mock.patch.object(Stretch, "feed", fed):
        return _REBUILD(workflow, context, data, message, journal)


def fold_in_place(self: Session) -> Session:
    """The live session is the scratch copy."""
    return self


def rewinds_only(self: Loop, group: Group, fault: LogFault) -> Iterator[str]:
    """Restores what was committed after all, and goes back with the live states it has where nothing was."""
    yield from no_rewind(self, group, fault)
    for partition in self._partitions.values():
        if partition.restoring is not None:
            continue
        place = partition.places.commands
        while True:
            try:
                found = group.committed([place])[place]
            except NotYet:
                yield "p.pending_offsets"
            else:
                break
        if found in (None, partition.next_offset):
            group.seek(place, partition.next_offset)
        else:
            group.pause([place])
            partition.forget()
            partition.restoring = partition.restore(group)


def swallows(self: Folder, folded: Any, record: Any) -> None:
    """What cannot be read is skipped."""
    before = len(folded.outputs)
    _FOLD_ONE(self, folded, record)
    folded.outputs[before:] = [
        o for o in folded.outputs[before:] if o.topic != self._topics.dead_letters
    ]


def no_gate(self: Stretch, action: Any, digest: bytes) -> tuple[str, str | None]:
    """Gated actions run without asking."""
    del self, action, digest
    return EXEMPT, None
