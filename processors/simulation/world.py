"""One schedule: who steps next, what goes wrong, and, after healing, whether everything comes to rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

from ...events.log.memory import MemoryLog
from ...events.log.protocol import Isolation, Place, Record
from ...events.topics import Topics
from .actors import GROUP, NAMESPACE, Actor, ProcessorActor, Scene
from .attempts import Start
from .bounds import bounds
from .clients import Clients
from .clock import VirtualClock
from .copiers import Copier
from .downstream import Downstream
from .faults import SeededFaults
from .operators import Operator
from .plan import Plan
from .policies import Publisher, load
from .usurpers import Usurper
from .worker import WorkerActor, worker_group
from .workload import GUARDED, QUEUES, app_of

BEAT_MS = 400
"""Virtual time between two heartbeats of a client that lives."""

TRANSACTION_TIMEOUT_MS = 3_000
ROUNDS_MAX = 200
"""Rounds without waiting before a world that does not come to rest is called stranded."""

WAITS_MAX = 200
"""Timers, expiries and answers after healing before the same is said."""

STRAY_TICKS = 5
"""Between two records that are no tasks, where there are any."""

STEPS_PER_ROUND_MAX = 40
QUIET_ROUNDS = 2

FAR_MS = 1 << 50

FLOOD_EVERY_TICKS = 75

Trace = Callable[[str], None]


class World:
    """See the module. `more` adds actors that this package may not know: projectors."""

    def __init__(
        self,
        plan: Plan,
        *,
        more: Callable[[Scene], list[Actor]] | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.plan = plan
        self.rng = random.Random(f"world/{plan.seed}")
        self.counts: Counter[str] = Counter()
        self.clock = VirtualClock()
        self.faults = SeededFaults(
            self.rng,
            plan.fault_rate,
            plan.late_markers,
            self.counts,
            random.Random(f"control/{plan.seed}"),
        )
        self.log = MemoryLog(
            now_ms=self.clock.now_ms,
            faults=self.faults,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self.topics = Topics(NAMESPACE)
        self.log.create_topics(self.topics.specs(QUEUES, plan.partitions))
        self.downstream = Downstream(self.clock)
        self.scene = Scene(
            plan,
            self.rng,
            self.clock,
            self.log,
            self.topics,
            self.faults,
            self.downstream,
            self.counts,
            load=load,
            app=app_of(plan),
        )
        self.faults.late_commit = self._late_commit
        self.starts: list[Start] = []
        self.clients = Clients(self.scene)
        self.publisher = Publisher(self.scene)
        self.operator = Operator(self.scene, self.clients.repair, lambda: self.clients.opened)
        self.usurper = Usurper(self.scene)
        self.copier = Copier(self.scene)
        self.processors = [ProcessorActor(self.scene, n) for n in range(plan.processors)]
        self.workers = [
            WorkerActor(self.scene, n, queue, self.starts)
            for queue in QUEUES
            for n in range(plan.workers)
        ]
        self.actors: list[Actor] = [
            *self.processors,
            *self.workers,
            *(more(self.scene) if more else []),
        ]
        self.observer = Observer(self.log, self.topics, plan.partitions)
        self._trace = trace
        self._beat_ms = self.clock.ms
        self.steps = 0

    def run(self) -> bool:
        """Both phases; whether the world came to rest."""
        with bounds(self.plan):
            self.faults.active = True
            for tick in range(self.plan.ticks):
                if self.plan.guarded and tick == self.plan.ticks // 2:
                    self._deploy()
                self.publisher.step(tick)
                self.operator.step()
                self.usurper.step()
                self.copier.step()
                if self.plan.floods and tick % FLOOD_EVERY_TICKS == 0:
                    self.clients.flood()
                if self.plan.strays and tick % STRAY_TICKS == 0:
                    self.clients.stray(QUEUES[tick // STRAY_TICKS % len(QUEUES)])
                self._tick()
            self.heal()
            rested = self.settle()
            return self.settle() if rested and self.copier.comes_again() else rested

    def close(self) -> None:
        """Frees what the schedule holds."""
        self.faults.active = False
        for actor in self.actors:
            actor.close()

    def heal(self) -> None:
        """No more faults: what was under way arrives, everybody runs."""
        self._say("heal")
        self.faults.active = False
        for late in self.log.late_commits():
            self.log.arrive(late)
        self.log.settle()
        self.publisher.heal()
        self.operator.heal()
        self.clients.heal()
        for actor in self.actors:
            actor.heal()

    def settle(self) -> bool:
        """Runs, answers and waits until nothing is due any more; false where that does not come."""
        for _ in range(WAITS_MAX):
            self.clients.calm_step()
            self.publisher.calm_step(self.workers)
            self.operator.calm_step()
            self.usurper.calm_step()
            self.copier.calm_step()
            if not self.rest():
                return False
            if self.clients.busy:
                continue
            due_ms = self._next_due_ms()
            if due_ms is not None:
                self.advance(max(1, due_ms - self.clock.ms))
            elif self._all_read():
                return True
            else:
                self.advance(BEAT_MS)  # partitions may still be on their way to an owner
        return False

    def rest(self) -> bool:
        """Runs everybody until nothing moves, without waiting for anything that is due later."""
        quiet = 0
        for _ in range(ROUNDS_MAX):
            self.publisher.follow()
            before = self._appended()
            for actor in self.actors:
                self._exhaust(actor)
            self.log.settle()
            self.observer.look()
            self.advance(60)
            quiet = quiet + 1 if self._appended() == before and self._all_idle() else 0
            if quiet >= QUIET_ROUNDS:
                return True
        return False

    def advance(self, ms: int) -> None:
        """Moves time; every live client's heartbeats keep up with it."""
        while ms > 0:
            part = min(ms, BEAT_MS)
            self.clock.ms += part
            ms -= part
            if self.clock.ms - self._beat_ms >= BEAT_MS:
                self._beat_ms = self.clock.ms
                for actor in self.actors:
                    actor.heartbeat()

    def _exhaust(self, actor: Actor) -> None:
        for _ in range(STEPS_PER_ROUND_MAX):
            self._step(actor)
            if actor.idle or actor.sleeps:
                return

    def _all_idle(self) -> bool:
        there = [actor for actor in self.actors if actor.resume_ms < FAR_MS]
        return all(actor.idle and not actor.sleeps for actor in there)

    def _all_read(self) -> bool:
        """Whether every command has its disposition, and every task its result: nobody is stranded on the way."""
        read = self.log.group_offsets(GROUP)
        for queue in QUEUES:
            read.update(self.log.group_offsets(worker_group(queue)))
        topics = [self.topics.commands]
        for once in (False, True):
            topics += [self.topics.activities(queue, once=once) for queue in QUEUES]
        places = [Place(topic, n) for topic in topics for n in range(self.plan.partitions)]
        ends = self.log.ends(places, Isolation.COMMITTED)
        return all(
            end <= read.get(place, 0) or self._only_markers(place, read)
            for place, (_, end) in ends.items()
        )

    def _only_markers(self, place: Place, read: dict[Place, int]) -> bool:
        reader = self.log.reader(Isolation.COMMITTED)
        reader.assign({place: read.get(place, 0)})
        return not any(isinstance(item, Record) for item in reader.poll(1, 0))

    def _appended(self) -> int:
        return self.log._broker.appended  # noqa: SLF001 the cheapest way to see that nothing moved

    def _next_due_ms(self) -> int | None:
        due = [
            due_ms
            for processor in self.processors
            for owned in processor.partitions
            if owned.ready
            for _, due_ms, _ in owned.store.due(FAR_MS, 1)
        ]
        due += [worker.due_ms for worker in self.workers if worker.due_ms is not None]
        return min(due, default=None)

    def _step(self, actor: Actor) -> None:
        actor.step()
        self.steps += 1
        if self._trace is not None:
            state = actor.point if actor.up else "down"
            self._say(f"{actor.name} {state}")

    def _tick(self) -> None:
        rng = self.rng
        self.advance(rng.randrange(30))
        roll = rng.random()
        if roll < 0.70:
            actor = rng.choice(self.actors)
            for _ in range(rng.choice((1, 1, 2, 6))):
                self._step(actor)
        elif roll < 0.84:
            self.clients.step()
        elif roll < 0.92:
            self._move_the_log()
        elif roll < 0.96:
            self.advance(rng.choice((100, 500, 1_500)))
        else:
            self._strike()
        if rng.random() < self.plan.kills:
            victim = rng.choice(self.actors)
            victim.doom = rng.choice(victim.points)
            self._say(f"{victim.name} will die at {victim.doom}")

    def _move_the_log(self) -> None:
        """A marker becomes visible, in any order, or a late commit arrives; somebody outside reads along."""
        rng = self.rng
        self.observer.look()
        if rng.random() < 0.3 and self._late_commit(""):
            return
        markers = self.log.pending_markers()
        if markers and rng.random() < self.plan.marker_pace:
            self.log.write_marker(rng.choice(markers))

    def _late_commit(self, of: str) -> bool:
        """One of this producer's, or of anybody's, arrives."""
        late = [each for each in self.log.late_commits() if of in ("", each.transactional_id)]
        if late:
            self.counts["fault: late commit arrives"] += 1
            self.log.arrive(self.rng.choice(late))
        return bool(late)

    def _strike(self) -> None:
        """Something happens to a process."""
        rng, plan = self.rng, self.plan
        actor = rng.choice(self.actors)
        roll = rng.random()
        if plan.deploys and roll < 0.4:
            self.counts["fault: deployed"] += 1
            rng.choice(self.processors).kill(after_ms=10)
        elif plan.kills and roll < 0.3:
            actor.kill(after_ms=rng.choice((10, 500, 4_000)))
        elif roll < 0.55:
            actor.freeze(rng.choice((100, 1_000, 3_000, 8_000)))
        elif roll < 0.7:
            stops = [each.stop for each in self.processors] + [each.stop for each in self.workers]
            rng.choice(stops)()
        elif roll < 0.8:
            rng.choice(self.processors).copy_disk()
        elif roll < 0.9:
            self.counts["fault: compacted"] += 1
            self._compact(rng.randrange(plan.partitions))
        else:
            rng.choice(self.processors).lose_disk()
        self._say("strike")

    def _deploy(self) -> None:
        """The next release, for everybody at once."""
        self.counts["fault: released"] += 1
        self.scene.app = GUARDED
        for processor in self.processors:
            processor.kill(after_ms=10)

    def _compact(self, number: int) -> None:
        """Of each key's snapshots only the newest that is decided stays, as the topic's clean-up leaves it."""
        found = self.log._broker.partition(Place(self.topics.snapshots, number))  # noqa: SLF001 no client can do it
        newest: set[bytes | None] = set()
        for offset in range(found.limit(Isolation.COMMITTED) - 1, -1, -1):
            record, transaction = found.entries[offset]
            if record is None or transaction is None or not transaction.committed:
                continue
            if record.key in newest:
                found.entries[offset] = (None, transaction)
            newest.add(record.key)

    def _say(self, what: str) -> None:
        if self._trace is not None:
            self._trace(f"{self.clock.ms % 10_000_000} {what}")


class Observer:
    """Reads what is committed while things go on: what it has seen must be there in the end, and in that order."""

    def __init__(self, log: MemoryLog, topics: Topics, partitions: int) -> None:
        self._log = log
        self._reader = log.reader(Isolation.COMMITTED)
        self._topics = (topics.events, topics.outcomes)
        self._reader.assign({Place(t, n): 0 for t in self._topics for n in range(partitions)})
        self.seen: dict[Place, list[int]] = {}

    def look(self) -> None:
        """Reads on."""
        for item in self._reader.poll(1_000, 0):
            if isinstance(item, Record):
                self.seen.setdefault(Place(item.topic, item.partition), []).append(item.offset)

    def differences(self) -> Iterator[str]:
        """Where it was told something else than what is there now."""
        self.look()
        there: dict[Place, list[int]] = {}
        for topic in self._topics:
            for record in self._log.dump(topic):
                there.setdefault(Place(topic, record.partition), []).append(record.offset)
        for place in sorted(there.keys() | self.seen.keys()):
            if there.get(place) != self.seen.get(place):
                yield f"a reader along the way saw other records of {place.topic}/{place.partition} than are there"
