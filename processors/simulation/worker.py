"""A worker process of the simulation: the real core, rule and runner; attempts take as many steps as the seed says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...events.log.protocol import Isolation, Place
from ..activities.attempt import Ask, Came, LookUp, Run, Say, Step, Steps, Wait, steps_of
from ..activities.core import WorkerCore
from ..activities.jobs import Job
from ..activities.offsets import Watermark
from ..activities.runner import Runner
from .actors import DIGEST_KEY, NAMESPACE, Actor, Killed, Scene
from .workload import APP, STUCK_MS, World

HELD_MAX = 8


def worker_group(queue: str) -> str:
    """The consumer group of a queue's workers."""
    return f"{NAMESPACE}.workers.{queue}"


@dataclass(frozen=True, slots=True)
class Start:
    """An attempt that was started, and how far the commands topic went when its partition was taken over."""

    command_id: str
    idempotency_key: str
    arguments: bytes | None
    worker: str
    known: dict[Place, int]


@dataclass(slots=True)
class _Running:
    """An attempt, and its next step; what its last one gave is known, and is told at `ready_ms`."""

    job: Job
    steps: Steps
    step: Step
    ready_ms: int


class WorkerActor(Actor):
    """One queue's worker."""

    points = ("w.leased", "w.dispatched", "w.responded", "w.result_sent", "w.committed")

    def __init__(self, scene: Scene, number: int, queue: str, starts: list[Start]) -> None:
        super().__init__(scene, f"worker-{queue}-{number}")
        self.queue = queue
        self._places = [Place(scene.topics.commands, n) for n in range(scene.plan.partitions)]
        self._starts = starts
        self._known: dict[Watermark, dict[Place, int]] = {}
        self._core: WorkerCore
        self._runner = Runner(APP.activities, worker_id=self.name, digest_key=DIGEST_KEY)
        self._waiting: list[Job] = []
        self._running: list[_Running] = []
        self._quiet = 0

    @property
    def idle(self) -> bool:
        """Nothing held that could go on now, nothing unacknowledged, and two empty polls."""
        now_ms = self.scene.clock.ms
        return (
            self.up
            and self._quiet > 1
            and not self._waiting
            and all(r.ready_ms > now_ms for r in self._running)
        )

    @property
    def due_ms(self) -> int | None:
        """When a stuck activity will report."""
        return min((r.ready_ms for r in self._running), default=None)

    def _start(self) -> None:
        self._core = WorkerCore(
            self.log,
            self.scene.topics,
            self.queue,
            group=worker_group(self.queue),
            worker_id=self.name,
            now_ms=self.scene.clock.now_ms,
            hit=self._hit,
            draining=self._draining,
        )
        self._core.open()

    def _go_on(self) -> str:
        rng = self.scene.rng
        choice = rng.random() if self.scene.faults.active else 0.0
        if self._waiting and choice < 0.6:
            return self._begin(self._waiting.pop(rng.randrange(len(self._waiting))))
        ready = [r for r in self._running if r.ready_ms <= self.scene.clock.ms]
        if ready and choice < 0.7:
            return self._advance(rng.choice(ready))
        if choice > 0.9:
            self._core.commit()
            return "w.committed"
        return self._poll()

    def _poll(self) -> str:
        room = max(1, HELD_MAX - len(self._waiting) - len(self._running))
        jobs = self._core.poll(room, 0)
        ends: dict[Place, int] | None = None
        for place in self._core.offsets.places:
            mark = self._core.offsets.mark(place)
            if mark is not None and mark not in self._known:
                ends = ends or self._ends()
                self._known[mark] = ends
        for job in jobs:
            job.taken_at = self.scene.clock.ms / 1000
        self._waiting += jobs
        self._quiet = 0 if jobs else self._quiet + 1
        if not self.scene.faults.active:
            self._core.commit()
        return "w.leased" if jobs else "w.polled"

    def _ends(self) -> dict[Place, int]:
        found = self.scene.log.ends(self._places, Isolation.UNCOMMITTED)
        return {place: end for place, (_, end) in found.items()}

    def _begin(self, job: Job) -> str:
        """Goes to the first step that takes time, or that ends it."""
        now_ms = self.scene.clock.ms
        steps = steps_of(
            self._runner,
            job.task,
            fresh=job.fresh,
            waited_ms=now_ms - round(job.taken_at * 1000),
            is_over=lambda: self._core.is_over(job),
        )
        running = _Running(job, steps, next(steps), now_ms)
        self._running.append(running)
        return self._take_step(running)

    def _advance(self, running: _Running) -> str:
        if not isinstance(running.step, Say):
            return self._take_step(running)
        self._running.remove(running)
        if running.step.body is None:
            self._core.expire(running.job)
        else:
            self._core.report(running.job, running.step.body)
        self._quiet = 0
        return "w.responded"

    def _take_step(self, running: _Running) -> str:
        """Waits, or calls: what is called ends at once, and its worker hears of it when it is ready."""
        step, job, now_ms = running.step, running.job, self.scene.clock.ms
        if isinstance(step, Say):
            return "w.prepared"
        if isinstance(step, Wait):
            running.ready_ms = now_ms + step.ms
            running.step = running.steps.send(None)
            return "w.waits"
        if isinstance(step, Run):
            self._note_start(job)
        World.downstream = self.scene.downstream
        running.step = running.steps.send(_played(step))
        running.ready_ms = now_ms + (STUCK_MS if job.task.name == "stuck" else 0)
        return "w.dispatched"

    def _note_start(self, job: Job) -> None:
        job.begun = True
        task = job.task
        known = self._known[job.tickets[0].watermark]
        self._starts.append(
            Start(job.command_id, task.idempotency_key, task.arguments.inline, self.name, known)
        )
        self.scene.counts["attempts"] += 1

    def _draining(self, places: Sequence[Place]) -> None:
        """Before partitions go: what waits is given back; what runs may finish in time, or not."""
        for job in [job for job in self._waiting if job.lies_in(places)]:
            self._waiting.remove(job)
            self._core.give_back(job)
        for running in [r for r in self._running if r.job.lies_in(places)]:
            if self.scene.rng.random() >= 0.5:
                continue
            if isinstance(running.step, Say):
                self._advance(running)
            else:
                self._running.remove(running)
                self._core.give_back(running.job)

    def _hit(self, name: str) -> None:
        if self.doom == name:
            self.point = name
            raise Killed

    def _drop(self) -> None:
        self._waiting, self._running, self._known = [], [], {}
        self._quiet = 0


def _played(step: Run | LookUp | Ask) -> Came:
    """Runs the function to its end; those of the simulation never wait."""
    call, words = step.call, step.words
    coroutine: Any = call.start()
    try:
        coroutine.send(None)
    except StopIteration as returned:
        return words.completed(call, returned.value)
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure
        return words.failed(call.task, error)
    raise RuntimeError(f"{call.name} waits: those of the simulation do not")
