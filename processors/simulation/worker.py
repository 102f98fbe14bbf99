"""A worker process of the simulation: the real core, rule and runner; attempts take as many steps as the seed says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

from ...commands.models import CompleteActivity
from ...events.log.protocol import Isolation, LogFault, Place
from ...events.payloads import json_payload
from ...events.records import ActivityTask
from ..activities import attempt as attempts_
from ..activities.attempt import Ask, Run, Say, Step, Steps, Wait, fenced, outdated, steps_of
from ..activities.beats import AttemptCancelled, Beat, Beats, Stop
from ..activities.core import SESSION_TIMEOUT_MS, WorkerCore
from ..activities.hearing import REST_MS, MustLook, TooLate, make_sure
from ..activities.jobs import Job
from ..activities.offsets import Watermark
from ..activities.reports import Reports
from ..activities.runner import Runner
from ..activities.seat import Seat
from ..activities.standing import Outdated, Standing, Unsure
from ..activities.superseded import Superseded
from .actors import DIGEST_KEY, NAMESPACE, Actor, Killed, Scene
from .attempts import Believed, Running, Start, lasts_ms, played, watched
from .clock import leapt
from .downstream import World
from .faults import Unsteady
from .keyless import workers_identity
from .tools import SILENT
from .workload import APP

HELD_MAX = 8

WORD_MS = 300
"""Virtual time between two words of a body about its progress."""


def worker_group(queue: str) -> str:
    """The consumer group of a queue's workers."""
    return f"{NAMESPACE}.workers.{queue}"


class WorkerActor(Actor):
    """One queue's worker."""

    points = (
        "w.leased",
        "w.begun",
        "w.dispatched",
        "w.waits",
        "w.looked_up",
        "w.responded",
        "w.result_sent",
        "w.committed",
    )

    def __init__(self, scene: Scene, number: int, queue: str, starts: list[Start]) -> None:
        super().__init__(scene, f"worker-{queue}-{number}")
        self.queue = queue
        self._instance = self.name if number % 2 == 0 else None
        self._places = [Place(scene.topics.commands, n) for n in range(scene.plan.partitions)]
        self._starts = starts
        self.believed, self.hasty = list[Believed](), list[str]()
        self._known: dict[Watermark, dict[Place, int]] = {}
        self._core: WorkerCore
        self._standing: Standing
        self._unsteady = random.Random(f"standing/{scene.plan.seed}/{self.name}")
        self._runner = Runner(
            APP.activities,
            worker_id=self.name,
            digest_key=DIGEST_KEY,
            blobs=scene.blobs,
            provider=APP.credentials,
        )
        self._waiting: list[Job] = []
        self._running: list[Running] = []
        self._quiet = self._heard_ms = 0

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
        scene = self.scene
        identity = workers_identity(scene.plan.seed, scene.log, scene.clock.now_ms)
        self._core = WorkerCore(
            self.log,
            self.scene.topics,
            self.queue,
            seat=Seat(worker_group(self.queue), self._instance),
            worker_id=self.name,
            now_ms=self.scene.clock.now_ms,
            identity=identity,
            hit=self._hit,
            draining=self._draining,
            own_ms=leapt(scene.clock),
        )
        watched(self._core, self._note_believed, scene.clock.now_ms, self.hasty)
        self._core.open()
        self._standing = Standing(
            Unsteady(self.log, scene.faults, self._unsteady),
            scene.topics.control,
            monotonic=self._now,
            now_ms=scene.clock.now_ms,
            may_speak=Reports(scene.topics, self.name, scene.clock.now_ms, identity).may_speak,
        )
        self._superseded = Superseded(self.log, self.scene.topics.attempts)
        self._superseded.tell(self._over)

    def heartbeat(self) -> None:
        """See `Actor`; its intake goes on as well, so that its attempts' own signs of life go out and are acknowledged."""
        super().heartbeat()
        if not self.up or self.sleeps or all(r.beats is None for r in self._running):
            return
        try:
            with suppress(LogFault):
                self._core.settle()
                self._beat()
        except Killed:
            self.kill(after_ms=500)

    def _beat(self) -> None:
        """What the bodies say by now, and what their beats make of it."""
        for running in list(self._running):
            beats = running.beats
            if beats is None:
                continue
            if running.body_until_ms > self.scene.clock.ms and not running.silent:
                done = (self.scene.clock.ms - running.begun_ms) // WORD_MS + 1
                with suppress(AttemptCancelled):
                    beats.beat(json_payload(done, DIGEST_KEY))
            if not beats.look():
                beats.stop(Stop.FENCED)
                self.scene.counts["attempts fenced"] += 1
                self._running.remove(running)
                self._core.report(running.job, fenced(self._runner, running.job.task))

    def _over(self, command_id: str) -> None:
        """An attempt that nobody waits for: it is not begun, and cut off where it runs."""
        for job in [job for job in self._waiting if job.command_id == command_id]:
            self.scene.counts["attempts not begun"] += 1
            self._waiting.remove(job)
            self._leave(job)
        for running in [r for r in self._running if r.job.command_id == command_id]:
            self.scene.counts["attempts stopped"] += 1
            self._running.remove(running)
            running.close(completed=False)
            self._leave(running.job)

    def _leave(self, job: Job) -> None:
        body = attempts_.unwanted(job, self.name)
        if body is None:
            self._core.expire(job)
        else:
            self._core.report(job, body)

    def _go_on(self) -> str:
        rng = self.scene.rng
        choice = rng.random() if self.scene.faults.active else 0.0
        self._superseded.look(self.scene.clock.ms / 1000)
        self._beat()
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
        self._heard_ms = self.scene.clock.ms
        self._standing.look(jobs)
        ends: dict[Place, int] | None = None
        for place in self._core.offsets.places:
            mark = self._core.offsets.mark(place)
            if mark is not None and mark not in self._known:
                ends = ends or self._ends()
                self._known[mark] = ends
        for job in jobs:
            job.taken_at = self._now()
        self._waiting += jobs
        self._quiet = 0 if jobs else self._quiet + 1
        if not self.scene.faults.active:
            self._core.commit()
        return "w.leased" if jobs else "w.polled"

    def _is_stale(self, _job: Job) -> bool:
        """Whether its session may be over without its knowledge: what it lost in a silence that is over, it was told."""
        return self.scene.clock.ms - self._heard_ms > SESSION_TIMEOUT_MS

    def _now(self) -> float:
        return self.scene.clock.ms / 1000

    def _ends(self) -> dict[Place, int]:
        found = self.scene.log.ends(self._places, Isolation.UNCOMMITTED)
        return {place: end for place, (_, end) in found.items()}

    def _begin(self, job: Job) -> str:
        """Goes to the first step that takes time, or that ends it."""
        now_ms = self.scene.clock.ms
        again = "redelivered" if job.task.attempt == 1 else "retried"
        self._count("fresh" if job.fresh and job.task.attempt == 1 else again, job.task)
        if (
            job.task.heartbeat_ms is not None
            and now_ms - job.taken_at * 1000 > job.task.heartbeat_ms
        ):
            self.scene.counts["queued for longer than a heartbeat"] += 1
        running = Running(job, *self._steps_of(job), now_ms)
        self._running.append(running)
        return self._take_step(running)

    def _steps_of(self, job: Job, *, sure: bool = True) -> tuple[Steps, Step]:
        """See `Driver`; its intake goes on while it is not sure."""
        while not sure and self._is_stale(job):
            self._poll()
        job.fresh = job.fresh and sure
        steps = steps_of(
            self._runner,
            job.task,
            fresh=job.fresh,
            waited_ms=self.scene.clock.ms - round(job.taken_at * 1000) if sure else 0,
            is_over=lambda: self._core.is_over(job),
        )
        step = next(steps)
        while isinstance(step, Ask):  # at once: those of the simulation never wait
            step = steps.send(played(step, None)[0])
        return steps, step

    def _advance(self, running: Running) -> str:
        if not isinstance(running.step, Say):
            return self._take_step(running)
        self._running.remove(running)
        running.close(completed=isinstance(running.step.body, CompleteActivity))
        if running.step.body is None:
            self._core.expire(running.job)
        else:
            self._core.report(running.job, running.step.body)
        self._quiet = 0
        return "w.responded"

    def _take_step(self, running: Running) -> str:
        """Waits, or calls: what is called ends at once, and its worker hears of it when it is ready."""
        step, job, now_ms = running.step, running.job, self.scene.clock.ms
        if isinstance(step, Say):
            return "w.prepared"
        if isinstance(step, Wait):
            running.ready_ms = now_ms + step.ms
            running.step = running.steps.send(None)
            return "w.waits"
        if isinstance(step, Run) and not job.begun:
            try:
                make_sure(
                    job,
                    is_over=self._core.is_over,
                    is_stale=self._is_stale,
                    now=self._now(),
                )
                self._standing.check(job)
            except MustLook:
                running.steps, running.step = self._steps_of(job, sure=False)
                return self._take_step(running)
            except TooLate:
                running.step = Say(None)
                return "w.prepared"
            except Unsure:
                running.ready_ms = now_ms + REST_MS
                running.steps, running.step = self._steps_of(job)
                return "w.waits"
            except Outdated:
                return self._give_back(running)
            running.begun_ms, running.body_until_ms = now_ms, now_ms + lasts_ms(step)
            self._note_start(job)
            if job.task.heartbeat_ms is not None:
                running.silent = step.call.arguments.get("mood") == SILENT
                running.beats = self._beats_of(job.task)
                running.beats.begin()
            return "w.begun"
        World.downstream = self.scene.downstream
        running.ready_ms = now_ms + lasts_ms(step)
        came, ended = played(step, running.beats)
        if ended != "returned":
            self._count(f"{type(step).__name__.lower()} {ended}", job.task)
        if ended == "timed out":
            running.ready_ms = now_ms + job.task.start_to_close_ms
        running.step = running.steps.send(came)
        return "w.dispatched" if isinstance(step, Run) else "w.looked_up"

    def _give_back(self, running: Running) -> str:
        """Unrun, see `Driver`; nothing where nobody waits for it."""
        job = running.job
        while self._is_stale(job):
            self._poll()
        if running not in self._running:
            return "w.polled"  # others have it: its partition went in one of these polls
        self._running.remove(running)
        self._quiet = 0
        if self._core.is_over(job):
            self._core.expire(job)
        else:
            self._core.report(job, outdated(job, self.name))
        return "w.responded"

    def _beats_of(self, task: ActivityTask) -> Beats:
        def send(beat: Beat) -> None:
            self.scene.counts["beats"] += 1
            self._core.beat(beat)

        return Beats(task, worker_id=self.name, send=send, monotonic=self._now)

    def _note_start(self, job: Job) -> None:
        job.begun = True
        task = job.task
        known = self._known[job.tickets[0].watermark]
        at_ms = self.scene.clock.ms
        self._starts.append(
            Start(job.command_id, task.idempotency_key, task, self.name, known, at_ms)
        )
        self.scene.counts["attempts"] += 1

    def _note_believed(self, command_ids: set[str]) -> None:
        known = self._ends()
        self.believed += [Believed(each, self.name, known) for each in sorted(command_ids)]

    def _count(self, what: str, task: ActivityTask) -> None:
        """A row of the contracts' table was met."""
        self.scene.counts[f"row: {task.contract} {what}"] += 1

    def freeze(self, for_ms: int) -> None:
        """See `Actor`; what is sent is sent: no pause of the caller holds a call back that is on its way."""
        for running in self._running:
            self._send_off(running)
        super().freeze(for_ms)

    def _send_off(self, running: Running) -> None:
        if running.job.begun and isinstance(running.step, Run):
            self._take_step(running)

    def stop(self) -> None:
        """SIGTERM: gives back what has not begun, cuts the rest off, and leaves."""
        if not self.up:
            return
        self.scene.counts["fault: worker stopped"] += 1
        try:
            with suppress(LogFault):
                for job in self._waiting:
                    self._core.give_back(job)
                for running in self._running:
                    running.close(completed=False)
                    self._core.give_back(running.job)
                self._waiting, self._running = [], []
                self._core.flush(0)
                self._core.close()
                self._standing.close()
        except Killed:
            pass
        self._down(self.scene.rng.choice((10, 500)))

    def _draining(self, places: Sequence[Place]) -> None:
        """Before partitions go: what waits is given back; what runs may finish in time, or not."""
        for job in [job for job in self._waiting if job.lies_in(places)]:
            self._waiting.remove(job)
            self._core.give_back(job)
        for running in [r for r in self._running if r.job.lies_in(places)]:
            if self.scene.rng.random() >= 0.5:
                self._send_off(running)
                continue
            if isinstance(running.step, Say):
                self._advance(running)
            else:
                self._running.remove(running)
                running.close(completed=False)
                self._core.give_back(running.job)

    def _hit(self, name: str) -> None:
        if self.doom == name:
            self.point = name
            raise Killed

    def _drop(self) -> None:
        self._waiting, self._running, self._known = [], [], {}
        self._quiet = 0
