"""The memory log's group coordinator: members, generations, assignment, committed and pending offsets.

Cooperative, as Kafka's: a partition moves only when its old owner has polled and let go of it, or has lost its session.
A token is checked for its *member and generation*, never for who owns a partition: that is what a real broker does,
and why an engine must give a transaction up when a rebalance reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .memory_broker import Broker, Transaction
from .protocol import LogFault, Membership, NotYet, Place


class Token(NamedTuple):
    """A member's identity at one moment."""

    group: str
    member_id: str
    generation: int


@dataclass(eq=False, slots=True)
class Member:
    """One member as the coordinator sees it; `owned` is what its client has not let go of."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    session_timeout_ms: int
    deadline_ms: int
    target: set[Place] = field(default_factory=set)
    owned: set[Place] = field(default_factory=set)


class GroupState:
    """One group."""

    def __init__(self, name: str, broker: Broker) -> None:
        self.name = name
        self.generation = 0
        self.members: dict[str, Member] = {}
        self.committed: dict[Place, int] = {}
        self._broker = broker
        self._joined = 0
        self._writes = 0
        self._written: dict[Place, int] = {}
        self._pending: dict[Transaction, dict[Place, tuple[int, int]]] = {}

    def join(
        self, topics: Sequence[str], instance_id: str | None, session_timeout_ms: int
    ) -> Member:
        """A new member; a static one takes the place of its predecessor, in the same generation."""
        self._joined += 1
        member = Member(
            f"{instance_id or 'member'}-{self._joined}",
            instance_id,
            tuple(topics),
            session_timeout_ms,
            self._broker.now_ms() + session_timeout_ms,
        )
        previous = self._static(instance_id)
        if previous is None:
            self.members[member.member_id] = member
            self._rebalance()
            return member
        member.target = previous.target
        self.members = {
            each.member_id: each
            for each in (member if each is previous else each for each in self.members.values())
        }
        if previous.owned - previous.target:
            self.generation += 1  # what the predecessor had still to let go of is free now
        return member

    def leave(self, member: Member) -> None:
        """A member is gone: closed, or its session ended."""
        if self.members.pop(member.member_id, None) is not None:
            self._rebalance()

    def release(self, member: Member, places: Iterable[Place]) -> None:
        """The old owner has let go; the next generation gives the partitions to their new one."""
        member.owned.difference_update(places)
        self.generation += 1

    def grant(self, member: Member) -> list[Place]:
        """What is the member's and nobody else's still; it is the owner from now on."""
        held = {
            place for other in self.members.values() if other is not member for place in other.owned
        }
        granted = sorted(member.target - member.owned - held)
        member.owned.update(granted)
        return granted

    def is_current(self, token: Membership) -> bool:
        """Whether a token's member and generation are today's."""
        return (
            isinstance(token, Token)
            and token.group == self.name
            and token.member_id in self.members
            and token.generation == self.generation
        )

    def expire(self, now_ms: int) -> None:
        """Ends sessions that were not renewed."""
        for member in [each for each in self.members.values() if each.deadline_ms <= now_ms]:
            self.leave(member)

    def send_offsets(
        self, transaction: Transaction, offsets: Mapping[Place, int], token: Membership
    ) -> None:
        """Makes offsets pending in a transaction."""
        if not self.is_current(token):
            raise LogFault(
                f"the membership in group {self.name} is over (generation {self.generation} now)"
            )
        if self.name not in transaction.groups:
            transaction.groups.append(self.name)
        pending = self._pending.setdefault(transaction, {})
        for place, offset in offsets.items():
            self._writes += 1
            pending[place] = (self._writes, offset)

    def settle(self, transaction: Transaction) -> None:
        """The group's own marker: pending offsets become committed, or are dropped. The latest write wins."""
        for place, (write, offset) in self._pending.pop(transaction, {}).items():
            if transaction.committed and write > self._written.get(place, 0):
                self._written[place] = write
                self.committed[place] = offset

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Commits outside a transaction."""
        for place, offset in offsets.items():
            self._writes += 1
            self._written[place] = self._writes
            self.committed[place] = offset

    def fetch(self, places: Sequence[Place]) -> dict[Place, int | None]:
        """Committed offsets; `NotYet` while any of them is pending."""
        for transaction, pending in self._pending.items():
            for place in places:
                if place in pending:
                    raise NotYet(
                        f"{place.topic}[{place.partition}] has offsets pending in {transaction.transactional_id}"
                    )
        return {place: self.committed.get(place) for place in places}

    def _static(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        return next(
            (each for each in self.members.values() if each.instance_id == instance_id), None
        )

    def _rebalance(self) -> None:
        self.generation += 1
        members = list(self.members.values())
        topics = sorted({topic for member in members for topic in member.topics})
        places = [
            partition.place
            for topic in topics
            if topic in self._broker.topics
            for partition in self._broker.topics[topic].partitions
        ]
        assign(members, places)


class Coordinator:
    """All groups of a log."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.groups: dict[str, GroupState] = {}
        broker.settle_group = self._settle

    def group(self, name: str) -> GroupState:
        """The group of that name, new or not."""
        state = self.groups.get(name)
        if state is None:
            state = self.groups[name] = GroupState(name, self._broker)
        return state

    def expire(self) -> None:
        """Ends every session that was not renewed in time."""
        now_ms = self._broker.now_ms()
        for state in self.groups.values():
            for member in state.members.values():
                if member.deadline_ms <= now_ms:
                    state.expire(now_ms)
                    break

    def send_offsets(
        self,
        open_transaction: Callable[[], Transaction],
        offsets: Mapping[Place, int],
        token: Membership,
    ) -> None:
        """Refuses a token that is not current before anything is opened."""
        if not isinstance(token, Token):
            raise LogFault(f"{token!r} is not a membership of this log")
        state = self.group(token.group)
        if not state.is_current(token):
            raise LogFault(
                f"the membership of generation {token.generation} in group {token.group} is over "
                f"(generation {state.generation} now)"
            )
        state.send_offsets(open_transaction(), offsets, token)

    def _settle(self, group: str, transaction: Transaction) -> None:
        self.groups[group].settle(transaction)


def assign(members: Sequence[Member], places: Sequence[Place]) -> None:
    """Sets each member's target: even shares, and as few moves as they allow."""
    if not members:
        return
    left = set(places)
    share, extra = divmod(len(places), len(members))
    for member in sorted(members, key=lambda each: -len(each.target)):
        wanted = sorted(
            place for place in member.target if place in left and place.topic in member.topics
        )
        limit = share + 1 if extra > 0 and len(wanted) > share else share
        if limit > share:
            extra -= 1
        member.target = set(wanted[:limit])
        left -= member.target
    for place in sorted(left):
        candidates = [member for member in members if place.topic in member.topics]
        if candidates:
            min(candidates, key=lambda each: len(each.target)).target.add(place)
