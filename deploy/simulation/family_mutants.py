"""Planted mistakes about children, and what sessions tell each other: see `mutants.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...commands import children
from ...commands import decide as deciding
from ...commands import models as m
from ...events import evolve_children
from ...events import records as r
from ...events.log.memory_producer import MemoryTransactionalProducer
from ...events.replacing import replace as replaced
from ...events.state import State
from ...processors import handler as sessions
from ...processors.between import commands_of
from ...processors.kept import heard_now
from ...processors.workflow import stepping
from .planting import Mutant, plant

_COMMANDS_OF, _ENDED, _DUE = commands_of, children.ended, deciding.due
_HEARD_NOW, _EVOLVE = heard_now, evolve_children.evolve
_PRODUCE = MemoryTransactionalProducer.produce
_CHILD = stepping.Stepping.child


def _cancels_nobody(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """Whoever stops waiting tells nobody."""
    told = _COMMANDS_OF(event, before)
    return tuple(one for one in told if not isinstance(one.body, m.CancelChild))


def _says_it_twice(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """What a child tells goes out a second time."""
    told = _COMMANDS_OF(event, before)
    return told + tuple(one for one in told if isinstance(one.body, m.EndChild))


def _tells_of_success_alone(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """A child that fails is silent."""
    told = _COMMANDS_OF(event, before)
    return () if isinstance(event.body, r.SessionFailed) else told


def _for_itself(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """A child acts for the workflow that opened it, and for no person."""
    return tuple(
        replace(one, header=replace(one.header, on_behalf_of=None))
        if isinstance(one.body, m.StartChild)
        else one
        for one in _COMMANDS_OF(event, before)
    )


def _of_anybody(state: State, body: m.EndChild) -> list[r.EventBody]:
    """Any end is believed, whether or not somebody waits."""
    past = any(one.child_id == body.child_id for one in state.past_children)
    if past and body.result is not None and not state.ended:
        return [r.ChildCompleted(body.child_id, body.result, body.tainted_by)]
    return _ENDED(state, body)


def _folds_it(state: State, status: str, body: Any) -> State:
    open_ = any(child.child_id == body.child_id for child in state.children)
    opens = isinstance(body, r.ChildStarted | r.LateChildRecorded)
    return _EVOLVE(state, status, body) if open_ or opens else state


def _never_late(state: State, now_ms: int, **more: Any) -> r.EventBody | None:
    return _DUE(replaced(state, children=()), now_ms, **more)


def _has_its_own_time(self: Any, *given: Any) -> Any:
    """A child of a child has as long as it is given."""
    context = self.context
    parent = context.parent
    if parent is not None:
        self.context = replace(context, parent=replace(parent, deadline_ms=1 << 60))
    try:
        return _CHILD(self, *given)
    finally:
        self.context = context


def _forgets(parked: Any, body: m.CommandBody) -> Any:
    """A stop drops all that was kept."""
    return _HEARD_NOW(parked, body) if isinstance(body, m.ReleaseSession) else ()


def _beside(self: Any, topic: str, **record: Any) -> None:
    """What sessions tell each other is there at once, whatever becomes of the transaction."""
    if not topic.endswith(".commands.v1"):
        _PRODUCE(self, topic, **record)
        return
    broker = self._broker
    broker.append(topic, None, record["key"], record["value"], record["headers"], None)


FAMILY_MUTANTS: tuple[Mutant, ...] = (
    Mutant("cancels no child", plant((sessions, "commands_of", _cancels_nobody)), seed=36),
    Mutant("tells an end twice", plant((sessions, "commands_of", _says_it_twice)), seed=3),
    Mutant(
        "tells of no failure", plant((sessions, "commands_of", _tells_of_success_alone)), seed=110
    ),
    Mutant("has children act for nobody", plant((sessions, "commands_of", _for_itself)), seed=3),
    Mutant(
        "believes an end that comes late",
        plant((children, "ended", _of_anybody), (evolve_children, "evolve", _folds_it)),
        seed=110,
    ),
    Mutant(
        "lets no child expire",
        plant((deciding, "due", _never_late), (sessions, "due", _never_late)),
        seed=3,
    ),
    Mutant(
        "lets children outlive their turn",
        plant((children, "withdrawals", lambda *_: [])),
        seed=85,
    ),
    Mutant(
        "gives a child more time than its parent has",
        plant((stepping.Stepping, "child", _has_its_own_time)),
        seed=36,
    ),
    Mutant(
        "forgets at a stop how a child has ended",
        plant((sessions, "heard_now", _forgets)),
        seed=1094,
    ),
    Mutant(
        "tells children of what is not committed",
        plant((MemoryTransactionalProducer, "produce", _beside)),
        seed=110,
    ),
)
