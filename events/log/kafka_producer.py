"""A plain idempotent producer on confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from .kafka_client import KafkaLimits, Stored, connection, fault_of, producing
from .kafka_discard import discard
from .protocol import Headers, LogFault, Place
from .watchdog import Watch

FULL_QUEUE_WAIT_S = 0.05
CONNECT_WAIT_S = 1.0
FLUSH_MS_MAX = 5_000  # far below the watchdog's limit: waiting for a broker is not hanging

Delivered = Callable[[Place, int, LogFault | None], None]


class KafkaProducer:
    """Queues, and tells by callback or `flush` what became of it; safe to call from several threads."""

    def __init__(self, bootstrap: str, client_id: str, limits: KafkaLimits, watch: Watch) -> None:
        self._watch = watch
        self._undelivered: LogFault | None = None
        self._raised: BaseException | None = None
        self._client: Client | None = Client(
            {
                **connection(bootstrap, client_id),
                **producing(limits, limits.plain_timeout_ms, limits.plain_linger_ms),
            }
        )
        self._connect()

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
        client = self._open()
        while True:
            try:
                client.produce(
                    topic,
                    value,
                    key,
                    -1 if partition is None else partition,
                    on_delivery=self._reporter(delivered),
                    headers=list(headers),
                )
            except BufferError:
                with self._watch("produce"):
                    client.poll(FULL_QUEUE_WAIT_S)
            except KafkaException as failure:
                raise fault_of(failure, f"producing to {topic}") from failure
            else:
                return

    def _connect(self) -> None:
        """Waits for a connection, if there is one to be had: else the first record may wait 500 ms for its producer id."""
        with self._watch("list_topics"), suppress(KafkaException):
            self._open().list_topics(timeout=CONNECT_WAIT_S)

    def poll(self) -> None:
        """See the protocol."""
        self._open().poll(0)
        self._raise_callbacks()

    def flush(self, timeout_ms: int) -> None:
        """See the protocol. Each undelivered record is reported once: by its callback, and by the next flush."""
        left = self._flush(timeout_ms % FLUSH_MS_MAX)
        for _ in range(timeout_ms // FLUSH_MS_MAX):
            left = left and self._flush(FLUSH_MS_MAX)
        self._raise_callbacks()
        fault, self._undelivered = self._undelivered, None
        if fault is not None:
            raise fault
        if left:
            raise LogFault(f"{left} records are still undecided after {timeout_ms} ms")

    def _flush(self, timeout_ms: int) -> int:
        with self._watch("flush"):
            return self._open().flush(timeout_ms / 1000)

    def close(self) -> None:
        """See the protocol."""
        client, self._client = self._client, None
        if client is not None:
            discard(client)

    def _open(self) -> Client:
        if self._client is None:
            raise LogFault("this producer is closed")
        return self._client

    def _reporter(
        self, delivered: Delivered | None
    ) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            stored = cast("Stored", message)
            place = Place(stored.topic(), stored.partition())
            fault = None
            if error is not None:
                fault = fault_of(error, f"delivering to {place.topic}[{place.partition}]")
                self._undelivered = self._undelivered or fault
            if delivered is None:
                return
            try:
                delivered(place, -1 if fault is not None else stored.offset(), fault)
            except BaseException as raised:  # noqa: BLE001 kept and raised from poll or flush; it must not cross C
                self._raised = self._raised or raised

        return report

    def _raise_callbacks(self) -> None:
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
