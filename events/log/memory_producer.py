"""Producers on the memory log. A record is appended when it is produced; its callback waits for `poll` or `flush`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from .memory_broker import Broker, LateCommit, size_of
from .memory_coordinator import Coordinator
from .memory_faults import Answer, Fate, Hung, meet
from .protocol import Headers, LogFault, Membership, NotYet, Place, RecordTooLarge

Delivered = Callable[[Place, int, LogFault | None], None]


class MemoryProducer:
    """Plain and idempotent: order holds within a partition, delayed records hold back those behind them."""

    def __init__(self, broker: Broker, record_bytes_max: int) -> None:
        self._broker = broker
        self._record_bytes_max = record_bytes_max
        self._queue: list[Callable[[], None]] = []
        self._reports: list[Callable[[], None]] = []
        self._undelivered: LogFault | None = None
        self._closed = False

    def produce(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
        delivered: Delivered | None = None,
    ) -> None:
        """See the protocol."""
        if self._closed:
            raise LogFault("this producer is closed")
        refuse_oversize(topic, key, value, headers, self._record_bytes_max)
        fate = self._broker.faults.on_deliver(topic)
        append = partial(self._broker.append, topic, partition, key, value, tuple(headers), None)
        send = partial(self._send, topic, partition, append, fate, delivered)
        if fate is Fate.DELAYED or self._queue:
            self._queue.append(send)
        else:
            send()

    def poll(self) -> None:
        """See the protocol."""
        queue, self._queue = self._queue, []
        for send in queue:
            send()
        reports, self._reports = self._reports, []
        for report in reports:
            report()

    def flush(self, timeout_ms: int) -> None:  # noqa: ARG002 no real time
        """See the protocol."""
        self.poll()
        fault, self._undelivered = self._undelivered, None
        if fault is not None:
            raise fault

    def close(self) -> None:
        """See the protocol."""
        self._closed = True
        self._queue.clear()
        self._reports.clear()

    def _send(
        self,
        topic: str,
        partition: int | None,
        append: Callable[[], tuple[Place, int]],
        fate: Fate,
        delivered: Delivered | None,
    ) -> None:
        place, offset, fault = Place(topic, -1 if partition is None else partition), -1, None
        try:
            place, offset = meet(
                Fate.OK if fate is Fate.DELAYED else fate, f"producing to {topic}", append
            )
        except LogFault as failure:
            fault = failure
            self._undelivered = self._undelivered or failure
        if delivered is not None:
            self._reports.append(partial(delivered, place, offset, fault))


class MemoryTransactionalProducer:
    """After any fault it refuses everything, as the real one does."""

    def __init__(
        self, broker: Broker, coordinator: Coordinator, transactional_id: str, record_bytes_max: int
    ) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._id = transactional_id
        self._record_bytes_max = record_bytes_max
        self._epoch: int | None = None
        self._broken: str | None = None
        self._undelivered: LogFault | None = None
        self._open = False
        self._ends: dict[Place, int] = {}

    def start(self) -> None:
        """See the protocol."""
        self._usable()
        self._epoch = self._call("start", self._broker.faults.on_start(self._id), self._start)

    def begin(self) -> None:
        """See the protocol. The broker hears of a transaction with its first record or offset."""
        self._started()
        if self._open:
            self._break("a transaction is open already")
        self._open = True
        self._ends = {}

    def send_offsets(self, offsets: Mapping[Place, int], membership: Membership) -> None:
        """See the protocol."""
        epoch = self._in_transaction()
        for place, offset in offsets.items():
            if offset < 0:
                self._break(
                    f"{place.topic}[{place.partition}] cannot be committed at offset {offset}"
                )
        self._call(
            "send_offsets",
            self._broker.faults.on_send_offsets(self._id),
            lambda: self._coordinator.send_offsets(
                partial(self._broker.opened, self._id, epoch), offsets, membership
            ),
        )

    def produce(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """See the protocol. What the broker refuses shows at the commit."""
        epoch = self._in_transaction()
        try:
            refuse_oversize(topic, key, value, headers, self._record_bytes_max)
        except RecordTooLarge as fault:
            self._broken = str(fault)
            raise
        fate = self._broker.faults.on_produce(self._id)
        try:
            place, offset = meet(
                fate,
                f"producing to {topic}",
                lambda: self._broker.append(
                    topic, partition, key, value, headers, self._broker.opened(self._id, epoch)
                ),
            )
        except LogFault as fault:
            self._undelivered = self._undelivered or fault
        else:
            self._ends[place] = offset

    def commit(self) -> dict[Place, int]:
        """See the protocol."""
        epoch = self._in_transaction()
        self._open = False
        if self._undelivered is not None:
            self._broken = str(self._undelivered)
            raise self._undelivered
        fate = self._broker.faults.on_commit(self._id)
        if fate is Fate.DELAYED:
            self._broker.late_commits.append(LateCommit(self._id, epoch))
        self._call("commit", fate, lambda: self._broker.end(self._id, epoch, committed=True))
        return dict(self._ends)

    def abandon(self) -> None:
        """See the protocol."""
        if self._open and self._epoch is not None:
            epoch = self._epoch
            try:
                fate = self._broker.faults.on_abandon(self._id)
                meet(fate, "abort", lambda: self._broker.end(self._id, epoch, committed=False))
            except LogFault:
                pass  # the next start settles it
        self._broken = self._broken or "it was abandoned"

    def _start(self) -> int:
        return self._broker.start(self._id)

    def _usable(self) -> None:
        if self._broken is not None:
            raise LogFault(
                f"the producer {self._id} cannot be used any more ({self._broken}); start a new one"
            )

    def _started(self) -> int:
        self._usable()
        if self._epoch is None:
            self._break("it was not started")
        return self._epoch or 0

    def _in_transaction(self) -> int:
        epoch = self._started()
        if not self._open:
            self._break("no transaction is open")
        return epoch

    def _break(self, why: str) -> None:
        self._broken = why
        raise LogFault(f"producer {self._id}: {why}")

    def _call(self, call: str, fate: Fate, effect: Callable[[], Answer]) -> Answer:
        try:
            return meet(fate, f"{call} of {self._id}", effect)
        except NotYet:
            raise
        except (LogFault, Hung) as fault:
            self._broken = str(fault)
            raise


def refuse_oversize(
    topic: str, key: bytes | None, value: bytes | None, headers: Headers, record_bytes_max: int
) -> None:
    """The client's own limit."""
    size = size_of(key, value, headers)
    if size > record_bytes_max:
        raise RecordTooLarge(
            f"producing to {topic}: {size} bytes, at most {record_bytes_max} are taken"
        )
