"""Those elsewhere, who do jobs: at once, late, twice, not at all; and turns that ask for jobs, and say what they are found by.

Only in some seeds, and by random numbers of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ...commands import models as m
from ...events.blobs import put_payload
from ...events.failures import JOB_FAILED
from ...events.keys import session_of_job
from ...events.records import Failure
from .actors import DIGEST_KEY, Scene
from .forgers import TENANT
from .plan import limits

YARDS = (31, 35, 37)
"""Of so many kinds of seeds those with a yard, where policies do not come and go while it works."""

KINDS = 47

WORDS = ("found:calm", "found:gone", "job:2", "job:2", "job:0.4", "contract:3", "errand:9")

DELAYS_MS = (0, 0, 300, 900, 2_500, 4_000)
"""From when a job is handed out to when somebody says that it is done: some come when it has expired."""

MAN = "yard"

Send = Callable[[str, m.CommandBody], None]


class Yard:
    """Adds words to the turns of its seeds, and does the jobs that are handed to it."""

    def __init__(self, scene: Scene, send: Send) -> None:
        seed = scene.plan.seed
        self.works = seed % KINDS in YARDS and not limits(seed)
        self._scene = scene
        self._send = send
        self._rng = random.Random(f"yard/{seed}")
        self._seen = 0
        self._open: list[tuple[int, str]] = []
        self._past: list[str] = []

    @property
    def busy(self) -> bool:
        """Whether a job is in hand."""
        self._listen()
        return bool(self._open)

    def script(self, text: str) -> str:
        """The same turn, with something for the yard before or behind it."""
        if not self.works:
            return text
        words = [*self._rng.choices(WORDS, k=self._rng.randint(1, 3)), text]
        return " ".join(words if self._rng.random() < 0.7 else reversed(words))

    def step(self) -> bool:
        """Says of one that was in hand for long enough what became of it; whether there was one."""
        self._listen()
        for entry in self._open:
            if entry[0] <= self._scene.clock.ms:
                self._open.remove(entry)
                self._end(entry[1])
                return True
        return False

    def calm_step(self) -> None:
        """After healing: nobody is kept waiting, but for what is never done."""
        self._listen()
        while self._open:
            self._end(self._open.pop()[1])

    def _listen(self) -> None:
        hired = self._scene.downstream.hired
        for job_id in hired[self._seen :]:
            self._open.append((self._scene.clock.ms + self._rng.choice(DELAYS_MS), job_id))
        self._seen = len(hired)

    def _end(self, job_id: str) -> None:
        """Mostly done; sometimes it failed, is done again, is of another session, or is nothing that was asked for."""
        rng, roll = self._rng, self._rng.random()
        self._past.append(job_id)
        if roll < 0.1:
            return  # it is never done, and expires
        if roll < 0.2:
            self._send("s1", self._done(job_id))
        if roll < 0.3:
            self._send(session_of_job(job_id), self._done(f"{job_id[:-1]}g"))
        bodies = [self._failed(job_id) if roll > 0.85 else self._done(job_id)]
        if 0.4 < roll < 0.6:
            bodies.append(rng.choice((self._done, self._failed))(rng.choice(self._past)))
        if rng.random() < 0.1:
            bodies.append(m.CompleteJob(job_id, None, None))
        for body in bodies:
            self._send(session_of_job(job_id), body)

    def _done(self, job_id: str) -> m.CompleteJob:
        found = self._rng.choice((self._rng.randint(1, 99), "gold"))
        stored = put_payload(found, TENANT, DIGEST_KEY, self._scene.blobs)
        return m.CompleteJob(job_id, stored, None)

    def _failed(self, job_id: str) -> m.CompleteJob:
        kind = self._rng.choice((JOB_FAILED, "raised"))
        return m.CompleteJob(job_id, None, Failure(kind, "Rock", "too hard", ""))
