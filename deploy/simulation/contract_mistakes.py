"""Mistakes about contracts, signs of life, and what reaches a session: functions in the place of the engine's own."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from ...commands.actors import ENGINE, WORKFLOW
from ...commands.decide import deliverable
from ...events import evolve_activities as activities
from ...events import evolve_receiving as receiving
from ...events import records as r
from ...events.log.protocol import Group, Record
from ...events.state import State
from ...processors import effects
from ...processors.activities.attempt import Steps, steps_of
from ...processors.activities.once import OnceTasks
from ...processors.handler import CommandHandler
from ...processors.session import WORKFLOW_ENDS, Session
from ...processors.workflow import advance as advancing
from ...processors.workflow.advance import withdrawals
from ...processors.workflow.choosing import Position
from ...processors.workflow.errors import ActivityError, Uncertain
from ...processors.workflow.stepping import TurnContext

_REQUESTED, _RETRIED, _RECEIVE = activities._requested, activities._retried, receiving.evolve
_CONTEXT, _TASK_OF = advancing.context_of, effects.task_of


def first_is_fresh(runner: Any, task: r.ActivityTask, *, fresh: bool, **more: Any) -> Steps:
    """A first attempt is the first call, whoever was given it before."""
    return steps_of(runner, task, fresh=fresh or task.attempt == 1, **more)


def all_is_fresh(runner: Any, task: r.ActivityTask, *, fresh: bool, **more: Any) -> Steps:
    """Nobody asks what may have run before."""
    del fresh
    return steps_of(runner, task, fresh=True, **more)


def takes_uncommitted(self: OnceTasks, group: Group, records_max: int) -> list[Record]:
    """Hands tasks out first, and commits them some time later, as one does with any other."""
    del group
    taken = self._records[: max(0, records_max)]
    del self._records[: len(taken)]
    return taken


def reads_late(self: OnceTasks, records: Sequence[Record]) -> None:
    """What is no task is found out when it is handed out, and so after its commit."""
    self._records += records


def starts_when_asked(state: State, body: r.ActivityRequested) -> State:
    """The heartbeat clock runs from the request on."""
    return _clocked(_REQUESTED(state, body), body.activity_id)


def starts_when_sent(state: State, body: r.ActivityRetried) -> State:
    """And from the dispatch of each later attempt."""
    return _clocked(_RETRIED(state, body), body.activity_id)


def _clocked(state: State, activity_id: str) -> State:
    running = tuple(
        replace(a, started=a.heartbeat_ms is not None) if a.activity_id == activity_id else a
        for a in state.activities
    )
    return replace(state, activities=running)


def keeps_signals(state: State, status: str, body: Any, actor: str) -> State:
    """A signal that was delivered stays where it was kept."""
    after = _RECEIVE(state, status, body, actor)
    return replace(after, signals=state.signals) if isinstance(body, r.SignalDelivered) else after


def keeps_messages(state: State, status: str, body: Any, actor: str) -> State:
    """Messages that the inbox gave out go on to queue for a turn of their own."""
    after = _RECEIVE(state, status, body, actor)
    return replace(after, queue=state.queue) if isinstance(body, r.InboxTaken) else after


def any_signal(state: State) -> r.EventBody | None:
    """Whatever signal is kept ends whatever wait for one."""
    for receive in state.receives:
        if receive.kind == "signal" and state.signals and state.hold is None:
            oldest = state.signals[0]
            return r.SignalDelivered(receive.wait_id, oldest.signal_id, oldest.data)
    return deliverable(state)


def delivers_at_once(
    self: CommandHandler, session: Session, run: Any, body: r.EventBody, actor: str
) -> None:
    """What is kept is delivered as soon as somebody waits, in the middle of what the workflow just asks for."""
    work: list[tuple[r.EventBody, str]] = [(body, actor)]
    while work:
        body, actor = work.pop()
        if isinstance(body, WORKFLOW_ENDS) and session.state is not None:
            for withdrawal in withdrawals(session.state, body):
                self._stamp(session, run, withdrawal, actor)
        event = self._stamp(session, run, body, actor)
        following = self._advance(session, event)
        author = f"{WORKFLOW}{session.state.workflow}" if session.state else ENGINE
        work.extend((body, author) for body in reversed(following))
        if session.state is not None and session.broken is None:
            owed = deliverable(session.state)
            if owed is not None:
                work.append((owed, ENGINE))


async def no_undo(live: Callable[[], Any], action: Any, uncertain: Uncertain) -> NoReturn:
    """Tells that it is undone, and leaves it."""
    del live
    raise ActivityError(action.activity.name, r.Failure("undone", "", "", "")) from uncertain


def numbers_anew(position: Position, facts: Any) -> TurnContext:
    """Each stretch counts its steps from one."""
    return replace(_CONTEXT(position, facts), steps=0)


def forgets_progress(event: r.Event, requested: r.Event | None, state: Any) -> Any:
    """Each attempt starts from nothing."""
    task = _TASK_OF(event, requested, state)
    return None if task is None else replace(task, progress=None)


async def takes_any_verdict(_self: Any, _check: Any) -> None:
    """Completes without asking."""


def no_ends(_records: Sequence[Record]) -> dict[Any, int]:
    """Nothing is known to be committed."""
    return {}
