"""Records on their way to the broker: each is kept until it is acknowledged, and sent again where it was not.

Any thread sends; one thread (the intake) settles. Between them lie a lock around the producer and a queue of
acknowledgements.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from ...events.log.protocol import Fatal, Headers, Log, LogFault, Place, Producer

RESENDS_MAX = 300
"""Times in a row that everything unacknowledged is sent again before it is given up; each try lasts seconds."""

Owner = TypeVar("Owner")

logger = structlog.get_logger("wakeful.worker")


@dataclass(frozen=True, slots=True)
class Send:
    """One record to produce."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


class Sender(Generic[Owner]):
    """A plain producer that is replaced after a fault; `acknowledged(owner)` is called from `settle`, once per owner."""

    def __init__(self, log: Log, acknowledged: Callable[[Owner], None]) -> None:
        self._log = log
        self._acknowledged = acknowledged
        self._producer: Producer | None = None
        self._sending = threading.Lock()
        self._unacknowledged: dict[Owner, Send] = {}
        self._answers: deque[Owner] = deque()
        self._fault: LogFault | None = None
        self._generation = 0
        self._resends = 0

    @property
    def unacknowledged(self) -> int:
        """Records on their way."""
        return len(self._unacknowledged)

    def open(self) -> None:
        """Makes the first producer."""
        self._producer = self._log.producer()

    def close(self) -> None:
        """Frees the producer; what is unacknowledged is given up."""
        with self._sending:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def send(self, owner: Owner, send: Send) -> None:
        """Queues a record; a fault is remembered, and `settle` sends everything again."""
        with self._sending:
            self._unacknowledged[owner] = send
            if self._fault is None:
                self._try(owner, send)

    def settle(self) -> None:
        """Takes note of acknowledgements, and sends again what had a fault; `Fatal` when that was done too often."""
        if self._producer is None:
            return
        try:
            self._producer.poll()
        except LogFault as fault:
            self._fault = self._fault or fault
        self._take_answers()
        if self._fault is not None:
            self._send_again()

    def flush(self, timeout_ms: int) -> None:
        """Waits for acknowledgements, and takes note of them."""
        if self._producer is None:
            return
        try:
            self._producer.flush(timeout_ms)
        except LogFault as fault:
            logger.warning("results not acknowledged", fault=str(fault))
        self._take_answers()

    def _take_answers(self) -> None:
        while self._answers:
            owner = self._answers.popleft()
            if self._unacknowledged.pop(owner, None) is None:
                continue  # acknowledged twice, since it was sent twice
            self._resends = 0
            self._acknowledged(owner)

    def _send_again(self) -> None:
        """A new producer for everything unacknowledged; a repeat of what did arrive changes nothing."""
        with self._sending:
            fault, self._fault = self._fault, None
            self._resends += 1
            logger.warning("sending again", count=len(self._unacknowledged), fault=str(fault))
            if self._resends > RESENDS_MAX:
                told = f"results were sent {RESENDS_MAX} times and not acknowledged: {fault}"
                raise Fatal(told) from fault
            if self._producer is not None:
                self._producer.close()
            self._generation += 1
            self._producer = self._log.producer()
            for owner, send in list(self._unacknowledged.items()):
                if self._fault is None:
                    self._try(owner, send)

    def _try(self, owner: Owner, send: Send) -> None:
        generation = self._generation

        def delivered(_place: Place, _offset: int, fault: LogFault | None) -> None:
            if fault is None:
                self._answers.append(owner)
            elif generation == self._generation:  # a replaced producer's faults are old news
                self._fault = self._fault or fault

        if self._producer is None:
            return  # closed: the task is delivered again to the next worker
        try:
            self._producer.produce(
                send.topic,
                key=send.key,
                value=send.value,
                headers=send.headers,
                delivered=delivered,
            )
        except LogFault as fault:
            self._fault = self._fault or fault
