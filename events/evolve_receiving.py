"""What facts about messages, triggers and signals mean for a session: what queues, and what waits to receive."""

from __future__ import annotations

from . import records as r
from . import state as s
from .errors import Unfoldable
from .replacing import replace
from .state import State

Received = (
    r.MessageReceived
    | r.TriggerReceived
    | r.SignalReceived
    | r.SignalAwaited
    | r.SignalDelivered
    | r.InboxAwaited
    | r.InboxTaken
    | r.WaitWithdrawn
)


def evolve(state: State, status: str, body: Received, actor: str) -> State:
    """The state after one more fact; `status` is where the fact leads."""
    match body:
        case r.MessageReceived():
            queued = s.QueuedMessage(body.message_id, actor, body.message)
            return replace(state, queue=(*state.queue, queued))
        case r.TriggerReceived():
            queued = s.QueuedMessage(body.trigger_id, actor, body.data, body.trigger, body.reason)
            return replace(state, queue=(*state.queue, queued))
        case r.SignalReceived():
            signal = s.QueuedSignal(body.signal_id, body.name, body.data)
            return replace(state, signals=(*state.signals, signal))
        case r.SignalAwaited():
            return _awaits(state, s.OpenReceive(body.wait_id, body.step, "signal", body.name, True))
        case r.InboxAwaited():
            return _awaits(state, s.OpenReceive(body.wait_id, body.step, "inbox", "", body.wait))
        case r.SignalDelivered():
            left = tuple(signal for signal in state.signals if signal.signal_id != body.signal_id)
            if len(left) == len(state.signals):
                raise Unfoldable(f"signal {body.signal_id!r} is delivered, but was not kept")
            return replace(_received(state, body.wait_id), status=status, signals=left)
        case r.InboxTaken():
            taken = {message.message_id for message in body.messages}
            queue = tuple(queued for queued in state.queue if queued.message_id not in taken)
            if len(queue) + len(taken) != len(state.queue):
                raise Unfoldable(f"wait {body.wait_id} takes messages that do not queue")
            return replace(_received(state, body.wait_id), status=status, queue=queue)
        case r.WaitWithdrawn():
            return _received(state, body.wait_id)


def _awaits(state: State, receive: s.OpenReceive) -> State:
    return replace(state, receives=(*state.receives, receive), steps=receive.step)


def _received(state: State, wait_id: str) -> State:
    left = tuple(receive for receive in state.receives if receive.wait_id != wait_id)
    if len(left) == len(state.receives):
        raise Unfoldable(f"wait {wait_id} is over, but was not open")
    return replace(state, receives=left)
