"""A transactional producer on confluent-kafka, for one rule: after any fault it is never used again.

What librdkafka says about an error cannot be trusted (see `kafka_client`), and a request whose answer was lost can
still decide a *later* transaction of the same producer epoch (KAFKA-17754, librdkafka issue 5423). A new
producer's `start` raises the epoch, which ends all of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Producer as Client

from .kafka_client import (
    KafkaLimits,
    Stored,
    connection,
    error_of,
    fault_of,
    logger,
    patient_fault_of,
    producing,
)
from .kafka_discard import discard
from .protocol import Headers, LogFault, Membership, NotYet, Place
from .watchdog import Watch

START_WAIT_S = 5.0  # then `NotYet`; librdkafka goes on where it was when asked again
ABORT_WAIT_S = 0.2  # a courtesy to readers and to the next `start`, so it may fail
FULL_QUEUE_WAIT_S = 0.05
FULL_QUEUE_WAITS_MAX = 200  # 10 s; a transaction that waits longer is near its time-out


class KafkaTransactionalProducer:
    """One thread calls everything; delivery reports arrive inside `commit` and `produce`."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        limits: KafkaLimits,
        watch: Watch,
        transactional_id: str,
    ) -> None:
        self._id = transactional_id
        self._watch = watch
        self._timeout_s = limits.call_timeout_ms / 1000
        self._broken: str | None = None
        self._open = False
        self._doubted: str | None = None
        self._undelivered: LogFault | None = None
        self._queued = 0
        self._acknowledged = 0
        self._ends: dict[tuple[str, int], int] = {}
        self._client: Client | None = Client(
            {
                **connection(bootstrap, client_id),
                **producing(limits, limits.delivery_timeout_ms, limits.linger_ms),
                "error_cb": self._doubt,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": limits.transaction_timeout_ms,
            }
        )

    def start(self) -> None:
        """See the protocol. May be called again after `NotYet`.

        Listing topics first waits for a connection: without one, init_transactions sleeps 500 ms between looks.
        """
        client = self._usable()
        try:
            with self._watch("init_transactions"):
                client.list_topics(timeout=START_WAIT_S)
                client.init_transactions(START_WAIT_S)
        except KafkaException as failure:
            fault = patient_fault_of(failure, f"starting transactional id {self._id}")
            if not isinstance(fault, NotYet):
                self._broken = str(fault)
            raise fault from failure
        self._doubted = None  # what went wrong on the way here has been overcome

    def begin(self) -> None:
        """See the protocol."""
        self._refuse_doubted()
        self._queued = self._acknowledged = 0
        self._ends = {}
        self._open = True
        self._call("begin_transaction", self._usable().begin_transaction)

    def send_offsets(self, offsets: Mapping[Place, int], membership: Membership) -> None:
        """See the protocol. A negative offset would be ignored in silence by librdkafka, so it is a fault."""
        client = self._refuse_doubted()
        for place, offset in offsets.items():
            if offset < 0:
                self._broken = f"offset {offset} for {place.topic}[{place.partition}]"
                raise LogFault(
                    f"{place.topic}[{place.partition}] cannot be committed at offset {offset}"
                )
        asked = [
            TopicPartition(place.topic, place.partition, offset)
            for place, offset in offsets.items()
        ]
        self._call(
            "send_offsets", client.send_offsets_to_transaction, asked, membership, self._timeout_s
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
        """See the protocol. A record refused here would be missing from the commit, so it breaks the producer."""
        client = self._usable()
        waits = 0
        while True:
            try:
                client.produce(
                    topic,
                    value,
                    key,
                    -1 if partition is None else partition,
                    on_delivery=self._delivered,
                    headers=list(headers),
                )
            except BufferError as full:
                waits += 1
                if waits > FULL_QUEUE_WAITS_MAX:
                    self._broken = "the queue stayed full"
                    raise LogFault(
                        f"the queue of {self._id} stayed full; no broker takes its records"
                    ) from full
                self._call("poll", client.poll, FULL_QUEUE_WAIT_S)
            except KafkaException as failure:
                fault = fault_of(failure, f"producing to {topic}")
                self._broken = str(fault)
                raise fault from failure
            except BaseException as error:
                self._broken = repr(error)
                raise
            else:
                self._queued += 1
                return

    def commit(self) -> dict[Place, int]:
        """See the protocol."""
        client = self._usable()
        self._open = False
        self._call("commit_transaction", client.commit_transaction, self._timeout_s)
        fault = self._undelivered
        if fault is None and self._acknowledged != self._queued:
            fault = LogFault(
                f"{self._acknowledged} of {self._queued} records of {self._id} were acknowledged"
            )
        if fault is not None:
            self._broken = str(fault)
            raise fault
        return {Place(*place): offset for place, offset in self._ends.items()}

    def abandon(self) -> None:
        """See the protocol.

        Where no commit was asked for yet (a rebalance, a fold that raised, refused offsets) the transaction is aborted,
        once: then readers go on at once, and the next `start` does not meet it (librdkafka would wait 500 ms there).
        """
        client, self._client = self._client, None
        if client is None:
            return
        if self._open:
            try:
                with self._watch("abort_transaction"):
                    client.abort_transaction(ABORT_WAIT_S)
            except KafkaException as failure:
                logger.debug("abort of %s: %s", self._id, error_of(failure).str())
        self._broken = self._broken or "it was abandoned"
        discard(client)

    def _usable(self) -> Client:
        if self._client is None or self._broken is not None:
            raise LogFault(
                f"the producer {self._id} cannot be used any more ({self._broken}); start a new one"
            )
        return self._client

    def _refuse_doubted(self) -> Client:
        """A producer that has lost a connection is not used for another transaction.

        It may remember a coordinator that is gone, and then send_offsets_to_transaction never returns (librdkafka issue
        5511): measured here, every process hung on the first transaction after a broker's restart. A new producer
        costs some 40 ms, the watchdog 25 s.
        """
        client = self._usable()
        client.poll(0)  # serves `_doubt`
        if self._doubted is not None:
            self._broken = f"a connection was lost: {self._doubted}"
            raise LogFault(
                f"the producer {self._id} has lost a connection ({self._doubted}); start a new one"
            )
        return client

    def _doubt(self, error: KafkaError) -> None:
        self._doubted = self._doubted or error.str()
        logger.debug("producer %s: %s (%s)", self._id, error.str(), error.name())

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            with self._watch(name):
                function(*arguments)
        except KafkaException as failure:
            fault = fault_of(failure, f"{name} of {self._id}")
            self._broken = str(fault)
            raise fault from failure
        except BaseException as error:
            self._broken = repr(error)
            raise

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called once per record, so it does the least."""
        if error is not None:
            self._undelivered = self._undelivered or fault_of(
                error, f"delivering to {message.topic()}"
            )
            return
        self._acknowledged += 1
        stored = cast("Stored", message)
        place = (stored.topic(), stored.partition())
        offset = stored.offset()
        if offset > self._ends.get(place, -1):
            self._ends[place] = offset
