"""What must hold when a schedule has come to rest: the audit, and what only the simulation can see.

The audit reads topics and views, as it does on Kafka. Here the downstream ledger, the attempts that were started,
the processors' memory and the sequential model are at hand as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ...commands import models as m
from ...commands.identity import INSECURE, Identity
from ...commands.wire import decode_command
from ...events import records as r
from ...events.blobs import fetched
from ...events.errors import Undecodable
from ...events.headers import dead_letter_in
from ...events.log.protocol import Place, Record
from ...events.payloads import load_json
from ...events.records import Event
from ...events.verdicts import GRANTED
from ...processors.activities.settled import result_id
from ...processors.simulation.actors import DIGEST_KEY, GROUP
from ...processors.simulation.clock import START_MS
from ...processors.simulation.forgers import TENANT
from ...processors.simulation.keyless import replaces_keys
from ...processors.simulation.tools import APPROVED_ABOVE, refund
from ...processors.simulation.worker import worker_group
from ...processors.simulation.workload import QUEUES
from ...processors.simulation.world import World
from ...projections.audit import CHECKS, Evidence, asked_by, evidence_from_log
from ...projections.audit.blobs import stored
from ...projections.audit.folds import refold
from ...projections.audit.history import History
from . import arriving, deciding, elsewhere, executing
from .copying import Copied, copies_are_dead, sessions_lie_at_home
from .families import families
from .flooding import others_are_let_in
from .lodgings import lodgings
from .payments import payments
from .projecting import Database
from .sagas import sagas
from .secrets import nobody_tells
from .timetables import timetables
from .versions import versions
from .vouching import by_keys_of_now, heard, vouched
from .wholeness import payloads_are_whole, whole_events

ENGINE_HOLDS = (
    "engine_fault",
    "does_not_fold",
    "payload_missing",
    "payload_damaged",
    "payload_unavailable",
)
"""Holds that no script of the workload brings about."""


class Findings:
    """Everything that was promised and not kept: the promise's name, and a sentence."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def add(self, promise: str, sentence: str) -> None:
        """One broken promise."""
        self.told.append((promise, sentence))

    def extend(self, promise: str, sentences: Iterator[str]) -> None:
        """Several of one kind."""
        self.told.extend((promise, sentence) for sentence in sentences)


def check(world: World, database: Database, *, rested: bool) -> tuple[Findings, list[Event]]:
    """All findings of one finished schedule, none for a sound engine; and its events."""
    findings = Findings()
    evidence = evidence_from_log(
        world.log,
        world.topics,
        QUEUES,
        committed=world.log.group_offsets(GROUP),
        rows=database.tables.rows,
        positions=database.tables.next_offsets(),
        gaps=list(database.tables.gaps.values()),
        quiescent=rested,
    )
    history = History.read(evidence, asked_by(decode_command))
    folded = refold(history)
    for _, promise in CHECKS:
        for violation in promise(history, folded):
            findings.add(violation.promise, str(violation))
    for violation in stored(history, world.scene.blobs, DIGEST_KEY):
        findings.add(violation.promise, str(violation))
    findings.extend("I38", iter(() if rested else ("the world did not come to rest",)))
    findings.extend("I11", world.observer.differences())
    findings.extend("I33", (f"the views' position went back: {one}" for one in database.went_back))
    events = whole_events([fact.event for fact in history.facts])
    findings.extend("parts", payloads_are_whole(events, history.tasks))
    commands = _commands(evidence.commands)
    findings.extend("I3", _disposed_once(evidence, events, commands))
    findings.extend("I2", sessions_lie_at_home(history.facts, world.plan.partitions))
    findings.extend("I2", copies_are_dead(world.copier.copies, evidence, history.facts))
    findings.extend("quotas", others_are_let_in(evidence))
    findings.extend("I21", _log_time(evidence, events))
    findings.extend("I29", nobody_tells(world, database))
    findings.extend("I27", vouched(evidence, events, commands))
    findings.extend("I27k", by_keys_of_now(world.plan.seed, events))
    if rested:
        findings.extend("I27h", heard(evidence, commands, world.scene.ended_ms))
        findings.extend("I25p", deciding.policies_arrive(world))
    load = partial(_load, world)
    findings.extend("I24", deciding.decisions_name_what_they_decide(events, commands, load))
    control, unpublished = world.log.dump(world.topics.control), world.plan.unpublished
    findings.extend("I25", deciding.decisions_are_allowed(control, events, unpublished))
    findings.extend("I25", deciding.refusals_are_of_policy(control, events, unpublished))
    findings.extend("I25a", executing.attempts_have_authority(control, events, unpublished))
    findings.extend("I25b", executing.bodies_begin_in_time(control, events, world.starts))
    findings.extend("I25u", executing.nothing_begun_is_called_undone(events, world.starts))
    findings.extend("I25n", executing.approvals_are_of_now(control, events, unpublished))
    findings.extend("versions", versions(world, control, events, load, rested=rested))
    findings.extend("I25f", deciding.policies_are_fresh(world, events))
    findings.extend("I5", _messages_once(events))
    findings.extend("I26", _gates_hold(world, events))
    findings.extend("I17", _effects(world, events))
    findings.extend("I17p", payments(world.downstream.bank, events, load))
    findings.extend("I17s", sagas(world.downstream.bookings, events))
    for held in (arriving.signals, arriving.messages, arriving.silence):
        findings.extend(held.__name__, held(events))
    findings.extend("progress", arriving.progress(events, world.starts))
    findings.extend("I26r", arriving.reads_are_free(events))
    findings.extend("told", elsewhere.jobs(events, commands))
    _between_sessions(findings, world, evidence, events, commands)
    findings.extend("rooms", lodgings(world, events, load, rested=rested))
    findings.extend("verdicts", arriving.verdicts(events, load))
    findings.extend("steps", arriving.steps_go_on(events))
    findings.extend("I18", _recorded_work_is_not_redone(world, evidence))
    findings.extend("I18b", _work_is_done_where_it_is_believed(world, evidence))
    findings.extend("I3w", _tasks_are_done(world, evidence, events))
    findings.extend("I21w", executing.nothing_is_over_early(world))
    if not world.plan.deploys:
        findings.extend("held", _no_engine_faults(events))
    return findings, events


def _between_sessions(
    findings: Findings,
    world: World,
    evidence: Evidence,
    events: Sequence[Event],
    commands: dict[tuple[int, int], m.Command],
) -> None:
    """What sessions ask of each other, by the commands but those that a copier laid down."""
    copied = Copied(world.copier.copies)
    genuine = [record for record in evidence.commands if not copied.holds(record)]
    rested = evidence.quiescent
    findings.extend("families", families(events, commands, genuine, rested=rested))
    findings.extend("timetables", timetables(evidence, events, commands, genuine))


def _commands(records: Sequence[Record]) -> dict[tuple[int, int], m.Command]:
    found: dict[tuple[int, int], m.Command] = {}
    for record in records:
        try:
            found[record.partition, record.offset] = decode_command(record.value, record.headers)
        except Undecodable:
            continue  # a dead letter, which the audit judges
    return found


def _disposed_once(
    evidence: Evidence, events: Sequence[Event], commands: dict[tuple[int, int], m.Command]
) -> Iterator[str]:
    """One dead letter and one refusal per command at most, and `unknown_session` only where it is unknown."""
    letters = [dead_letter_in(record.headers) for record in evidence.dead_letters]
    for place, times in Counter(
        (letter.partition, letter.offset)
        for letter in letters
        if letter and letter.topic == evidence.topics.commands
    ).items():
        if times > 1:
            yield f"the command at {place} has {times} dead letters"
    opened = {
        (event.envelope.tenant, event.envelope.session_id): event.envelope.cause.offset
        for event in events
        if event.envelope.seq == 1
    }
    for letter in letters:
        if letter is None or letter.reason != "unknown_session":
            continue
        command = commands.get((letter.partition, letter.offset))
        if command is None:
            continue
        header = command.header
        since = opened.get((header.tenant, header.session_id))
        if since is not None and since < letter.offset:
            yield f"the command at {letter.offset} was refused, its session was opened at {since}"


def _log_time(evidence: Evidence, events: Sequence[Event]) -> Iterator[str]:
    """An event's time is that of its command's record, or its session's last: no other clock is in the core."""
    appended = {
        (record.partition, record.offset): record.timestamp_ms for record in evidence.commands
    }
    now: dict[tuple[str, str], int] = {}
    for event in events:
        envelope = event.envelope
        session = (envelope.tenant, envelope.session_id)
        at = appended.get((envelope.cause.partition, envelope.cause.offset), START_MS)
        now[session] = max(now.get(session, 0), at)
        if envelope.at_ms != now[session]:
            off = envelope.at_ms - now[session]
            yield f"{envelope.session_id} seq {envelope.seq} is {off} ms off the log's time"


def _messages_once(events: Sequence[Event]) -> Iterator[str]:
    """A message is received once, however often it was sent, kept or released."""
    seen = Counter(
        (event.envelope.session_id, event.body.message_id)
        for event in events
        if isinstance(event.body, r.MessageReceived)
    )
    for (session_id, message_id), times in seen.items():
        if times > 1:
            yield f"{session_id} received message {message_id} {times} times"


def _gates_hold(world: World, events: Sequence[Event]) -> Iterator[str]:
    """Nothing that a person must approve runs on a word of the workflow."""
    for event in events:
        body = event.body
        if isinstance(body, r.ActivityRequested) and body.name == refund.name:
            cents = _load(world, body.arguments)["cents"]
            if cents > APPROVED_ABOVE and body.approval != GRANTED:
                yield f"{event.envelope.session_id} runs a refund of {cents} as {body.approval}"


def _load(world: World, payload: r.Payload) -> Any:
    """The value, whichever way it went."""
    return load_json(fetched(payload, TENANT, DIGEST_KEY, world.scene.blobs))


def _effects(world: World, events: Sequence[Event]) -> Iterator[str]:
    """Intent first, what was approved is what ran, and each completed write has its one effect."""
    requested: dict[str, r.ActivityRequested] = {}
    keys: dict[tuple[str, str], r.ActivityRequested] = {}
    for event in events:
        if isinstance(event.body, r.ActivityRequested):
            requested[event.body.idempotency_key] = event.body
            keys[event.envelope.session_id, event.body.activity_id] = event.body
    for start in world.starts:
        intent = requested.get(start.idempotency_key)
        if intent is None:
            yield f"{start.command_id} was started and never asked for"
        elif intent.arguments.digest != start.task.arguments.digest:
            yield f"{start.command_id} ran with {start.task.arguments!r}, asked was {intent.arguments!r}"
    effects = world.downstream.effects
    for event in events:
        if not isinstance(event.body, r.ActivityCompleted):
            continue
        done = keys.get((event.envelope.session_id, event.body.activity_id))
        if done is None or done.contract != "write_idempotent":
            continue
        receipt = effects.get(done.idempotency_key)
        if receipt is None or _load(world, event.body.result) != receipt:
            yield f"{done.idempotency_key} is completed with {event.body.result!r}, downstream has {receipt!r}"


def _recorded_work_is_not_redone(world: World, evidence: Evidence) -> Iterator[str]:
    """No worker starts what was recorded before it was given the task's partition."""
    recorded = _recorded(_results(world, evidence, world.scene.identity))
    for start in world.starts:
        place, offset = recorded.get(start.command_id, (None, 0))
        if place is not None and offset < start.known[place]:
            yield (
                f"{start.worker} started {start.command_id}, whose result was at {place.partition}/{offset} "
                f"when it took over (end {start.known[place]})"
            )


def _work_is_done_where_it_is_believed(world: World, evidence: Evidence) -> Iterator[str]:
    """No worker takes a task for done of which there was no result that counts; a key may have been revoked since."""
    judge = INSECURE if replaces_keys(world.plan.seed) else world.scene.identity
    recorded = _recorded(_results(world, evidence, judge))
    for believed in (each for worker in world.workers for each in worker.believed):
        place, offset = recorded.get(believed.command_id, (None, 0))
        if place is None or offset >= believed.known[place]:
            yield f"{believed.worker} took {believed.command_id} for done, and there was no result of it that counts"


def _recorded(results: Iterator[tuple[Record, str]]) -> dict[str, tuple[Place, int]]:
    recorded: dict[str, tuple[Place, int]] = {}
    for record, found in results:
        recorded.setdefault(found, (Place(record.topic, record.partition), record.offset))
    return recorded


def _results(world: World, evidence: Evidence, judge: Identity) -> Iterator[tuple[Record, str]]:
    """What counts as an attempt's result, and of which attempt: a copy in another partition does not."""
    copied = Copied(world.copier.copies)
    for record in evidence.commands:
        found = result_id(record, judge)
        if found is not None and not copied.holds(record):
            yield record, found


def _kept(events: Sequence[Event]) -> set[str]:
    """The ids of the commands that held sessions keep in the end."""
    kept: dict[str, set[str]] = {}
    for event in events:
        session_id, cause = event.envelope.session_id, event.envelope.cause
        if isinstance(event.body, r.SessionReleased):
            kept.pop(session_id, None)
        if isinstance(event.body, r.CommandParked):
            kept.setdefault(session_id, set()).add(cause.command_id)
    return set().union(*kept.values())


def _tasks_are_done(world: World, evidence: Evidence, events: Sequence[Event]) -> Iterator[str]:
    """Each task below its workers' committed offset has a result, unless nobody waits for one any more.

    Or it was given back to a session that is held: it is handed out again once that is released.
    """
    results = {found for _, found in _results(world, evidence, world.scene.identity)}
    committed = {
        place: offset
        for queue in QUEUES
        for place, offset in world.log.group_offsets(worker_group(queue)).items()
    }
    over, kept = _attempts_over(events), _kept(events)
    letters = [dead_letter_in(record.headers) for record in evidence.dead_letters]
    aside = {(letter.topic, letter.partition, letter.offset) for letter in letters if letter}
    for record in evidence.activities:
        at = (record.topic, record.partition, record.offset)
        task = (record.key or b"").decode()
        if record.offset >= committed.get(Place(record.topic, record.partition), 0):
            yield f"task {task} is not committed by its workers"
        elif at not in aside and task not in results and task not in kept:
            key, _, attempt = task.rpartition("#")
            if not attempt.isdecimal():
                yield f"{at} is no task, it is committed, and there is no dead letter of it"
            elif int(attempt) > over.get(key, 0):
                yield f"task {task} is committed, there is no result of it, and it is waited for"


def _attempts_over(events: Sequence[Event]) -> dict[str, int]:
    """By idempotency key the newest attempt that nobody waits for: it ended, or its session did."""
    newest: dict[str, int] = {}
    over: dict[str, int] = {}
    for event in events:
        body, envelope = event.body, event.envelope
        session = f"{envelope.tenant}/{envelope.session_id}/"
        if isinstance(body, _SESSION_ENDS):
            over.update({key: n for key, n in newest.items() if key.startswith(session)})
        elif (activity_id := getattr(body, "activity_id", None)) is not None:
            key = session + activity_id.replace(".", "/")
            attempt = getattr(body, "attempt", 1)
            if isinstance(body, r.ActivityReturned | _ACTIVITY_ENDS):
                over[key] = max(over.get(key, 0), attempt)
            elif isinstance(body, r.ActivityRetryScheduled):
                over[key] = max(over.get(key, 0), attempt - 1)
            newest[key] = max(newest.get(key, 0), attempt)
    return over


_SESSION_ENDS = (
    r.TurnCompleted | r.SessionCompleted | r.SessionFailed | r.SessionCancelled | r.SessionReset
)
_ACTIVITY_ENDS = (
    r.ActivityCompleted
    | r.ActivityFailed
    | r.ActivityUncertain
    | r.ActivityResolved
    | r.ActivityCancelled
)


def _no_engine_faults(events: Sequence[Event]) -> Iterator[str]:
    """The script's own errors hold a session; the engine's never do, and its workflow is deterministic."""
    for event in events:
        body, envelope = event.body, event.envelope
        if isinstance(body, r.NondeterminismFound):
            yield f"{envelope.session_id} diverged: expected {body.expected}, actual {body.actual}"
        elif isinstance(body, r.SessionHeld) and body.reason in ENGINE_HOLDS:
            yield f"{envelope.session_id} is held: {body.reason}: {body.detail}"
