"""The control topic, read beside a processor's work: which policy and rollouts are in force, and up to where that is known.

It is read to its end before the first command is decided, then looked at between transactions. A record that cannot be
read, or a set that cannot be loaded, is reported and the last good one stays in force; where there was none, nobody may.
A set that no publisher vouches for, or that is older than the one in force, is reported and changes nothing at all:
whoever can write to the topic must be able neither to decide nor to stop others. Where the only set is one whose key was
revoked since, nobody may: there was a policy, and what it said is not known any more.
What a processor goes by it tells the control topic itself, under its own name, so that a publisher can wait for it.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ..commands.identity import Identity
from ..commands.policy import POLICY_ERROR, PUBLISH, Everybody, Nobody, Policy
from ..commands.rollouts import SET, Rollouts
from ..events import records as r
from ..events.codec import encode_control
from ..events.headers import record_headers
from ..events.log.protocol import (
    EndOfPartition,
    Isolation,
    Log,
    LogFault,
    NotYet,
    Place,
    Producer,
    Record,
)
from ..events.topics import Topics
from .published import Ignored, Unusable, read_policy
from .rollouts import RolloutTable, is_rollout, rollout_seen_key

POLICY_KEY = b"policy"
SEEN_PREFIX = "policy-seen/"

POLL_RECORDS = 500
POLL_MS = 50
OPEN_POLLS_MAX = 600
"""Polls to the end of a topic of some dozens of records: half a minute without an answer is a fault."""

logger = structlog.get_logger(__name__)


class PolicyDamaged(Exception):
    """A published set that cannot be loaded; says why."""


Load = Callable[[r.PolicyPublished], Policy]
"""Raises `PolicyDamaged`."""


def seen_key(processor: str) -> bytes:
    """The key under which a processor tells what it decides by."""
    return f"{SEEN_PREFIX}{processor}".encode()


def nobody_by(damaged: Record, told: str) -> Nobody:
    """What is in force where the first set that was published cannot be used."""
    why = f"the policy at offset {damaged.offset} of {damaged.topic} cannot be used ({told})"
    return Nobody(f"{why}: publish one that can, with {PUBLISH}", POLICY_ERROR)


class Control:
    """See the module. `policy` is in force; `offset` is the end of what was read."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        name: str,
        *,
        load: Load,
        identity: Identity,
        unpublished: Policy,
        now_ms: Callable[[], int],
        loaded: tuple[r.Version, ...] | None = None,
    ) -> None:
        """`unpublished` is in force while no set is; `name` is the processor's; `identity` judges who may publish.

        `loaded` are its workflows, each version an entry: told with the rollouts it goes by, and not told where null.
        """
        self.policy = unpublished
        self.offset = 0
        self._log = log
        self._topic = topics.control
        self._name = name
        self._load = load
        self._identity = identity
        self._unpublished = unpublished
        self._now_ms = now_ms
        self._reader = log.reader(Isolation.COMMITTED)
        self._version: int | None = None
        self._in_force: tuple[int, bytes | None] | None = None
        self._told: tuple[int, bytes | None] | None = None
        self._table = RolloutTable(identity)
        self._loaded = loaded
        self._told_rollouts: int | None = None

    @property
    def rollouts(self) -> Rollouts:
        """In force, by workflow."""
        return self._table.in_force

    def open(self) -> None:
        """Reads to the end that is there now; `LogFault` where that is not to be had."""
        self._read_to_the_end()
        if self.policy is self._unpublished:
            who = "everybody" if isinstance(self.policy, Everybody) else "nobody"
            logger.warning("no policy is published", may_decide=who, publish=PUBLISH)

    def look(self) -> None:
        """Takes in what has come since, without waiting."""
        for item in self._reader.poll(POLL_RECORDS, 0):
            if not isinstance(item, EndOfPartition):
                self._take(item)

    def tell(self, producer: Producer) -> None:
        """Says which set is in force, and up to which rollout, once for each; what is not delivered is said again."""
        self._tell_rollouts(producer)
        said = self._in_force
        if said is None or said == self._told:
            return
        offset, set_hash = said

        def delivered(_place: Place, _offset: int, fault: LogFault | None) -> None:
            if fault is not None and self._told == said:
                self._told = None

        encoded = encode_control(r.PolicySeen(self._name, offset, set_hash, self._now_ms()))
        self._told = said
        producer.produce(
            self._topic,
            key=seen_key(self._name),
            value=encoded.value,
            headers=record_headers(encoded, f"{self._name}/{offset}"),
            partition=0,
            delivered=delivered,
        )

    def _tell_rollouts(self, producer: Producer) -> None:
        said = self._table.offset
        if self._loaded is None or said == self._told_rollouts:
            return

        def delivered(_place: Place, _offset: int, fault: LogFault | None) -> None:
            if fault is not None and self._told_rollouts == said:
                self._told_rollouts = None

        encoded = encode_control(r.RolloutSeen(self._name, said, self._loaded, self._now_ms()))
        self._told_rollouts = said
        producer.produce(
            self._topic,
            key=rollout_seen_key(self._name),
            value=encoded.value,
            headers=record_headers(encoded, f"{self._name}/rollouts/{said}"),
            partition=0,
            delivered=delivered,
        )

    def close(self) -> None:
        """Frees the reader."""
        self._reader.close()

    def _read_to_the_end(self) -> None:
        place = Place(self._topic, 0)
        start, end = self._log.ends([place], Isolation.COMMITTED)[place]
        self.offset = start
        self._reader.assign({place: start})
        if start == end:
            return
        for _ in range(OPEN_POLLS_MAX):
            for item in self._reader.poll(POLL_RECORDS, POLL_MS):
                if isinstance(item, Record):
                    self._take(item)
                elif item.offset >= end:
                    return
        raise NotYet(f"{self._topic} was not read to offset {end}: is its leader there?")

    def _take(self, record: Record) -> None:
        self.offset = record.offset + 1
        if is_rollout(record):
            self._take_rollout(record)
        if record.key != POLICY_KEY:
            return
        match read_policy(record, self._identity, self._version):
            case Ignored() as one:
                self._ignore(record, one)
            case Unusable(told):
                self._damaged(record, told)
            case None:
                self.policy, self._version = self._unpublished, None
                self._in_force = (record.offset, None)
                logger.warning("the policy was taken back", offset=record.offset)
            case published:
                self._go_by(record, published)

    def _take_rollout(self, record: Record) -> None:
        why = self._table.take(record)
        if not why:
            logger.info("rollout in force", key=(record.key or b"").decode(), offset=record.offset)
            return
        logger.error(
            "a rollout is ignored, what is in force stays",
            offset=record.offset,
            why=why,
            next_step=f"see who may write to {self._topic}; what shall hold is set with {SET}",
        )

    def _ignore(self, record: Record, one: Ignored) -> None:
        logger.error(
            "a policy set is ignored, what is in force stays",
            offset=record.offset,
            reason=one.reason,
            why=one.told,
            next_step=f"see who may write to {self._topic}; what shall hold is published with {PUBLISH}",
        )
        if one.version is not None and self.policy is self._unpublished:
            self.policy = nobody_by(record, one.told)

    def _go_by(self, record: Record, published: r.PolicyPublished) -> None:
        try:
            self.policy = self._load(published)
        except PolicyDamaged as error:
            self._damaged(record, str(error))
            return
        self._version = published.version
        self._in_force = (record.offset, self.policy.set_hash)
        logger.info("policy in force", version=published.version, offset=record.offset)

    def _damaged(self, record: Record, told: str) -> None:
        logger.error(
            "a published policy cannot be used, the last good one stays",
            offset=record.offset,
            cause=told,
        )
        if self.policy is self._unpublished:
            self.policy = nobody_by(record, told)
