"""The log's bad luck, drawn from the seed, and counted by kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from ...events.log.memory import MemoryLog
from ...events.log.memory_broker import Broker
from ...events.log.memory_faults import Fate, Markers
from ...events.log.memory_group import MemoryGroup
from ...events.log.memory_producer import Delivered, MemoryProducer
from ...events.log.protocol import Headers, Isolation, NotYet, Place, RebalanceListener

CONTROL = ".control.v1"

Overhears = Callable[[str, bytes | None, bytes | None, Headers], None]
"""Is told topic, key, value and headers of what is about to be sent."""


def nobody_overhears(
    _topic: str, _key: bytes | None, _value: bytes | None, _headers: Headers
) -> None:
    """In most seeds nobody is between a process and the brokers."""


class SeededFaults:
    """See `memory_faults.Faults`. Quiet once `active` is false."""

    def __init__(
        self,
        rng: random.Random,
        rate: float,
        late_markers: float,
        counts: Counter[str],
        control_rng: random.Random,
    ) -> None:
        self._rng = rng
        self._control_rng = control_rng
        self._rate = rate
        self._late_markers = late_markers
        self._counts = counts
        self.active = False
        self.unsteady = 0.0
        """Share of a worker's looks at policy that fail."""
        self.late_commit: Callable[[str], bool] = lambda _: False
        """Lets a commit request of this producer that is under way arrive; false where there is none."""

    def on_start(self, transactional_id: str) -> Fate:  # noqa: ARG002 the protocol's argument
        """See `Faults`."""
        return self._fate("start", Fate.NOT_YET, Fate.NOT_YET, Fate.FAILED, Fate.LOST_ANSWER)

    def on_send_offsets(self, transactional_id: str) -> Fate:  # noqa: ARG002 the protocol's argument
        """See `Faults`."""
        return self._fate("send_offsets", Fate.FAILED, Fate.LOST_ANSWER, Fate.HUNG)

    def on_produce(self, transactional_id: str) -> Fate:
        """See `Faults`: there are many calls of it, so each is struck less often.

        A late commit may arrive just between two records, by the link that fails this one.
        """
        if self.active and self._rng.random() < 0.4 and self.late_commit(transactional_id):
            return Fate.FAILED
        if self._rng.random() < 0.8:
            return Fate.OK
        return self._fate("produce", Fate.FAILED, Fate.LOST_ANSWER)

    def on_commit(self, transactional_id: str) -> Fate:  # noqa: ARG002 the protocol's argument
        """See `Faults`: the one call whose unknown outcome matters most."""
        return self._fate(
            "commit",
            Fate.FAILED,
            Fate.LOST_ANSWER,
            Fate.LOST_ANSWER,
            Fate.DELAYED,
            Fate.DELAYED,
            Fate.HUNG,
            Fate.HUNG_DONE,
            weight=2.0,
        )

    def on_abandon(self, transactional_id: str) -> Fate:  # noqa: ARG002 the protocol's argument
        """See `Faults`."""
        return self._fate("abandon", Fate.FAILED, Fate.LOST_ANSWER, weight=4.0)

    def on_deliver(self, topic: str) -> Fate:
        """See `Faults`. What becomes of policies changes nothing else about a seed."""
        fates = (Fate.FAILED, Fate.LOST_ANSWER, Fate.DELAYED, Fate.DELAYED)
        rng = self._control_rng if topic.endswith(CONTROL) else self._rng
        return self._fate("deliver", *fates, rng=rng)

    def on_committed(self, group: str) -> Fate:  # noqa: ARG002 the protocol's argument
        """See `Faults`."""
        return self._fate("committed", Fate.NOT_YET, Fate.NOT_YET, Fate.FAILED)

    def on_commit_offsets(self, group: str) -> Fate:  # noqa: ARG002 the protocol's argument
        """See `Faults`."""
        return self._fate("commit_offsets", Fate.FAILED, Fate.LOST_ANSWER)

    def markers(self, transactional_id: str) -> Markers:  # noqa: ARG002 the protocol's argument
        """See `Faults`."""
        if self.active and self._rng.random() < self._late_markers:
            self._counts["fault: markers late"] += 1
            return Markers.LATER
        return Markers.AT_ONCE

    def tell(self, what: str) -> None:
        """One fault more that was drawn elsewhere."""
        self._counts[f"fault: {what}"] += 1

    def _fate(
        self, call: str, *fates: Fate, weight: float = 1.0, rng: random.Random | None = None
    ) -> Fate:
        rng = rng or self._rng
        if not self.active or rng.random() >= self._rate * weight:
            return Fate.OK
        fate = rng.choice(fates)
        self._counts[f"fault: {call} {fate.name.lower()}"] += 1
        return fate


class ProcessLog(MemoryLog):
    """The log as one process uses it: shares everything, and knows its members, so that they die with it."""

    def __init__(self, shared: MemoryLog, overhears: Overhears = nobody_overhears) -> None:
        self.__dict__.update(shared.__dict__)
        self.members: list[MemoryGroup] = []
        self._overhears = overhears

    def producer(self) -> MemoryProducer:
        """See the protocol."""
        if self._overhears is nobody_overhears:
            return super().producer()
        return OverheardProducer(self._broker, self._record_bytes_max, self._overhears)

    def group(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None = None,
        session_timeout_ms: int = 10_000,
    ) -> MemoryGroup:
        """See the protocol."""
        member = super().group(
            group,
            topics,
            listener,
            instance_id=instance_id,
            session_timeout_ms=session_timeout_ms,
        )
        self.members.append(member)
        return member

    def heartbeat(self) -> None:
        """What the client's background thread does while the process lives."""
        for member in self.members:
            if not member._closed:  # noqa: SLF001 the process knows what it has closed
                member.heartbeat()

    def kill(self) -> None:
        """The process is gone; its sessions end by time-out."""
        for member in self.members:
            self.kill_member(member)


class Unsteady(MemoryLog):
    """The log as a worker reads policy from it: a share of its looks fails, by random numbers of its own."""

    def __init__(self, shared: MemoryLog, faults: SeededFaults, rng: random.Random) -> None:
        self.__dict__.update(shared.__dict__)
        self._faults, self._rng = faults, rng

    def ends(self, places: Sequence[Place], isolation: Isolation) -> dict[Place, tuple[int, int]]:
        """See the protocol."""
        if self._rng.random() < self._faults.unsteady:
            self._faults.tell("control not read")
            raise NotYet(f"{places[0].topic} has no leader")
        return super().ends(places, isolation)


class OverheardProducer(MemoryProducer):
    """A producer whose link somebody listens to: he knows what is sent before it is there, or where it never comes."""

    def __init__(self, broker: Broker, record_bytes_max: int, overhears: Overhears) -> None:
        super().__init__(broker, record_bytes_max)
        self._overhears = overhears

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
        self._overhears(topic, key, value, headers)
        super().produce(
            topic, key=key, value=value, headers=headers, partition=partition, delivered=delivered
        )
