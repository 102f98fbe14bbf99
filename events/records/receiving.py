"""Facts about what reaches a session besides messages, and what its turn waits to receive: triggers, signals, inbox."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Payload


@dataclass(frozen=True, slots=True)
class TriggerReceived:
    """Something other than a message asked for a turn (a schedule, a webhook); it queues like a message."""

    trigger_id: str
    trigger: str
    reason: str
    data: Payload


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """A named piece of data arrived; it is kept until a turn asks for that name."""

    signal_id: str
    name: str
    data: Payload


@dataclass(frozen=True, slots=True)
class SignalAwaited:
    """The workflow waits for a signal of this name; the oldest one that is kept is delivered at once."""

    wait_id: str
    turn: int
    step: int
    name: str


@dataclass(frozen=True, slots=True)
class SignalDelivered:
    """The signal reached the wait, and is kept no longer."""

    wait_id: str
    signal_id: str
    data: Payload


@dataclass(frozen=True, slots=True)
class InboxAwaited:
    """The workflow asks for the messages that queue behind its turn; `wait`: until there is one."""

    wait_id: str
    turn: int
    step: int
    wait: bool


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """A message that the running turn took out of the queue."""

    message_id: str
    actor: str
    message: Payload


@dataclass(frozen=True, slots=True)
class InboxTaken:
    """The running turn took these messages; they start no turn of their own."""

    wait_id: str
    messages: tuple[TakenMessage, ...]


@dataclass(frozen=True, slots=True)
class WaitWithdrawn:
    """The workflow no longer waits for this signal or for the inbox."""

    wait_id: str
    reason: str
