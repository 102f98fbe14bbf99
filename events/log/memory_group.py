"""A group member on the memory log. Nothing happens between calls: joining, losing and gaining are done by `poll`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .memory_broker import Broker
from .memory_coordinator import Coordinator, GroupState, Member, Token
from .memory_faults import meet
from .protocol import (
    Isolation,
    LogFault,
    Membership,
    NameTaken,
    Place,
    RebalanceListener,
    Record,
)


class MemoryGroup:
    """Its session is renewed by each call; `heartbeat` renews it for a member that is only busy."""

    def __init__(
        self,
        broker: Broker,
        coordinator: Coordinator,
        expire: Callable[[], None],
        *,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        instance_id: str | None,
        session_timeout_ms: int,
    ) -> None:
        self._broker = broker
        self._state: GroupState = coordinator.group(group)
        self._expire = expire
        self._topics = topics
        self._listener = listener
        self._instance_id = instance_id
        self._session_timeout_ms = session_timeout_ms
        self._member: Member | None = None
        self._positions: dict[Place, int] = {}
        self._paused: set[Place] = set()
        self._turn = 0
        self._closed = False

    def poll(self, records_max: int, timeout_ms: int) -> list[Record]:  # noqa: ARG002 no real time
        """See the protocol. Never waits."""
        self._renew()
        member = self._member
        if member is None:
            self._member = self._join()
        elif not self._is_member(member):
            self._lose(member)
            return []
        else:
            self._let_go(member)
        self._gain()
        return self._records(records_max)

    def membership(self) -> Membership:
        """See the protocol. The generation is today's: clients learn of a new one in the background."""
        self._renew()
        member = self._member
        if member is None or not self._is_member(member):
            raise LogFault(
                f"not a member of group {self._state.name} at the moment; poll until partitions are assigned"
            )
        return Token(self._state.name, member.member_id, self._state.generation)

    def committed(self, places: Sequence[Place]) -> dict[Place, int | None]:
        """See the protocol."""
        self._renew()
        fate = self._broker.faults.on_committed(self._state.name)
        return meet(fate, "committed", lambda: self._state.fetch(places))

    def seek(self, place: Place, offset: int) -> None:
        """See the protocol."""
        if self._member is None or place not in self._member.owned:
            raise LogFault(
                f"{place.topic}[{place.partition}] is not assigned to this member; it cannot be sought"
            )
        if offset < 0:
            raise LogFault(f"{place.topic}[{place.partition}] cannot be sought to offset {offset}")
        self._positions[place] = offset
        self._paused.discard(place)

    def pause(self, places: Sequence[Place]) -> None:
        """See the protocol."""
        self._paused.update(place for place in places if place in self._positions)

    def resume(self, places: Sequence[Place]) -> None:
        """See the protocol."""
        self._paused.difference_update(places)

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """See the protocol."""
        self._renew()
        member = self._member
        if member is None or not self._is_member(member):
            raise LogFault(f"committing in group {self._state.name}: this member's session is over")
        fate = self._broker.faults.on_commit_offsets(self._state.name)
        meet(fate, "commit_offsets", lambda: self._state.commit(offsets))

    def heartbeat(self) -> None:
        """Renews the session, as the real client does in the background; a killed or stopped process does not."""
        self._renew()

    def kill(self) -> None:
        """The process is gone: its session lasts until it times out, or until its instance id joins again."""
        self._closed = True

    def close(self) -> None:
        """See the protocol."""
        if self._closed:
            return
        self._closed = True
        member = self._member
        if member is None or not self._is_member(member):
            return
        if self._positions or member.owned:
            self._listener.revoked(sorted(member.owned))
        if self._instance_id is None:
            self._state.leave(member)

    def _renew(self) -> None:
        if self._closed:
            raise LogFault(f"this member of group {self._state.name} is closed")
        self._expire()
        if self._member is not None:
            self._member.deadline_ms = self._broker.now_ms() + self._session_timeout_ms

    def _is_member(self, member: Member) -> bool:
        return self._state.members.get(member.member_id) is member

    def _join(self) -> Member:
        return self._state.join(self._topics, self._instance_id, self._session_timeout_ms)

    def _lose(self, member: Member) -> None:
        """The session had ended; a static member finds out here, too, that another has taken its place."""
        lost = sorted(member.owned)
        member.owned.clear()
        self._positions.clear()
        self._paused.clear()
        taken = self._instance_id is not None and any(
            each.instance_id == self._instance_id for each in self._state.members.values()
        )
        if taken:
            raise NameTaken(
                f"another process runs under the same group.instance.id ({self._instance_id})"
            )
        self._member = self._join()
        if lost:
            self._listener.lost(lost)

    def _let_go(self, member: Member) -> None:
        leaving = sorted(member.owned - member.target)
        if not leaving:
            return
        self._listener.revoked(leaving)
        for place in leaving:
            self._positions.pop(place, None)
            self._paused.discard(place)
        self._state.release(member, leaving)

    def _gain(self) -> None:
        if self._member is None:
            return
        gained = self._state.grant(self._member)
        if gained:
            self._listener.assigned(gained)

    def _records(self, records_max: int) -> list[Record]:
        """One partition after another, the first one another each time."""
        places = sorted(self._positions)
        if not places:
            return []
        self._turn += 1
        first = self._turn % len(places)
        records: list[Record] = []
        for place in [*places[first:], *places[:first]]:
            if place in self._paused:
                continue
            found, position = self._broker.partition(place).read(
                self._positions[place], records_max - len(records), Isolation.COMMITTED
            )
            self._positions[place] = position
            records.extend(found)
            if len(records) >= records_max:
                break
        return records
