"""What must hold of what reaches a session, and of the signs of life of what it runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ...events import records as r
from ...events.errors import Unfoldable
from ...events.evolve import evolve
from ...events.failures import HEARTBEAT
from ...events.keys import attempt_id, effect_key
from ...events.records import Event
from ...events.state import State
from ...processors.simulation.attempts import Start
from ...processors.simulation.tools import check_outcome
from ...processors.workflow.facts import is_asked
from .payments import Load


def signals(events: Sequence[Event]) -> Iterator[str]:
    """Each accepted signal is delivered once, to a wait for its name, or is kept."""
    for session, facts in _sessions(events):
        kept: dict[str, str] = {}
        waits: dict[str, str] = {}
        seen: Counter[str] = Counter()
        for event in facts:
            body = event.body
            match body:
                case r.SignalReceived():
                    seen[body.signal_id] += 1
                    kept[body.signal_id] = body.name
                    if seen[body.signal_id] > 1:
                        yield f"{session} received signal {body.signal_id} twice"
                case r.SignalAwaited():
                    waits[body.wait_id] = body.name
                case r.SignalDelivered():
                    name, wanted = kept.pop(body.signal_id, None), waits.pop(body.wait_id, None)
                    if name is None or name != wanted:
                        yield f"{session} got signal {body.signal_id} ({name}) at {body.wait_id}, which waits for {wanted}"
                case _:
                    continue
        state = _folded(facts)
        if state is not None and {s.signal_id for s in state.signals} != set(kept):
            there = [signal.signal_id for signal in state.signals]
            yield f"{session} keeps signals {there}, and should keep {sorted(kept)}"


def messages(events: Sequence[Event]) -> Iterator[str]:
    """Each message and trigger is in one turn, in one inbox, or still queues; in the order they came."""
    for session, facts in _sessions(events):
        queue: list[str] = []
        answered: list[str] = []
        for event in facts:
            body = event.body
            if isinstance(body, r.MessageReceived):
                queue.append(body.message_id)
            elif isinstance(body, r.TriggerReceived):
                queue.append(body.trigger_id)
            elif isinstance(body, r.TurnStarted):
                if queue[:1] != [body.message_id]:
                    yield f"{session} turn {body.turn} is about {body.message_id}, first in the queue is {queue[:1]}"
                queue = [each for each in queue if each != body.message_id]
                answered = [body.message_id or ""]
            elif isinstance(body, r.TurnCompleted):
                answered = []
            elif isinstance(body, r.SessionReset):
                if body.message_id is not None and answered != [body.message_id]:
                    yield f"{session} puts {body.message_id} back, and answered {answered}"
                queue = [*answered, *queue] if body.message_id is not None else queue
                answered = []
            elif isinstance(body, r.InboxTaken):
                for taken in body.messages:
                    if taken.message_id not in queue:
                        yield f"{session} took {taken.message_id} out of its inbox, and it does not queue"
                    queue = [each for each in queue if each != taken.message_id]
        state = _folded(facts)
        if state is not None and [q.message_id for q in state.queue] != queue:
            yield f"{session} has {[q.message_id for q in state.queue]} in its queue, and should have {queue}"


def silence(events: Sequence[Event]) -> Iterator[str]:
    """No attempt is called silent that has not begun, and none before its interval is over.

    But its own worker may say so of one whose signs of life counted for nothing, since their key was revoked.
    """
    for session, facts in _sessions(events):
        begun: dict[tuple[str, int], int] = {}
        intervals: dict[str, int] = {}
        for event in facts:
            body = event.body
            if isinstance(body, r.ActivityRequested):
                intervals[body.activity_id] = body.heartbeat_ms or 0
            elif isinstance(body, r.ActivityStarted):
                begun[body.activity_id, body.attempt] = event.envelope.at_ms
            elif (silent := silent_attempt(body)) is not None:
                since_ms = begun.get(silent)
                if since_ms is None and event.envelope.cause.command_id == _own_report(
                    event, silent
                ):
                    continue
                if since_ms is None:
                    yield f"{session}: attempt {silent} has not begun, and is told to be silent"
                elif event.envelope.at_ms < since_ms + intervals[silent[0]]:
                    yield f"{session}: attempt {silent} is told to be silent too early"


def _own_report(event: Event, attempt: tuple[str, int]) -> str:
    envelope = event.envelope
    return attempt_id(effect_key(envelope.tenant, envelope.session_id, attempt[0]), attempt[1])


def silent_attempt(body: r.EventBody) -> tuple[str, int] | None:
    """The attempt that this fact calls silent."""
    if isinstance(body, r.ActivityRetryScheduled) and body.failure.type == HEARTBEAT:
        return body.activity_id, body.attempt - 1
    if isinstance(body, r.ActivityFailed | r.ActivityUncertain) and body.failure.type == HEARTBEAT:
        return body.activity_id, body.attempt
    return None


def progress(events: Sequence[Event], starts: Iterable[Start]) -> Iterator[str]:
    """Each attempt is given what the ones before it had told of by then."""
    told: dict[str, list[tuple[int, r.Payload]]] = defaultdict(list)
    for event in events:
        if isinstance(event.body, r.ActivityProgressed):
            told[f"{event.envelope.session_id} {event.body.activity_id}"].append(
                (event.envelope.seq, event.body.progress)
            )
    for start in starts:
        task = start.task
        known = [
            progress
            for seq, progress in told[f"{task.session_id} {task.activity_id}"]
            if seq < task.event_seq
        ]
        if (known[-1].digest if known else None) != (
            task.progress.digest if task.progress is not None else None
        ):
            yield f"{start.command_id} was not given the progress that was told before it"


def reads_are_free(events: Sequence[Event]) -> Iterator[str]:
    """What changes nothing asks nobody, unless policy does."""
    for event in events:
        body = event.body
        if is_asked(body) and isinstance(body, r.ApprovalRequested) and body.contract == "read":
            yield f"{event.envelope.session_id} asks for approval of {body.name}, which changes nothing"
        if (
            isinstance(body, r.ActivityRequested)
            and body.contract == "read"
            and body.approval != "none"
        ):
            yield f"{event.envelope.session_id} runs {body.name} as {body.approval}"


def steps_go_on(events: Sequence[Event]) -> Iterator[str]:
    """Within a turn each step has a number of its own, over all its stretches."""
    for session, facts in _sessions(events):
        seen: set[tuple[int, int]] = set()
        for event in facts:
            turn, step = getattr(event.body, "turn", None), getattr(event.body, "step", None)
            if turn is None or step is None or isinstance(event.body, r.NondeterminismFound):
                continue
            if isinstance(event.body, r.ApprovalRequested) and not is_asked(event.body):
                continue  # the step of the proposal whose place it takes, or of the activity that waits for it
            if isinstance(event.body, r.ActivityRequested) and event.body.attempt > 1:
                continue  # what takes an effect back, tried again after a release
            if (turn, step) in seen:
                yield f"{session} asked for step {step} of turn {turn} twice"
            seen.add((turn, step))


def verdicts(events: Sequence[Event], load: Load) -> Iterator[str]:
    """Whoever completes after a verification has heard yes, last."""
    for session, facts in _sessions(events):
        asked: set[str] = set()
        holds: bool | None = None
        for event in facts:
            body = event.body
            if isinstance(body, r.ActivityRequested) and body.name == check_outcome.name:
                asked.add(body.activity_id)
                holds = None
            elif isinstance(body, r.ActivityCompleted) and body.activity_id in asked:
                holds = bool(load(body.result))
            elif isinstance(body, r.SessionCompleted) and body.verified_by and not holds:
                yield f"{session} is completed, verified by {body.verified_by}, which said {holds}"


def _sessions(events: Sequence[Event]) -> Iterator[tuple[str, list[Event]]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event.envelope.session_id].append(event)
    yield from found.items()


def _folded(facts: Sequence[Event]) -> State | None:
    """The state at the end; none where the session was cancelled, which may leave nothing of it, or does not fold."""
    state: State | None = None
    for event in facts:
        try:
            state = evolve(state, event)
        except Unfoldable:
            return None  # the audit has named it
    return None if state is None or state.ended else state
