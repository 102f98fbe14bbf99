"""The signs of life of one running attempt: when one is sent, and what it means that none is acknowledged.

```
begins ─ heartbeat_ms? ─ first beat ─┐
heartbeat(progress) ─────────────────┴▶ at most one on its way, one per third of heartbeat_ms; the newest progress wins
acknowledged ─ counts from when it was sent
none acknowledged for heartbeat_ms ─▶ fenced: the processor may have given the attempt to somebody else
```

The activity's thread beats, the intake looks and is told of acknowledgements; a lock lies between them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ...commands.models import HeartbeatActivity
from ...events.keys import attempt_id
from ...events.records import ActivityTask, Payload
from .hidden import Hidden

SHARE = 3
"""Beats per heartbeat_ms at most: two may be lost before the third is late."""

PROGRESS_MS = 1_000
"""Between two beats of an attempt without heartbeat_ms, which tell of progress and of nothing else."""

GRACE_MS = 1_000
"""A beat that is on its way for less says nothing about the broker, however long ago the one before it was."""


class Stop(Enum):
    """Why an attempt is stopped."""

    OVER = "over"
    """Nobody waits for it any more: the log says so."""

    FENCED = "fenced"
    """Its beats are not acknowledged, so it may have been given to another worker."""


class AttemptCancelled(asyncio.CancelledError):
    """Raised by `heartbeat()` in an attempt that is to stop. No `Exception`, so `except Exception` lets it through.

    It is asyncio's own cancellation, which async activities get at their next `await` as well; catch either one to
    clean up, and raise it again.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Beat:
    """One beat on its way; `sent_at` by the monotonic clock, in seconds."""

    beats: Beats
    task: ActivityTask
    command_id: str
    body: HeartbeatActivity
    sent_at: float

    def acknowledged(self) -> None:
        """The broker has it."""
        self.beats.acknowledged(self)


class Beats:
    """Those of one attempt, from the start of its body to its end; from any thread."""

    def __init__(
        self,
        task: ActivityTask,
        *,
        worker_id: str,
        send: Callable[[Beat], None],
        monotonic: Callable[[], float],
        cancel: Callable[[], None] | None = None,
    ) -> None:
        """`cancel` ends the body where that is possible; a sync one learns of it when it asks."""
        self.task = task
        self.stopped: Stop | None = None
        self.hidden = Hidden()
        """What its progress may not tell; known once its function is called."""
        self.told = False
        """Whether the body was told that it is stopped, so that its result may be half of one."""
        self._worker_id = worker_id
        self._send_beat = send
        self._monotonic = monotonic
        self._cancel = cancel
        self._clocked = task.heartbeat_ms is not None
        self._limit_s = (task.heartbeat_ms or 0) / 1000
        self._interval_s = self._limit_s / SHARE if self._clocked else PROGRESS_MS / 1000
        self._lock = threading.Lock()
        self._closed = False
        self._wanted = False
        self._begun = self._resting = False
        self._pending: Payload | None = None
        self._last: bytes | None = None
        self._count = 0
        self._on_its_way: Beat | None = None
        self._next_at = self._alive_at = monotonic()

    def begin(self, hidden: Hidden | None = None) -> None:
        """Starts the processor's clock, where the task has one; a repeat changes nothing but what is `hidden`."""
        with self._lock:
            self.hidden = hidden or self.hidden
            if self._clocked and not self._begun:
                self._next_at = self._alive_at = self._monotonic()
                self._send(self._next_at)
            self._begun, self._resting = True, False

    def rest(self) -> None:
        """The body has ended and its worker goes on (it looks for what was done): beats go out by themselves."""
        with self._lock:
            self._resting = self._begun

    def beat(self, progress: Payload | None) -> None:
        """Sends a beat, or keeps it until one may be sent; `AttemptCancelled` where the attempt is to stop."""
        with self._lock:
            if self.stopped is not None or self._closed:
                self.told = True
                raise AttemptCancelled(self._why())
            if progress is not None:
                self._pending = progress
            self._wanted = self._wanted or self._clocked or progress is not None
            self._send_if_due(self._monotonic())

    def is_stopped(self) -> bool:
        """Whether the body should end; it knows, once it has been told."""
        with self._lock:
            stopped = self.stopped is not None or self._closed
            self.told = self.told or stopped
            return stopped

    def look(self) -> bool:
        """Sends what was kept; false where the attempt must be fenced. Asked now and then, after the acknowledgements."""
        with self._lock:
            if self._closed or self.stopped is not None:
                return True
            now = self._monotonic()
            self._wanted = self._wanted or (self._resting and self._clocked)
            self._send_if_due(now)
            waiting = self._on_its_way
            if waiting is None or not self._clocked:
                return True
            grace_s = min(self._interval_s, GRACE_MS / 1000)
            return now < self._alive_at + self._limit_s or now < waiting.sent_at + grace_s

    def acknowledged(self, beat: Beat) -> None:
        """The broker has this one; a repeat changes nothing."""
        with self._lock:
            self._alive_at = max(self._alive_at, beat.sent_at)
            if self._on_its_way is beat:
                self._on_its_way = None

    def stop(self, why: Stop) -> None:
        """Cancels the body or leaves word for it; the first reason counts, and an end is the end."""
        with self._lock:
            if self._closed or self.stopped is not None:
                return
            self.stopped = why
            self.told = self._cancel is not None
        if self._cancel is not None:
            self._cancel()

    def close(self, *, completed: bool) -> None:
        """The body has ended: sends progress that was kept, unless a result makes it worthless."""
        with self._lock:
            if not self._closed and not completed and self._pending is not None:
                self._send(self._monotonic())
            self._closed = True

    def _send_if_due(self, now: float) -> None:
        if self._wanted and self._on_its_way is None and now >= self._next_at:
            self._send(now)

    def _send(self, now: float) -> None:
        """Progress that was sent before is not sent again: it would be recorded again."""
        progress, self._pending, self._wanted = self._pending, None, False
        if progress is not None and progress.inline == self._last:
            progress = None
        if progress is None and not self._clocked:
            return
        if progress is not None:
            self._last = progress.inline
        self._count += 1
        self._next_at = now + self._interval_s
        task = self.task
        body = HeartbeatActivity(task.activity_id, task.attempt, progress, self._worker_id)
        command_id = f"{attempt_id(task.idempotency_key, task.attempt)}/beat/{self._count}"
        beat = self._on_its_way = Beat(self, task, command_id, body, now)
        self._send_beat(beat)

    def _why(self) -> str:
        what = f"attempt {self.task.attempt} of {self.task.name}"
        if self.stopped is Stop.FENCED:
            return f"{what} is not acknowledged by the log any more: it may run elsewhere"
        return f"{what} is over: nobody waits for its result"
