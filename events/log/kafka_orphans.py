"""A net under static members: partitions of a group that nobody has.

A cooperative rebalance has two halves: members give up what goes to others, and join again so that the others get it. A
static member that is killed between the halves and is back within its session gets what the first half left it, at
once and without a rebalance; so nobody begins the second half, and what was given up has no owner for as long as
everybody lives. Hence a static member that came up looks whether all partitions have an owner. Where some have none
at two looks in turn, a guest who wants none of them joins the group and leaves it, and that is a rebalance.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from os.path import commonprefix

import structlog
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from .kafka_client import connection

LOOK_S = 0.75
"""Between two looks: a rebalance that goes on by itself is past its first half by then, mostly."""

LOOKS_MAX = 40
"""Half a minute; then the log tells people."""

STAY_S = 10.0
"""How long a guest tries to be let in; members come to the rebalance with their next heartbeat."""

CALL_TIMEOUT_S = 5.0

Partition = tuple[str, int]

logger = structlog.get_logger(__name__)


class Orphans:
    """Looks after one group from a thread of its own, from `begin` until all partitions have an owner, `LOOKS_MAX` times at most."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._topics = topics
        self._closed = threading.Event()
        self._begun = False

    def begin(self) -> None:
        """Once per process is enough: whoever was killed has begun anew. Later calls do nothing."""
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._run, name="look-for-orphans", daemon=True).start()

    def close(self) -> None:
        """No more looks; does not wait for the last one."""
        self._closed.set()

    def _run(self) -> None:
        admin = AdminClient(connection(self._bootstrap, f"{self._group}.orphans"))
        self._look_on(
            partial(self._without_owner, admin),
            lambda: self._visit(self._other_topic(admin)),
        )

    def _look_on(
        self, without_owner: Callable[[], set[Partition] | None], move: Callable[[], None]
    ) -> None:
        missed: set[Partition] = set()
        for _ in range(LOOKS_MAX):
            if self._closed.wait(LOOK_S):
                return
            try:
                now = without_owner()
                if now is None:
                    missed = set()
                    continue
                if not now:
                    return
                if missed & now:
                    logger.warning(
                        "partitions have no owner; the group is rebalanced",
                        group=self._group,
                        partitions=_names(now),
                    )
                    move()
                missed = now
            except KafkaException as failure:
                logger.debug("nobody can say whether partitions have no owner", fault=str(failure))
        if missed:
            told = "partitions have no owner, whatever was done: start a member of the group again"
            logger.error(told, group=self._group, partitions=_names(missed))
        else:
            told = "nobody could say whether all partitions have an owner: see 'wakeful doctor'"
            logger.warning(told, group=self._group)

    def _without_owner(self, admin: AdminClient) -> set[Partition] | None:
        """Topics and partitions; null while the group is in a rebalance, which may find them owners."""
        asked = admin.describe_consumer_groups([self._group], request_timeout=CALL_TIMEOUT_S)
        found = asked[self._group].result()
        if found.state != ConsumerGroupState.STABLE:
            return None
        owned = {
            (each.topic, each.partition)
            for member in found.members
            for each in (member.assignment.topic_partitions if member.assignment else ())
        }
        topics = admin.list_topics(timeout=CALL_TIMEOUT_S).topics
        return {
            (name, number)
            for name in self._topics
            if name in topics
            for number in topics[name].partitions
        } - owned

    def _other_topic(self, admin: AdminClient) -> str:
        """One that is not the group's, named most like its own: such a one we may see, where rights are given by prefix."""
        others = sorted(admin.list_topics(timeout=CALL_TIMEOUT_S).topics.keys() - self._topics)
        own = self._topics[0]
        return max(others, key=lambda name: len(commonprefix([name, own])), default=own)  # noqa: RUF071 names, no paths

    def _visit(self, topic: str) -> None:
        """The guest gets this topic, of which it reads nothing; the others keep what they have."""
        guest = Consumer(
            {
                **connection(self._bootstrap, f"{self._group}.guest"),
                "group.id": self._group,
                "group.protocol": "classic",
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
            }
        )
        let_in = threading.Event()
        try:
            # Its client only joins for a topic that there is; what it is given, it never assigns to itself.
            guest.subscribe([topic], on_assign=lambda _, __: let_in.set())
            deadline = time.monotonic() + STAY_S
            while not let_in.is_set() and not self._closed.is_set() and time.monotonic() < deadline:
                guest.poll(0.1)
        finally:
            guest.close()


def _names(partitions: Collection[Partition]) -> list[str]:
    return sorted(f"{topic}[{number}]" for topic, number in partitions)
