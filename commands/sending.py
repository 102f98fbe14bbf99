"""Commands on their way: each waits for its own answer, from the producer that it was handed to.

After a fault a producer takes nothing new. Answers to other commands may still come from it, so it is closed only
when nobody waits for one any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..events.errors import Transient
from ..events.log.protocol import DELIVERY_MS, Headers, Log, LogFault, Place, Producer
from .models import CommandHeader

CONFIRM_MS = DELIVERY_MS + 5_000
"""How long an acknowledgement is waited for: longer than the producer itself tries, whose verdict says more than silence."""

NAMED_MAX = 5
"""Commands that a sentence names."""

RETIRED_MAX = 4
"""Producers that met a fault and still wait for answers to other commands; of more, the oldest is given up."""


class Unconfirmed(Transient):
    """No broker has confirmed the command in time; it may arrive all the same.

    Ask again with the same `command_id` (and `session_id`): whatever arrives twice is applied once.
    """

    def __init__(self, command_id: str, session_id: str, why: str) -> None:
        super().__init__(
            f"the log did not confirm the command: {why}; ask again with command_id={command_id!r}",
            session=session_id,
        )
        self.command_id = command_id
        self.session_id = session_id


@dataclass(frozen=True, slots=True)
class Receipt:
    """The broker has the command: where it lies. Whether it is applied, the session's outcomes tell."""

    session_id: str
    command_id: str
    issued_at_ms: int
    topic: str
    partition: int
    offset: int


class Pending:
    """A command that was handed to a producer, its own: another command's fault does not end it."""

    def __init__(self, outlets: Outlets, outlet: Outlet, header: CommandHeader) -> None:
        self.session_id = header.session_id
        self.command_id = header.command_id
        self._issued_at_ms = header.issued_at_ms
        self._outlets = outlets
        self._outlet = outlet
        self._place: Place | None = None
        self._offset = -1
        self._fault: LogFault | None = None
        outlet.waiting.add(self)

    @property
    def decided(self) -> bool:
        """Whether the broker, or the producer's patience, has answered."""
        return self._place is not None or self._fault is not None

    @property
    def confirmed(self) -> bool:
        """Whether the broker has it."""
        return self._place is not None

    def receipt(self) -> Receipt:
        """Waits for the acknowledgement; `Unconfirmed` after the client's `confirm_ms`."""
        self._outlets.wait_for(self, self._outlet)
        self._outlets.unheard.discard(self)
        if self._place is None:
            why = (
                str(self._fault)
                if self._fault
                else f"no answer within {self._outlets.confirm_ms} ms"
            )
            raise Unconfirmed(self.command_id, self.session_id, why) from self._fault
        return Receipt(
            self.session_id, self.command_id, self._issued_at_ms, *self._place, self._offset
        )

    def delivered(self, place: Place, offset: int, fault: LogFault | None) -> None:
        """Told by the producer."""
        if fault is None:
            self._place, self._offset = place, offset
        else:
            self._fault = fault
            self._outlets.unheard.add(self)
        self._outlet.waiting.discard(self)


class Outlet:
    """A producer, and the commands that it has not answered."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.waiting: set[Pending] = set()
        self.closed = False

    def close(self) -> None:
        """Gives up what it still holds."""
        self.closed = True
        self.producer.close()


class Outlets:
    """The one that takes commands now, and those that met a fault; safe to use from several threads."""

    def __init__(
        self,
        log: Log,
        *,
        confirm_ms: int = CONFIRM_MS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.confirm_ms = confirm_ms
        self.unheard: set[Pending] = set()
        """Those that could not be delivered, and of which nobody has asked yet."""
        self._log = log
        self._monotonic = monotonic
        self._current: Outlet | None = None
        self._retired: list[Outlet] = []
        self._exchanging = threading.Lock()

    def send(
        self, header: CommandHeader, topic: str, key: bytes, value: bytes | None, headers: Headers
    ) -> Pending:
        """Hands a command over without waiting; `Unconfirmed` where the producer does not take it."""
        with self._exchanging:  # whoever retires an outlet sees who waits for it
            outlet = self._open()
            pending = Pending(self, outlet, header)
        try:
            outlet.producer.produce(
                topic, key=key, value=value, headers=headers, delivered=pending.delivered
            )
        except LogFault as fault:
            outlet.waiting.discard(pending)
            self._retire(outlet)
            raise Unconfirmed(header.command_id, header.session_id, str(fault)) from fault
        return pending

    def wait_for(self, pending: Pending, outlet: Outlet) -> None:
        """Returns once it is decided, or cannot be waited for any longer."""
        give_up = self._monotonic() + self.confirm_ms / 1000
        while not pending.decided and not outlet.closed:
            left_ms = int((give_up - self._monotonic()) * 1000)
            if left_ms <= 0:
                break
            try:
                outlet.producer.flush(left_ms)
            except LogFault:
                continue  # of this record or another's: each has its own answer
        outlet.waiting.discard(pending)
        if not pending.confirmed:
            self._retire(outlet)
        elif self._retired:
            self._sweep()

    def finish(self) -> None:
        """Waits for what nobody has asked about; `Transient` where some of it did not arrive."""
        if any(outlet.waiting for outlet in self._all()):
            self.flush()
        if self.unheard:
            names = ", ".join(sorted(repr(each.command_id) for each in self.unheard)[:NAMED_MAX])
            count = len(self.unheard)
            self.unheard.clear()
            raise Transient(
                f"the log did not confirm {count} commands ({names}): send them again under the same ids"
            )

    def flush(self) -> None:
        """Waits until everything handed over is decided, at most `confirm_ms`; `Transient` where something was not."""
        give_up = self._monotonic() + self.confirm_ms / 1000
        fault: LogFault | None = None
        for outlet in self._all():
            left_ms = max(0, int((give_up - self._monotonic()) * 1000))
            try:
                outlet.producer.flush(left_ms)
            except LogFault as met:
                fault = fault or met
        if fault is not None:
            self.unheard.clear()
            raise Transient(f"the log did not confirm everything: {fault}") from fault

    def close(self) -> None:
        """Frees the producers, without waiting."""
        with self._exchanging:
            outlets, self._current, self._retired = self._all(), None, []
        for outlet in outlets:
            outlet.close()

    def _open(self) -> Outlet:
        if self._current is None:
            self._current = Outlet(self._log.producer())
        return self._current

    def _all(self) -> list[Outlet]:
        return [*self._retired, *([self._current] if self._current is not None else [])]

    def _retire(self, outlet: Outlet) -> None:
        with self._exchanging:
            if self._current is outlet:
                self._current = None
                self._retired.append(outlet)
        self._sweep()

    def _sweep(self) -> None:
        """Closes the retired ones that nobody waits for any more."""
        with self._exchanging:
            surplus = len(self._retired) - RETIRED_MAX
            ended = [o for n, o in enumerate(self._retired) if not o.waiting or n < surplus]
            self._retired = [o for o in self._retired if o not in ended]
        for outlet in ended:
            outlet.close()
