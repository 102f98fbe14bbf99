"""Equality: the log is the sequential model's, and every way to a session's state leads to the same state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from ...commands import children, runs
from ...commands.policy import Policy
from ...commands.rollouts import Rollout, Rollouts
from ...commands.wire import decode_command
from ...events.codec import decode_event
from ...events.errors import Undecodable
from ...events.log.protocol import Group, Place, Record
from ...processors.partition import Partition
from ...processors.session import Session
from ...processors.simulation.actors import GROUP, KeptStore
from ...processors.simulation.bounds import bounds
from ...processors.simulation.clients import FLOODED, STRAY
from ...processors.simulation.model import Model, ModelPartition, owner
from ...processors.simulation.operators import rolled_out
from ...processors.simulation.policies import in_force
from ...processors.simulation.workload import QUEUES, app_of
from ...processors.simulation.world import World
from ...projections.audit.evidence import read_topic
from .arriving import silent_attempt
from .copying import Copied

RESTORE_STEPS_MAX = 10_000


def against_the_model(world: World) -> tuple[Model, list[str]]:
    """The model of this log's commands, and where what was written differs from it.

    It is not shown what a copier laid down: nothing but dead letters may come of that.
    """
    topics, log = world.topics, world.log
    copied = Copied(world.copier.copies)
    with bounds(world.plan):
        commands = read_topic(log, topics.commands)
        model = Model.of(
            [record for record in commands if not copied.holds(record)],
            topics,
            world.plan.partitions,
            blobs=world.scene.blobs,
            always_replay=not world.plan.always_replay,
            in_force=_in_force(world),
            identity=world.scene.identity,
            app=app_of(world.plan),
        )
    flooded = {FLOODED} if world.plan.floods else set()
    model.leave(flooded)  # what was metered is forgotten in a restart, which the model has none of
    written: dict[str, Sequence[Record]] = {
        spec.name: [
            record
            for record in read_topic(log, spec.name)
            if record.key != STRAY and not copied.holds(record) and not copied.led_to(record)
        ]
        for spec in topics.specs(QUEUES, world.plan.partitions)
        if spec.name not in (topics.commands, topics.snapshots, topics.control)
    }
    written[topics.commands] = [
        record for record in commands if not copied.holds(record) and _from_a_session(record)
    ]
    differences = list(model.differences(written))
    if differences:
        model.leave(flooded | _silent(model, written[topics.events]))
        differences = list(model.differences(written))
    return model, differences


def _in_force(world: World) -> Callable[[Record], tuple[Policy, int, Rollouts]]:
    """By command, what was in force when it was decided: its first event says up to where the control topic was read."""
    control = world.log.dump(world.topics.control)
    ends: dict[tuple[int, int], int] = {}
    for record in world.log.dump(world.topics.events):
        envelope = decode_event(record.value, record.headers).envelope
        cause = envelope.cause
        ends.setdefault((cause.partition, cause.offset), envelope.control_offset or 0)

    def of(record: Record) -> tuple[Policy, int, Rollouts]:
        end = ends.get((record.partition, record.offset), 0)
        found = rolled_out(control, end)
        rollouts = {} if found is None else {found[0].workflow: Rollout(*found)}
        return in_force(control, end, world.plan.unpublished), end, rollouts

    return of


def _silent(model: Model, events: Sequence[Record]) -> set[bytes]:
    """Sessions in which an attempt fell silent: a new owner waits for one more interval, so two logs may differ."""
    found = set()
    for record in events:
        if silent_attempt(decode_event(record.value, record.headers).body) is not None:
            found.add(owner(record.key))
    for key, body in model.events:
        if silent_attempt(body) is not None:
            found.add(owner(key))
    return found


def _from_a_session(record: Record) -> bool:
    """Whether a processor wrote this command, since one session has to tell another something."""
    try:
        return decode_command(record.value, record.headers).header.channel in (
            children.CHANNEL,
            runs.CHANNEL,
        )
    except Undecodable:
        return False


def states(world: World, model: Model) -> Iterator[str]:
    """Live states, and one partition refolded: from its snapshots, from the first event, or from an old file."""
    for processor in world.processors:
        for partition in processor.partitions:
            yield from _compare(
                partition, model.partitions[partition.number], f"live in {processor.name}"
            )
    number = world.rng.randrange(world.plan.partitions)
    wanted = model.partitions[number]
    copies = [p.copies[number] for p in world.processors if number in p.copies]
    with bounds(world.plan):
        match world.rng.randrange(3):
            case 0:
                yield from _compare(_restored(world, number, None), wanted, "from snapshots")
            case 1 if copies:
                copy = world.rng.choice(copies)
                yield from _compare(_restored(world, number, copy), wanted, "from an old file")
            case _:
                restored = _restored(world, number, None, from_start=True)
                yield from _compare(restored, wanted, "from 0")


def _restored(
    world: World, number: int, copy: bytes | None, *, from_start: bool = False
) -> Partition:
    partition = Partition(number, world.topics, world.log, GROUP, None)
    if copy is not None:
        partition.store.close()
        partition.store = KeptStore.from_copy(copy)
    if from_start:
        partition._from_store = partition._from_start  # type: ignore[method-assign]  # noqa: SLF001
    steps = partition.restore(cast("Group", _Offsets(world)))
    for _ in range(RESTORE_STEPS_MAX):
        if next(steps, None) is None:
            return partition
    raise RuntimeError(f"partition {number} is not restored after {RESTORE_STEPS_MAX} steps")


class _Offsets:
    """A group that is only asked for its committed offsets."""

    def __init__(self, world: World) -> None:
        self._world = world

    def committed(self, places: Sequence[Place]) -> dict[Place, int | None]:
        """See the protocol."""
        found: Mapping[Place, int] = self._world.log.group_offsets(GROUP)
        return {place: found.get(place) for place in places}


def _compare(partition: Partition, wanted: ModelPartition, how: str) -> Iterator[str]:
    for key, expected in wanted.sessions.items():
        found = partition.session(key)
        told = _difference(found, expected)
        if told is not None:
            yield f"{key.decode()} {how}: {told}"


def _difference(found: Session, expected: Session) -> str | None:
    if found.head != expected.head:
        return f"head is {found.head.seq} {found.head.hash.hex()[:8]}, expected {expected.head.seq} {expected.head.hash.hex()[:8]}"
    if found.state != expected.state:
        return f"state at seq {found.head.seq} differs: {found.state} expected {expected.state}"
    if found.journal != expected.journal:
        return f"journal has {len(found.journal)} facts, expected {len(expected.journal)}"
    return None
