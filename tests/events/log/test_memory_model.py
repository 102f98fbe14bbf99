"""The log in memory is strict enough: a right loop survives any schedule on it, and wrong ones do not.

A copy loop (read a batch, write it elsewhere, move the offsets, all in one transaction) is stepped between its calls,
in several processes at once, under seeded faults. Each way of getting it wrong was seen to lose or double records on a
real broker; a model in which one of them survives is too kind to test the engine with.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.memory_faults import Fate, Hung, Markers, NoFaults
from wakeful.events.log.memory_group import MemoryGroup
from wakeful.events.log.memory_producer import MemoryTransactionalProducer
from wakeful.events.log.protocol import LogFault, NotYet, Place, TopicSpec

PARTITIONS = 3
RECORDS = 12  # per partition
SEEDS = 150
MUTANT_SEEDS = 600

MISTAKES = (
    "goes on after a rebalance with fresh metadata",
    "does not rewind after a fault",
    "commits the offset of the last record",
    "does not wait for pending offsets",
    "sends no offsets when it only writes",
    "keeps the producer after a fault",
)


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


class Dice(NoFaults):
    """One call in twenty goes wrong, until the world is healed."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.healed = False

    def _fate(self, *fates: Fate) -> Fate:
        return Fate.OK if self.healed or self.dice.random() > 0.05 else self.dice.choice(fates)

    def on_start(self, transactional_id: str) -> Fate:
        return self._fate(Fate.NOT_YET, Fate.FAILED)

    def on_send_offsets(self, transactional_id: str) -> Fate:
        return self._fate(Fate.FAILED, Fate.LOST_ANSWER, Fate.HUNG)

    def on_produce(self, transactional_id: str) -> Fate:
        return self._fate(Fate.FAILED, Fate.LOST_ANSWER)

    def on_commit(self, transactional_id: str) -> Fate:
        return self._fate(Fate.FAILED, Fate.LOST_ANSWER, Fate.DELAYED, Fate.HUNG, Fate.HUNG_DONE)

    def on_abandon(self, transactional_id: str) -> Fate:
        return self._fate(Fate.FAILED, Fate.LOST_ANSWER)

    def on_committed(self, group: str) -> Fate:
        return self._fate(Fate.NOT_YET)

    def markers(self, transactional_id: str) -> Markers:
        return Markers.AT_ONCE if self.healed or self.dice.random() < 0.5 else Markers.LATER


@dataclass
class Copier:
    """One process of the loop under test, with at most one mistake in it."""

    log: MemoryLog
    ordinal: int
    batch: int
    mistake: str | None
    positions: dict[Place, int] = field(default_factory=dict)
    changed: bool = True

    def assigned(self, places: Sequence[Place]) -> None:
        self.changed = True

    def revoked(self, places: Sequence[Place]) -> None:
        self.changed = True
        if self.mistake != MISTAKES[0]:
            for place in places:
                self.positions.pop(place, None)

    lost = revoked

    def run(self, group: MemoryGroup) -> Iterator[None]:
        producer = None
        while True:
            try:
                if producer is None:
                    producer = self.log.transactional(f"copier-{self.ordinal}")
                    yield from self._started(producer)
                yield from self._once(group, producer)
            except LogFault:
                if (
                    producer is not None
                    and self.mistake == MISTAKES[5]
                    and producer._epoch is not None
                ):
                    producer._broken = producer._undelivered = None
                    producer._open = False
                else:
                    if producer is not None:
                        producer.abandon()
                    producer = None
                self.changed = self.mistake != MISTAKES[1] or self.changed
            yield

    def _started(self, producer: MemoryTransactionalProducer) -> Iterator[None]:
        while True:
            try:
                producer.start()
            except NotYet:
                yield
            else:
                return

    def _once(self, group: MemoryGroup, producer: MemoryTransactionalProducer) -> Iterator[None]:
        records = group.poll(self.batch, 0)
        stale = list(records)
        yield
        if self.mistake == MISTAKES[0]:
            group.poll(0, 0)  # a rebalance reaches it with a batch in hand
        if self.changed:
            yield from self._rewound(group)
            if self.mistake != MISTAKES[0]:
                return
            records = stale
        if not records:
            return
        producer.begin()
        token = group.membership()
        yield
        ends = dict(self.positions)
        for record in records:
            ends[Place("in", record.partition)] = record.offset + (self.mistake != MISTAKES[2])
        if self.mistake != MISTAKES[4] or self.log._broker.now_ms() % 2:
            producer.send_offsets(ends, token)
        yield
        for record in records:
            producer.produce(
                "out", key=None, value=b"%d" % record.offset, partition=record.partition
            )
            yield
        producer.commit()
        self.positions = ends

    def _rewound(self, group: MemoryGroup) -> Iterator[None]:
        owned = sorted(group._member.owned) if group._member is not None else []
        while True:
            try:
                committed = group.committed(owned)
            except NotYet:
                if self.mistake == MISTAKES[3]:
                    committed = {place: self.log.group_offsets("g").get(place) for place in owned}
                else:
                    yield
                    continue
            break
        for place in owned:
            group.seek(place, committed[place] or 0)
        self.positions = {place: committed[place] or 0 for place in owned}
        self.changed = False


class Run:
    """One seed: faults for a while, then healing, then the count."""

    def __init__(self, seed: int, mistake: str | None) -> None:
        self.dice = random.Random(seed)
        self.clock = Clock()
        self.faults = Dice(self.dice)
        self.mistake = mistake
        self.log = MemoryLog(now_ms=self.clock, faults=self.faults)
        self.log.create_topics([TopicSpec("in", PARTITIONS, {}), TopicSpec("out", PARTITIONS, {})])
        writer = self.log.producer()
        for number in range(PARTITIONS * RECORDS):
            writer.produce("in", key=None, value=b"", partition=number % PARTITIONS)
        self.running: list[tuple[int, MemoryGroup, Iterator[None]]] = []
        for ordinal in range(3):
            self.spawn(ordinal)

    def spawn(self, ordinal: int) -> None:
        copier = Copier(self.log, ordinal, self.dice.randint(1, 5), self.mistake)
        group = self.log.group("g", ["in"], copier, instance_id=f"i{ordinal}")
        self.running.append((ordinal, group, copier.run(group)))

    def step(self, index: int) -> None:
        ordinal, _, steps = self.running[index]
        try:
            next(steps)
        except Hung:  # the watchdog ends the process, the supervisor starts it again
            self.kill(index)
            self.spawn(ordinal)

    def kill(self, index: int) -> int:
        ordinal, group, _ = self.running.pop(index)
        self.log.kill_member(group)
        return ordinal

    def disturb(self) -> None:
        """Everything that may happen beside the processes' own steps."""
        self.clock.now_ms += self.dice.choice((0, 1, 50, 200))
        chance = self.dice.random()
        pending, late = self.log.pending_markers(), self.log.late_commits()
        if chance < 0.01:
            self.spawn(self.kill(self.dice.randrange(len(self.running))))
        elif chance < 0.015:
            self.clock.now_ms += 12_000  # all of them were silent: a pause
        elif chance < 0.02 and len(self.running) < 5:
            self.spawn(self.dice.randrange(3))  # two processes under one name
        elif chance < 0.2 and pending:
            self.log.write_marker(self.dice.choice(pending))
        elif chance < 0.25 and late:
            self.log.arrive(self.dice.choice(late))

    def play(self) -> None:
        for _ in range(self.dice.randint(50, 400)):
            self.disturb()
            self.step_one(self.dice.randrange(len(self.running)))
        self.faults.healed = True
        for index in reversed(range(len(self.running))):
            self.kill(index)
        for ordinal in range(3):
            self.spawn(ordinal)
        for _ in range(1_500):
            self.clock.now_ms += 20
            self.log.settle()
            self.step_one(self.dice.randrange(len(self.running)))
            if (
                len(self.log.dump("out")) >= PARTITIONS * RECORDS
                and not self.log.open_transactions()
            ):
                return

    def step_one(self, index: int) -> None:
        ordinal = self.running[index][0]
        try:
            self.step(index)
        except StopIteration:
            self.running.pop(index)
            self.spawn(ordinal)

    def is_right(self) -> bool:
        """Each record once, in order."""
        copied: dict[int, list[bytes | None]] = {number: [] for number in range(PARTITIONS)}
        for record in self.log.dump("out"):
            copied[record.partition].append(record.value)
        return all(found == [b"%d" % n for n in range(RECORDS)] for found in copied.values())


def test_a_right_loop_copies_every_record_once_whatever_happens():
    wrong = []
    for seed in range(SEEDS):
        run = Run(seed, None)
        run.play()
        if not run.is_right():
            wrong.append(seed)
    assert wrong == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_loop_is_found_out(mistake: str):
    for seed in range(MUTANT_SEEDS):
        run = Run(seed, mistake)
        run.play()
        if not run.is_right():
            return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not find a loop that {mistake}")
