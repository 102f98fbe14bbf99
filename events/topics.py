"""The topics of a namespace, as one table: names, partitions, and what the brokers are told.

Names are `<namespace>.<kind>.v1`. The number of partitions is chosen once: keys would move if it changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import InvalidKey
from .limits import (
    COMMAND_MAX,
    CONTROL_MAX,
    EVENT_MAX,
    OUTCOME_MAX,
    OVERHEAD_MAX,
    SNAPSHOT_MAX,
    TASK_MAX,
    WATCHED_MAX,
)
from .log.protocol import TopicSpec

PARTITIONS_LOCAL = 4
PARTITIONS_PRODUCTION = 12

DAY_MS = 24 * 3_600_000
FOR_EVER = "-1"

SEGMENT_BYTES = 16 * 1024 * 1024
"""Compaction leaves the open segment alone, so compacted topics have small ones."""

NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9_-]|\.(?=[a-z0-9])){0,99}", re.ASCII)
"""Lower case, since Kafka's metrics and some file systems do not tell cases apart."""

QUEUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
"""Without a dot, so that `<queue>.once` cannot be a queue of its own."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of one namespace's topics; several namespaces share a cluster without touching."""

    namespace: str

    def __post_init__(self) -> None:
        if NAMESPACE.fullmatch(self.namespace) is None:
            raise InvalidKey(
                f"namespace {self.namespace!r} is not allowed: use a-z 0-9 . _ - and start with a letter or digit"
            )

    @property
    def commands(self) -> str:
        """All input: requests, results, wake-ups."""
        return f"{self.namespace}.commands.v1"

    @property
    def events(self) -> str:
        """The truth."""
        return f"{self.namespace}.events.v1"

    @property
    def attempts(self) -> str:
        """Attempts that workers should drop."""
        return f"{self.namespace}.attempts.v1"

    @property
    def snapshots(self) -> str:
        """States, to start from instead of the first event."""
        return f"{self.namespace}.snapshots.v1"

    @property
    def outcomes(self) -> str:
        """What the world outside should know."""
        return f"{self.namespace}.outcomes.v1"

    @property
    def control(self) -> str:
        """Breakers, pauses, rollouts, policies."""
        return f"{self.namespace}.control.v1"

    @property
    def watch_windows(self) -> str:
        """What watchers count, and what they remember of sessions to do so; rebuilt from the events at will."""
        return f"{self.namespace}.watch-windows.v1"

    @property
    def watch_proposals(self) -> str:
        """Sessions without progress, as watchers see them, and when each watcher spoke last."""
        return f"{self.namespace}.watch-proposals.v1"

    @property
    def dead_letters(self) -> str:
        """What could not be read or was not allowed in, byte for byte."""
        return f"{self.namespace}.dead-letters.v1"

    def activities(self, queue: str, *, once: bool = False) -> str:
        """Attempts for the workers of a queue; `once` for writes that must not run twice."""
        if QUEUE.fullmatch(queue) is None:
            raise InvalidKey(
                f"queue {queue!r} is not allowed: use up to 64 of a-z 0-9 _ - and start with a letter or digit"
            )
        return f"{self.namespace}.activities.{queue}{'.once' if once else ''}.v1"

    def specs(
        self, queues: Iterable[str], partitions: int, *, min_insync_replicas: int = 1
    ) -> list[TopicSpec]:
        """What `topics apply` creates. `control` has one partition: its order is one order for all."""
        if partitions < 1:
            raise ValueError(f"expected at least one partition, got {partitions}")
        kinds = {
            self.commands: _config(COMMAND_MAX, days=7, log_append_time=True),
            self.events: _config(EVENT_MAX, days=None),
            self.attempts: _config(TASK_MAX, days=1),
            self.snapshots: _compacted(SNAPSHOT_MAX),
            self.outcomes: _config(OUTCOME_MAX, days=30),
            self.control: _compacted(CONTROL_MAX),
            self.watch_windows: _compacted(WATCHED_MAX),
            self.watch_proposals: _compacted(WATCHED_MAX),
            # Whatever a topic let in must fit in here, with its cause.
            self.dead_letters: _config(EVENT_MAX + OVERHEAD_MAX, days=30),
        }
        for queue in sorted(set(queues)):
            for once in (False, True):
                kinds[self.activities(queue, once=once)] = _config(
                    TASK_MAX, days=7, log_append_time=True
                )
        replicas = {"min.insync.replicas": str(min_insync_replicas)}
        return [
            TopicSpec(name, 1 if name == self.control else partitions, {**config, **replicas})
            for name, config in kinds.items()
        ]


def _config(value_max: int, *, days: int | None, log_append_time: bool = False) -> dict[str, str]:
    config = {
        "cleanup.policy": "delete",
        "retention.ms": FOR_EVER if days is None else str(days * DAY_MS),
        "retention.bytes": FOR_EVER,
        "max.message.bytes": str(value_max + OVERHEAD_MAX),
        "unclean.leader.election.enable": "false",
    }
    if log_append_time:
        config["message.timestamp.type"] = "LogAppendTime"
    return config


def _compacted(value_max: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(max(SEGMENT_BYTES, 2 * value_max)),
        "min.cleanable.dirty.ratio": "0.2",
        "max.message.bytes": str(value_max + OVERHEAD_MAX),
        "unclean.leader.election.enable": "false",
    }
