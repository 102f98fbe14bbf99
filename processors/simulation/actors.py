"""Processes of the simulation: each is stepped from outside, one crash point at a time, and may die at any.

A process that is killed leaves its generator as it stands: nothing of it is closed, as after `kill -9`. What it
had on disk stays, is lost, or is replaced by an older copy.
"""

from __future__ import annotations

import random
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from ...commands.check import Facts
from ...commands.identity import Identity
from ...commands.policy import EVERYBODY, Policy
from ...events import records as r
from ...events.blobs import MemoryBlobs
from ...events.log.memory import MemoryLog
from ...events.log.memory_faults import Hung
from ...events.log.protocol import LogFault
from ...events.topics import Topics
from ..app import App
from ..control import Control
from ..handler import CommandHandler
from ..loop import Loop, LoopFailed, LoopSettings
from ..partition import Partition
from ..quotas import Quotas
from ..rates import Rate
from ..session import Session
from ..store import Store
from .clock import SkewedClock, VirtualClock
from .downstream import Downstream
from .faults import Overhears, ProcessLog, SeededFaults, nobody_overhears
from .keyless import identity_of
from .plan import Plan
from .workload import APP, APPS

NAMESPACE = "sim"
GROUP = "sim.processors"
DIGEST_KEY = b"simulation"
SESSION_TIMEOUT_MS = 2_000


class Killed(BaseException):
    """The process dies here."""


QUOTAS = Quotas(commands=Rate(100, 20_000))
"""Where one tenant floods: far more than the others ask for."""


@dataclass(slots=True)
class Scene:
    """What all actors share."""

    plan: Plan
    rng: random.Random
    clock: VirtualClock
    log: MemoryLog
    topics: Topics
    faults: SeededFaults
    downstream: Downstream
    counts: Counter[str] = field(default_factory=Counter)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    errors: list[str] = field(default_factory=list)
    load: Callable[[r.PolicyPublished], Policy] = lambda _: EVERYBODY
    """How processors make a policy of a published set."""
    app: App = field(default_factory=lambda: APP)
    """What is deployed; a careless deploy brings something else besides, for a while."""
    overhears: Overhears = nobody_overhears
    """Who listens to what clients and processes send."""
    ended_ms: dict[str, int] = field(default_factory=dict)
    """When a process ended last, by its name: what it remembered is gone."""

    @property
    def identity(self) -> Identity:
        """What all of ours sign and judge with."""
        return identity_of(self.plan.seed, self.log, self.clock.now_ms)


class Actor(ABC):
    """One process: up, frozen until some time, or down until some time."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.name = name
        self.up = False
        self.resume_ms = 0
        self.point = ""
        self.doom = ""
        """The crash point at which it dies, once it comes there."""
        self.log = ProcessLog(scene.log, scene.overhears)

    @property
    def sleeps(self) -> bool:
        """Frozen, or down and not yet to be started."""
        return self.scene.clock.ms < self.resume_ms

    def step(self) -> None:
        """Starts it where it is down, else goes on to its next crash point; whatever ends a process ends it."""
        if self.sleeps:
            return
        if not self.up:
            self.log = ProcessLog(self.scene.log, self.scene.overhears)
            self._start()
            self.up = True
            return
        try:
            self.point = self._go_on()
        except Killed:
            self.kill(after_ms=self.scene.rng.choice((10, 500, 4_000)))
        except (Hung, LogFault, LoopFailed) as end:
            self.scene.counts[f"exit: {type(end).__name__.lower()}"] += 1
            self._ended(end)
        if self.doom and self.doom == self.point:
            self.kill(after_ms=self.scene.rng.choice((10, 500, 4_000)))

    def kill(self, *, after_ms: int) -> None:
        """SIGKILL; the supervisor starts it again after a while."""
        if self.up:
            self.scene.counts[f"crash: {self.point or 'start'}"] += 1
            self._down(after_ms)

    def freeze(self, for_ms: int) -> None:
        """SIGSTOP for a while; past its session's time-out it is a zombie."""
        self.scene.counts["fault: frozen"] += 1
        self.resume_ms = self.scene.clock.ms + for_ms

    def heal(self) -> None:
        """No more bad luck for this one."""
        self.resume_ms = 0
        self.doom = ""

    def heartbeat(self) -> None:
        """What its client does in the background."""
        if self.up and not self.sleeps:
            with suppress(LogFault):
                self.log.heartbeat()

    def _ended(self, end: BaseException) -> None:
        del end
        self._down(self.scene.rng.choice((10, 500)))

    def _down(self, after_ms: int) -> None:
        self.log.kill()
        self.up = False
        self.scene.ended_ms[self.name] = self.scene.clock.ms
        self.doom = self.point = ""
        self.resume_ms = self.scene.clock.ms + after_ms
        self._drop()

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether its last step found nothing to do."""

    @property
    @abstractmethod
    def points(self) -> tuple[str, ...]:
        """Crash points worth dying at."""

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _go_on(self) -> str: ...

    @abstractmethod
    def _drop(self) -> None: ...

    def close(self) -> None:
        """Frees what a dead schedule holds."""
        self._drop()


class KeptStore(Store):
    """A store file: closing it does not lose it."""

    def close(self) -> None:
        """The file stays."""

    def copy(self) -> bytes:
        """The file as it is now."""
        return self._db.serialize()

    @classmethod
    def from_copy(cls, data: bytes) -> Self:
        """A file with that content."""
        connection = sqlite3.connect(":memory:")
        connection.deserialize(data)
        return cls(connection)

    def discard(self) -> None:
        """Frees it."""
        super().close()


class ProcessorActor(Actor):
    """A session processor: the real loop, on its own disk."""

    points = (
        "p.polled",
        "p.begun",
        "p.offsets_sent",
        "p.produced",
        "p.commit_sent",
        "p.committed",
        "p.stored",
        "p.restoring",
        "p.restored",
        "p.abandoned",
        "p.starting",
        "p.pending_offsets",
    )

    def __init__(self, scene: Scene, number: int) -> None:
        super().__init__(scene, f"{GROUP}-{number}")
        self.clock = SkewedClock(scene.clock, scene.plan.skews_ms[number])
        self.disk: dict[int, KeptStore] = {}
        self.copies: dict[int, bytes] = {}
        self.app = scene.app
        self._loop: Loop | None = None
        self._let_go: Callable[[Session], None] = Session.drop
        self._steps: Iterator[str] = iter(())
        self._graves: list[Iterator[str]] = []
        self._polls = 0

    @property
    def idle(self) -> bool:
        """Two polls in a row."""
        return self.up and self._polls > 1 and all(p.restoring is None for p in self.partitions)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions this incarnation has."""
        if self._loop is None or not self.up:
            return []
        return list(self._loop._partitions.values())  # noqa: SLF001 nobody else needs to see them

    def stop(self) -> None:
        """SIGTERM."""
        if self._loop is not None and self.up:
            self.scene.counts["fault: stopped"] += 1
            self._loop.stopping = True

    def lose_disk(self) -> None:
        """Its store files are gone at its next start, or are those of some time ago."""
        rng = self.scene.rng
        if self.up:
            return
        for number in list(self.disk):
            self.disk.pop(number).discard()
            stale = self.copies.get(number)
            if stale is not None and rng.random() < 0.6:
                self.scene.counts["fault: stale store"] += 1
                self.disk[number] = KeptStore.from_copy(stale)
            else:
                self.scene.counts["fault: lost store"] += 1

    def copy_disk(self) -> None:
        """Remembers the files as they are now."""
        self.copies = {number: store.copy() for number, store in self.disk.items()}

    def heal(self) -> None:
        """Its clock is set, and the right code is deployed."""
        super().heal()
        self.clock.skew_ms = 0
        if self.app is not self.scene.app:
            self.kill(after_ms=0)
            self.app = self.scene.app

    def close(self) -> None:
        """Frees generators and files."""
        for steps in [*self._graves, self._steps]:
            with suppress(Exception):
                steps.close()  # type: ignore[attr-defined]
        for store in self.disk.values():
            store.discard()

    def _start(self) -> None:
        scene, plan = self.scene, self.scene.plan
        deploys = plan.deploys and scene.faults.active
        self.app = scene.rng.choice(APPS) if deploys else scene.app
        facts = Facts(DIGEST_KEY, blobs=scene.blobs)
        handler = CommandHandler(self.app, facts, always_replay=plan.always_replay)
        self._let_go = handler.let_go
        settings = LoopSettings(
            group=GROUP,
            name=self.name,
            folder=None,
            batch_records=plan.batch_records,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        control = Control(
            self.log,
            scene.topics,
            self.name,
            load=scene.load,
            identity=scene.identity,
            unpublished=plan.unpublished,
            now_ms=self.clock.now_ms,
            loaded=self.app.loaded if plan.versions else None,
        )
        self._loop = Loop(
            self.log,
            scene.topics,
            handler,
            settings,
            self.clock,
            identity=scene.identity,
            quotas=QUOTAS if plan.floods else None,
            open_partition=self._open,
            control=control,
        )
        self._steps = self._loop.steps()

    def _open(self, number: int) -> Partition:
        partition = Partition(number, self.scene.topics, self.log, GROUP, None, let_go=self._let_go)
        partition.store.close()
        partition.store = self.disk.setdefault(number, KeptStore.from_copy(EMPTY_STORE))
        return partition

    def _go_on(self) -> str:
        try:
            point = next(self._steps)
        except StopIteration:
            self.scene.counts["exit: stopped"] += 1
            self._down(self.scene.rng.choice((10, 500, 4_000)))
            return ""
        self._polls = self._polls + 1 if point == "p.polled" else 0
        return point

    def _drop(self) -> None:
        self._graves.append(self._steps)
        self._steps = iter(())
        self._polls = 0
        if self.scene.faults.active and self.scene.rng.random() < 0.3:
            self.lose_disk()


def _empty_store() -> bytes:
    store = KeptStore(sqlite3.connect(":memory:"))
    data = store.copy()
    store.discard()
    return data


EMPTY_STORE = _empty_store()
