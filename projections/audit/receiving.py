"""Checks of what a session receives: each message, trigger and signal is taken once, the oldest first, by who asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...events import records as r
from ...events.state import MESSAGE
from .evidence import Violation
from .folds import Folded
from .history import Fact, History, Session, name_of, of
from .invariants import RECEIVING


@dataclass(slots=True)
class _Kept:
    """What has arrived and was not taken, and the waits that are open, by id."""

    signals: dict[str, r.SignalReceived] = field(default_factory=dict)
    queue: dict[str, r.Event] = field(default_factory=dict)
    arrived: set[tuple[type, str]] = field(default_factory=set)
    waits: dict[str, r.SignalAwaited | r.InboxAwaited] = field(default_factory=dict)
    answered: r.Event | None = None
    """What the turn under way answers."""


def receiving(history: History, folded: Mapping[Session, Folded]) -> Iterator[Violation]:
    """Signals reach the wait for their name, messages a turn or an inbox; once, in order, and none is lost."""
    for session, facts in history.sessions.items():
        kept = _Kept()
        for fact in facts:
            yield from _followed(fact, kept)
        state = folded[session].state
        if state is None or state.ended:
            continue  # what was kept has ended with it
        if [s.signal_id for s in state.signals] != list(kept.signals):
            told = (
                f"signals {sorted(kept.signals)} were not delivered, and the session keeps others"
            )
            yield Violation(RECEIVING, name_of(session), None, told)
        if [q.message_id for q in state.queue] != list(kept.queue):
            told = f"messages {sorted(kept.queue)} were not taken, and the session queues others"
            yield Violation(RECEIVING, name_of(session), None, told)


def _followed(fact: Fact, kept: _Kept) -> Iterator[Violation]:
    body = fact.event.body
    match body:
        case r.SignalReceived():
            yield from _arrives(fact, kept, body.signal_id)
            kept.signals[body.signal_id] = body
        case r.MessageReceived():
            yield from _arrives(fact, kept, body.message_id)
            kept.queue[body.message_id] = fact.event
        case r.TriggerReceived():
            yield from _arrives(fact, kept, body.trigger_id)
            kept.queue[body.trigger_id] = fact.event
        case r.SignalAwaited() | r.InboxAwaited():
            kept.waits[body.wait_id] = body
        case r.SignalDelivered():
            yield from _delivered(fact, body, kept)
        case r.InboxTaken():
            yield from _taken(fact, body, kept)
        case r.TurnStarted() if body.message_id is not None:
            yield from _started(fact, body, body.message_id, kept)
        case r.WaitWithdrawn():
            if kept.waits.pop(body.wait_id, None) is None:
                yield of(fact, RECEIVING, f"wait {body.wait_id} is withdrawn, and is not open")
        case r.TurnCompleted():
            kept.waits.clear()
            kept.answered = None
        case r.SessionReset():
            if kept.answered is not None and body.message_id is not None:
                kept.queue = {body.message_id: kept.answered, **kept.queue}
            kept.waits.clear()
            kept.answered = None
        case _:
            pass  # the others neither bring nor take anything


def _arrives(fact: Fact, kept: _Kept, id_: str) -> Iterator[Violation]:
    one = (type(fact.event.body), id_)
    if one in kept.arrived:
        yield of(
            fact, RECEIVING, f"{type(fact.event.body).__name__} of {id_!r} for the second time"
        )
    kept.arrived.add(one)


def _delivered(fact: Fact, body: r.SignalDelivered, kept: _Kept) -> Iterator[Violation]:
    wait = kept.waits.pop(body.wait_id, None)
    if not isinstance(wait, r.SignalAwaited):
        yield of(
            fact,
            RECEIVING,
            f"signal {body.signal_id!r} reaches {body.wait_id}, which waits for none",
        )
    signal = kept.signals.get(body.signal_id)
    if signal is None:
        yield of(fact, RECEIVING, f"signal {body.signal_id!r} is delivered, and none such is kept")
        return
    oldest = next(id_ for id_, other in kept.signals.items() if other.name == signal.name)
    del kept.signals[body.signal_id]
    if isinstance(wait, r.SignalAwaited) and wait.name != signal.name:
        told = f"{body.wait_id} waits for signal {wait.name!r} and gets {signal.name!r}"
        yield of(fact, RECEIVING, told)
    if body.data != signal.data:
        yield of(
            fact, RECEIVING, f"signal {body.signal_id!r} is delivered with other data than came"
        )
    if oldest != body.signal_id:
        told = f"signal {body.signal_id!r} is delivered before {oldest!r}, which is older"
        yield of(fact, RECEIVING, told)


def _taken(fact: Fact, body: r.InboxTaken, kept: _Kept) -> Iterator[Violation]:
    """Messages alone, from the oldest on; triggers stay, each for a turn of its own."""
    if not isinstance(kept.waits.pop(body.wait_id, None), r.InboxAwaited):
        yield of(fact, RECEIVING, f"{body.wait_id} takes messages, and did not ask for any")
    waiting = [id_ for id_, event in kept.queue.items() if _is_message(event)]
    ids = [taken.message_id for taken in body.messages]
    if ids != waiting[: len(ids)]:
        told = f"the inbox takes {ids}, and the oldest that wait are {waiting[: len(ids)]}"
        yield of(fact, RECEIVING, told)
    for taken in body.messages:
        event = kept.queue.pop(taken.message_id, None)
        if event is None or not isinstance(event.body, r.MessageReceived):
            continue  # told above
        if (taken.actor, taken.message) != (event.envelope.actor, event.body.message):
            yield of(
                fact, RECEIVING, f"message {taken.message_id!r} is taken otherwise than it came"
            )


def _started(fact: Fact, body: r.TurnStarted, message_id: str, kept: _Kept) -> Iterator[Violation]:
    """A turn takes what has waited longest, and says what it was."""
    oldest = next(iter(kept.queue), None)
    if oldest != message_id:
        yield of(fact, RECEIVING, f"turn {body.turn} takes {message_id!r}, and {oldest!r} is first")
    event = kept.answered = kept.queue.pop(message_id, None)
    if event is None:
        return
    came = event.body
    trigger, reason = MESSAGE, ""
    if isinstance(came, r.TriggerReceived):
        trigger, reason = came.trigger, came.reason
    if (body.trigger, body.reason) != (trigger, reason):
        told = f"turn {body.turn} says it was started by {body.trigger!r}, and was by {trigger!r}"
        yield of(fact, RECEIVING, told)


def _is_message(event: r.Event) -> bool:
    return isinstance(event.body, r.MessageReceived)
