"""What every Kafka client here shares: its settings, the meaning of its errors, its records and its log lines.

librdkafka's own error flags mislead (a fenced producer says "retriable", a record refused by `produce` sets no
flag at all), so nothing here trusts `retriable` or `txn_requires_abort`. Codes are compared, and what is not known
to be harmless is a fault.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol, cast

from confluent_kafka import KafkaError, KafkaException, Message

from ..limits import RECORD_BYTES_MAX
from .protocol import (
    DELIVERY_MS,
    Fatal,
    Headers,
    LogFault,
    NameTaken,
    NotYet,
    Record,
    RecordTooLarge,
)

logger = logging.getLogger("wakeful.kafka")
logger.addHandler(logging.NullHandler())  # without any handler Python prints warnings to stderr


UNREADABLE_HEADERS: Headers = (("unreadable-headers", b"1"),)
"""In the place of headers that cannot be read: the record carries no fingerprint and no signature, and is refused."""


BATCH_BYTES = 384 * 1024
"""Brokers hold a whole batch against a topic's limit, not each record; the smallest topic takes 512 KiB."""


@dataclass(frozen=True, slots=True)
class KafkaLimits:
    """Bounds of the clients, with their units; the defaults suit brokers with their default limits."""

    record_bytes_max: int = RECORD_BYTES_MAX
    batch_bytes: int = BATCH_BYTES
    transaction_timeout_ms: int = 15_000  # bounds how long a dead processor holds readers up
    delivery_timeout_ms: int = 12_000  # below it: a late record must not outlive its transaction
    plain_timeout_ms: int = DELIVERY_MS  # records outside transactions; clients wait for longer
    call_timeout_ms: int = 10_000  # commit, offsets; the watchdog's limit is above all of them
    linger_ms: int = 5  # a commit flushes at once; between, records gather into batches
    plain_linger_ms: int = 1  # nothing flushes a result or a command, so this is paid by each step
    fetch_wait_ms: int = 100  # an idle fetch's length, and so the longest a rewind waits
    heartbeat_ms: int = 1_000  # a member learns of a rebalance this late
    poll_interval_ms: int = 60_000  # longer than the longest batch

    def __post_init__(self) -> None:
        if not self.delivery_timeout_ms < self.transaction_timeout_ms:
            raise ValueError(
                f"delivery_timeout_ms is {self.delivery_timeout_ms}, it must be below "
                f"transaction_timeout_ms ({self.transaction_timeout_ms})"
            )
        if not self.linger_ms < self.delivery_timeout_ms:
            raise ValueError(f"linger_ms is {self.linger_ms}, it must be below delivery_timeout_ms")


def connection(bootstrap: str, client_id: str) -> dict[str, Any]:
    """Settings of every client: how it finds brokers, and how fast it comes back to them."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "socket.connection.setup.timeout.ms": 5_000,
        "socket.timeout.ms": 15_000,
        "logger": logger,
        "error_cb": _note,
    }


def consuming(limits: KafkaLimits, isolation: str) -> dict[str, Any]:
    """Settings of every reader: nothing is skipped, nothing is committed behind our back."""
    return {
        "isolation.level": isolation,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "check.crcs": True,
        "fetch.wait.max.ms": limits.fetch_wait_ms,
        "fetch.error.backoff.ms": 100,
    }


def producing(limits: KafkaLimits, message_timeout_ms: int, linger_ms: int) -> dict[str, Any]:
    """Settings of every producer. `murmur2_random` places keys where Java, Faust and our own code do."""
    return {
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "message.max.bytes": limits.record_bytes_max,
        "batch.size": limits.batch_bytes,
        "linger.ms": linger_ms,
        "message.timeout.ms": message_timeout_ms,
        "retry.backoff.ms": 1,  # the default of 100 is paid in every transaction
        "retry.backoff.max.ms": 1_000,
    }


_FORBIDDEN = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 confluent_kafka spells its local codes so
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)

_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)

_TAKEN = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
"""Its words: a consumer that learns of it between two calls says `_FATAL`, and of the cause the words alone."""

# The cluster is busy, moving or not reachable: the client itself tries again.
TRANSIENT = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._WAIT_CACHE,  # noqa: SLF001
        KafkaError._DESTROY_BROKER,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)


_NO_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)


def error_of(failure: KafkaException | KafkaError) -> KafkaError:
    """The error inside an exception."""
    if isinstance(failure, KafkaError):
        return failure
    error: KafkaError = failure.args[0]
    return error


def fault_of(failure: KafkaException | KafkaError, doing: str) -> LogFault:
    """The fault a client's error means, whatever its flags say."""
    error = error_of(failure)
    sentence = f"{doing}: {error.str()} ({error.name()})"
    code = error.code()
    if code in _FORBIDDEN:
        return Fatal(f"{sentence}; check this principal's rights on the cluster")
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return RecordTooLarge(sentence)
    if code in _FENCED:
        return LogFault(
            f"{sentence}; a newer producer or the transaction's time-out has fenced this one"
        )
    if code == KafkaError.FENCED_INSTANCE_ID or _TAKEN in error.str():
        return NameTaken(f"{sentence}; another process runs under the same group.instance.id")
    if code == KafkaError._FATAL or error.fatal():  # noqa: SLF001
        return Fatal(f"{sentence}; this client will never work again")
    if code in _NO_TOPIC:
        return LogFault(f"{sentence}; 'wakeful run APP' or 'wakeful topics apply' makes the topics")
    return LogFault(sentence)


def patient_fault_of(failure: KafkaException | KafkaError, doing: str) -> LogFault:
    """The same for the two calls that may be asked again: transient errors become `NotYet`."""
    error = error_of(failure)
    if error.code() in TRANSIENT:
        return NotYet(f"{doing}: {error.str()} ({error.name()})")
    return fault_of(error, doing)


class Stored(Protocol):
    """A message without an error; `Message` says of each part that it may be missing."""

    def topic(self) -> str:
        """The topic."""

    def partition(self) -> int:
        """The partition."""

    def offset(self) -> int:
        """The offset."""

    def timestamp(self) -> tuple[int, int]:
        """Its kind, and milliseconds."""

    def key(self) -> bytes | None:
        """The key."""

    def value(self) -> bytes | None:
        """The value."""

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """The headers."""


def record_of(message: Message) -> Record:
    """A message as the protocol's record; a header without a value has an empty one."""
    stored = cast("Stored", message)
    return Record(
        stored.topic(),
        stored.partition(),
        stored.offset(),
        stored.timestamp()[1],
        stored.key(),
        stored.value(),
        _headers(stored),
    )


def _headers(stored: Stored) -> Headers:
    """The headers, or `UNREADABLE_HEADERS`: anybody's client may write a name that is not UTF-8.

    confluent_kafka answers it with a SystemError. Raised from `poll` it would lose the rest of the batch.
    """
    try:
        return [(name, value or b"") for name, value in stored.headers() or ()]
    except (SystemError, UnicodeDecodeError):
        return UNREADABLE_HEADERS


def _note(error: KafkaError) -> None:
    """What a client meets between calls; calls report for themselves, so this is for the reader of logs."""
    logger.debug("client: %s (%s)", error.str(), error.name())
