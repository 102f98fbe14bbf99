"""The log on a Kafka cluster: `KafkaLog` hands out clients and does what needs none of them.

The only package that knows confluent_kafka. Use >= 2.16.1: older clients were measured to stay dead after a broker's
crash more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient

from . import kafka_admin as admin
from .kafka_client import KafkaLimits, connection
from .kafka_group import KafkaGroup
from .kafka_producer import KafkaProducer
from .kafka_reader import KafkaReader
from .kafka_transaction import KafkaTransactionalProducer
from .protocol import (
    SESSION_TIMEOUT_MS,
    Group,
    Isolation,
    Place,
    Producer,
    Reader,
    RebalanceListener,
    TopicSpec,
    TransactionalProducer,
)
from .watchdog import Watch, unwatched


class KafkaLog:
    """See `protocol.Log`. `watch` stamps each call that can hang: a `Watchdog` in every process that runs for long."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str,
        watch: Watch = unwatched,
        limits: KafkaLimits | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._watch = watch
        self._limits = limits or KafkaLimits()
        self._admin_client: AdminClient | None = None
        self._floor_ms: int | None = None

    def group(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> Group:
        """See the protocol."""
        return KafkaGroup(
            self._bootstrap,
            self._client_id,
            self._limits,
            self._watch,
            group=group,
            topics=topics,
            listener=listener,
            instance_id=instance_id,
            session_timeout_ms=self.session_timeout_ms(session_timeout_ms),
        )

    def reader(
        self, isolation: Isolation = Isolation.COMMITTED, *, fetch_wait_ms: int | None = None
    ) -> Reader:
        """See the protocol."""
        limits = self._limits
        if fetch_wait_ms is not None:
            limits = replace(limits, fetch_wait_ms=fetch_wait_ms)
        return KafkaReader(self._bootstrap, self._client_id, limits, self._watch, isolation)

    def producer(self) -> Producer:
        """See the protocol."""
        return KafkaProducer(self._bootstrap, self._client_id, self._limits, self._watch)

    def transactional(self, transactional_id: str) -> TransactionalProducer:
        """See the protocol."""
        return KafkaTransactionalProducer(
            self._bootstrap, self._client_id, self._limits, self._watch, transactional_id
        )

    def partitions(self, topic: str) -> int:
        """See the protocol."""
        with self._watch("list_topics"):
            return admin.partitions(self._admin, topic)

    def ends(self, places: Sequence[Place], isolation: Isolation) -> dict[Place, tuple[int, int]]:
        """See the protocol. The end for `COMMITTED` is the last stable offset."""
        with self._watch("list_offsets"):
            return admin.ends(self._admin, places, isolation)

    def offsets_at(self, places: Sequence[Place], timestamp_ms: int) -> dict[Place, int]:
        """See the protocol. The end is the uncommitted one."""
        with self._watch("list_offsets"):
            return admin.offsets_at(self._admin, places, timestamp_ms)

    def create_topics(self, topics: Sequence[TopicSpec]) -> list[str]:
        """See the protocol."""
        return admin.create_topics(self._admin, topics, self._watch)

    def delete_topics(self, names: Sequence[str]) -> None:
        """See the protocol."""
        admin.delete_topics(self._admin, names, self._watch)

    def cluster_id(self) -> str:
        """See the protocol."""
        with self._watch("list_topics"):
            return admin.cluster_id(self._admin)

    def close(self) -> None:
        """See the protocol."""
        self._admin_client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def session_timeout_ms(self, wanted_ms: int = SESSION_TIMEOUT_MS) -> int:
        """The session time-out of a group's member that wants this one: brokers allow none below their floor."""
        return max(wanted_ms, self._session_floor_ms())

    def _session_floor_ms(self) -> int:
        if self._floor_ms is None:
            with self._watch("describe_configs"):
                self._floor_ms = admin.session_floor_ms(self._admin)
        return self._floor_ms

    @property
    def _admin(self) -> AdminClient:
        if self._admin_client is None:
            self._admin_client = AdminClient(connection(self._bootstrap, self._client_id))
        return self._admin_client
