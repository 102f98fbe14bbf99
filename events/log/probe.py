"""Is this broker there, is it the one we mean, and does all that we need of it work?"""

import logging
from collections.abc import Callable, Mapping
from time import monotonic

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PROBE = "wakeful.probe"  # topic, group and transactional id of the probe
CLOCK = "wakeful.clock"  # topic whose records the broker dates
PROBE_RETENTION_MS = 3_600_000
LEAST_S = 0.1  # a request is given so much however little is left
STEP_LIMIT_S = 5.0  # for one request; the whole has the caller's limit
POLL_S = 0.05
NO_SETTINGS: Mapping[str, str] = {}

_silent = logging.getLogger("wakeful.probe")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False  # a broker that is not up yet is no news


class NotReadyError(Exception):
    """The broker did not do in time what was asked: the message names the step and the cause."""


def cluster_id(bootstrap: str, *, limit_s: float) -> str:
    """Return the id of the cluster that answers at `bootstrap`; raises NotReadyError if none does."""
    admin = AdminClient(_config(bootstrap), logger=_silent)
    limit = monotonic() + limit_s
    while True:
        left_s = limit - monotonic()
        try:
            described = admin.describe_cluster(
                request_timeout=max(LEAST_S, min(left_s, STEP_LIMIT_S))
            )
            return str(described.result(timeout=max(LEAST_S, left_s)).cluster_id)
        except (KafkaException, TimeoutError) as refused:
            if monotonic() > limit:
                told = f"no answer from {bootstrap} within {limit_s:g} s{_because(refused)}"
                raise NotReadyError(told) from refused


def prove_ready(bootstrap: str, *, limit_s: float) -> None:
    """Return once metadata, a transaction and a group join have all worked at this broker.

    Leaves a small topic behind. A repeat is harmless. Raises NotReadyError after `limit_s`.
    """
    limit = monotonic() + limit_s
    step = "metadata"
    try:
        cluster_id(bootstrap, limit_s=limit_s)
        step = "creating a topic"
        _make_topic(bootstrap, limit)
        step = "a transaction"
        _commit_one(bootstrap, limit)
        step = "joining a group"
        _join(bootstrap, limit)
    except (KafkaException, TimeoutError) as refused:
        raise NotReadyError(f"{step} did not work at {bootstrap}: {_reason(refused)}") from refused


def clock_between(
    bootstrap: str, now_ms: Callable[[], int], *, limit_s: float
) -> tuple[int, int, int]:
    """Our time before and the broker's time of an append, and our time after its answer, in milliseconds.

    Leaves a small topic behind. A repeat is harmless. Raises NotReadyError after `limit_s`.
    """
    limit = monotonic() + limit_s
    try:
        _make_topic(bootstrap, limit, CLOCK, {"message.timestamp.type": "LogAppendTime"})
        producer = Producer(_config(bootstrap) | {"acks": "1"}, logger=_silent)
        _append(producer, limit)  # finds the leader; the next one takes no longer than its way
        before = now_ms()
        at = _append(producer, limit)
    except (KafkaException, TimeoutError) as refused:
        raise NotReadyError(f"no time was told at {bootstrap}: {_reason(refused)}") from refused
    return before, at, now_ms()


def _append(producer: Producer, limit: float) -> int:
    answers: list[tuple[KafkaError | None, Message]] = []
    producer.produce(CLOCK, b"what time is it?", on_delivery=lambda *told: answers.append(told))
    while not answers:
        producer.poll(min(POLL_S, _left_s(limit)))
    error, message = answers[0]
    if error is not None:
        raise KafkaException(error)
    return int(message.timestamp()[1])


def _config(bootstrap: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "socket.connection.setup.timeout.ms": 2_000,
    }


def _reason(error: Exception) -> str:
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return str(error.args[0].str())
    return str(error) or "the time is up"


def _because(error: Exception) -> str:
    """What is known beside the time that has passed; the client's own "timed out" says no more than that."""
    told = error.args[0] if isinstance(error, KafkaException) else None
    late = isinstance(told, KafkaError) and told.code() == KafkaError._TIMED_OUT  # noqa: SLF001 the client names it so
    return "" if late or isinstance(error, TimeoutError) else f": {_reason(error)}"


def _left_s(limit: float) -> float:
    left_s = limit - monotonic()
    if left_s <= 0:
        raise TimeoutError("the time is up")
    return left_s


def _make_topic(
    bootstrap: str, limit: float, name: str = PROBE, settings: Mapping[str, str] = NO_SETTINGS
) -> None:
    admin = AdminClient(_config(bootstrap), logger=_silent)
    kept = {"retention.ms": str(PROBE_RETENTION_MS)}
    topic = NewTopic(name, 1, 1, config={**kept, **settings})
    while True:
        try:
            admin.create_topics([topic])[name].result(timeout=_left_s(limit))
        except KafkaException as refused:
            code = refused.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if not refused.args[0].retriable() and code != KafkaError.INVALID_REPLICATION_FACTOR:
                raise  # that code means: no broker is registered yet
        else:
            return


def _commit_one(bootstrap: str, limit: float) -> None:
    config = _config(bootstrap) | {"transactional.id": PROBE, "transaction.timeout.ms": 10_000}
    producer = Producer(config, logger=_silent)
    producer.init_transactions(_left_s(limit))
    producer.begin_transaction()
    producer.produce(PROBE, b"ready?")
    producer.commit_transaction(_left_s(limit))


def _join(bootstrap: str, limit: float) -> None:
    config = _config(bootstrap) | {
        "group.id": PROBE,
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",
    }
    joined: list[TopicPartition] = []
    consumer = Consumer(config, logger=_silent)
    try:
        consumer.subscribe([PROBE], on_assign=lambda _, partitions: joined.extend(partitions))
        while not joined:
            _left_s(limit)
            consumer.poll(POLL_S)
    finally:
        consumer.close()
