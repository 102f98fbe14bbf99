"""The same commands give the same log, whatever the batch, whether coroutines are kept, whoever was killed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from wakeful.commands.check import Facts
from wakeful.commands.policy import EVERYBODY
from wakeful.events.blobs import Blobs
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Record
from wakeful.events.topics import Topics
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopSettings
from wakeful.processors.simulation.actors import DIGEST_KEY, GROUP, NAMESPACE
from wakeful.processors.simulation.bounds import bounds
from wakeful.processors.simulation.keyless import identity_of
from wakeful.processors.simulation.plan import Plan
from wakeful.processors.simulation.workload import APP, QUEUES
from wakeful.processors.simulation.world import World

Line = tuple[int, bytes | None, bytes | None]


class LogClock:
    """The log's time; the owner's stands still long ago, so that it wakes nobody."""

    ms = 0

    def log_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return 0

    def steady_ms(self) -> int:
        return self.ms


def commands_of(seed: int) -> tuple[list[Record], list[Line], Blobs]:
    """The commands that a whole schedule led to, in order, the events that became of them, and what these refer to."""
    world = World(replace(Plan.draw(seed), deploys=False, guarded=False, policies=0))
    assert world.run()
    commands = world.log.dump(world.topics.commands)
    events = lines(world.log, world.topics)
    partitions = world.plan.partitions
    world.close()
    assert {record.partition for record in commands} <= set(range(partitions))
    return commands, events, world.scene.blobs


def lines(log: MemoryLog, topics: Topics) -> list[Line]:
    return [(r.partition, r.key, r.value) for r in log.dump(topics.events)]


def fold(
    commands: Sequence[Record], partitions: int, blobs: Blobs, *, batch: int, replay: bool
) -> list[Line]:
    clock, topics = LogClock(), Topics(NAMESPACE)
    log = MemoryLog(now_ms=clock.log_ms)
    log.create_topics(topics.specs(QUEUES, partitions))
    producer = log.producer()
    for record in commands:
        clock.ms = record.timestamp_ms
        producer.produce(
            topics.commands,
            key=record.key,
            value=record.value,
            headers=record.headers,
            partition=record.partition,
        )
    facts = Facts(DIGEST_KEY, control_offset=0, blobs=blobs, policy=EVERYBODY)
    handler = CommandHandler(APP, facts, always_replay=replay)
    settings = LoopSettings(GROUP, f"{GROUP}-0", None, batch_records=batch)
    loop = Loop(log, topics, handler, settings, clock, identity=identity_of(0, log, clock.log_ms))
    polls = 0
    for point in loop.steps():
        polls = polls + 1 if point == "p.polled" else 0
        loop.stopping = polls > partitions + 2
    return lines(log, topics)


@pytest.mark.case("U7")
@pytest.mark.case("L29")
@pytest.mark.parametrize("seed", [2, 5, 15, 24])
def test_batches_and_replay_change_nothing(seed: int) -> None:
    commands, events, blobs = commands_of(seed)
    plan = Plan.draw(seed)
    assert len(events) > 10
    with bounds(plan):
        for batch, replay in ((1, False), (64, False), (1, True), (64, True)):
            assert fold(commands, plan.partitions, blobs, batch=batch, replay=replay) == events
