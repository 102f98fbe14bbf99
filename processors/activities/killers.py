"""Attempts that were running when the worker died: one that kills it again and again is found out, the others go on.

What takes the process with it (`os._exit`, a crash of a C library, memory without end) reports nothing, and its task is
delivered again, with all that ran beside it. So each attempt is noted in a file while it runs. After one death all go
on as before, for most deaths come from outside (a kill, a deploy), and a hundred calls in a row would take minutes.
Those that ran at two deaths are suspects, and run one at a time, beside those that are none: the innocent ones come to
their end, and the one that did it meets its next death alone.

Only a worker with a name of its own that comes back has such a file. It is a hint: without it, or at another worker, a
task has its deaths still before it. What is recorded is the failure.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import structlog

from ...commands.models import FailActivity
from ...events.failures import CUT_OFF
from ...events.records import Failure
from .jobs import Job

DEATHS_MAX = 3
"""An attempt that was running so many times when its worker died is not run again."""

SUSPECT_DEATHS = 2
"""From so many on, it runs alone among its like."""

SLOTS = 2_048
"""Attempts that are noted at once; one too many is not noted."""

_SLOT = struct.Struct("<16sii")
"""Digest of the attempt, deaths before, and whether it is running."""

_FREE = _SLOT.pack(bytes(16), 0, 0)

logger = structlog.get_logger("wakeful.worker")


class Killers(Protocol):
    """Asked before an attempt begins, and told when it does and when it is over; from any thread."""

    def deaths(self, job: Job, /) -> int:
        """How many times its worker died while it ran."""

    def holds_back(self, job: Job, /) -> bool:
        """Whether it is a suspect that has to wait for another one to end."""

    def begins(self, job: Job, /) -> None:
        """It runs from here on."""

    def ends(self, job: Job, /) -> None:
        """Somebody has spoken for it; a repeat changes nothing."""


class NoKillers:
    """For a worker without a name of its own."""

    def deaths(self, _job: Job) -> int:
        """None that is known."""
        return 0

    def holds_back(self, _job: Job) -> bool:
        """Nobody is suspected."""
        return False

    def begins(self, _job: Job) -> None:
        """Nothing to note."""

    def ends(self, _job: Job) -> None:
        """Nothing to forget."""


class NotedKillers:
    """See the module. A mapped file: the pages outlive the process, whatever ended it."""

    def __init__(self, path: Path) -> None:
        """Reads what ran when the last worker of this name died. `BlockingIOError` where one is alive."""
        self._lock = threading.Lock()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(self._handle, SLOTS * _SLOT.size)
        self._pages = mmap.mmap(self._handle, SLOTS * _SLOT.size)
        self._known: dict[bytes, tuple[int, int]] = {}
        """Slot and deaths of those that ran at one, until they end."""
        self._suspects: set[bytes] = set()
        self._running: dict[bytes, int] = {}
        self._free: list[int] = []
        for slot in reversed(range(SLOTS)):
            digest, deaths, ran = _SLOT.unpack_from(self._pages, slot * _SLOT.size)
            if not any(digest):
                self._free.append(slot)
                continue
            self._known[digest] = slot, deaths + ran
            if deaths + ran >= SUSPECT_DEATHS:
                self._suspects.add(digest)
            self._write(slot, digest, deaths + ran, running=False)

    def deaths(self, job: Job) -> int:
        """See `Killers`."""
        return self._known.get(_digest(job), (0, 0))[1] if self._known else 0

    def holds_back(self, job: Job) -> bool:
        """See `Killers`."""
        if not self._suspects:
            return False
        with self._lock:
            suspected = _digest(job) in self._suspects
            return suspected and not self._suspects.isdisjoint(self._running)

    def begins(self, job: Job) -> None:
        """See `Killers`."""
        digest = _digest(job)
        with self._lock:
            slot, deaths = self._known.get(digest, (-1, 0))
            if slot < 0:
                if not self._free:
                    self._forget_one()
                if not self._free:
                    return
                slot = self._free.pop()
            self._running[digest] = slot
            self._write(slot, digest, deaths, running=True)

    def ends(self, job: Job) -> None:
        """See `Killers`."""
        digest = _digest(job)
        with self._lock:
            slot = self._running.pop(digest, None)
            if slot is not None:
                self._known.pop(digest, None)
                self._suspects.discard(digest)
                self._clear(slot)

    def close(self) -> None:
        """Lets go of the file: what is noted there as running counts as a death."""
        self._pages.close()
        os.close(self._handle)

    def _forget_one(self) -> None:
        """One that did not come back: another worker has had it, or nobody is given it again."""
        digest = next((d for d in self._known if d not in self._running), None)
        if digest is not None:
            self._suspects.discard(digest)
            self._clear(self._known.pop(digest)[0])

    def _clear(self, slot: int) -> None:
        self._pages[slot * _SLOT.size : (slot + 1) * _SLOT.size] = _FREE
        self._free.append(slot)

    def _write(self, slot: int, digest: bytes, deaths: int, *, running: bool) -> None:
        _SLOT.pack_into(self._pages, slot * _SLOT.size, digest, deaths, running)


def noted(path: Path) -> Killers:
    """Those of this file; none where a worker that is alive has it, or it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return NotedKillers(path)
    except OSError as fault:
        logger.warning("deaths are not counted", path=str(path), fault=str(fault))
        return NoKillers()


def killed(job: Job, deaths: int, worker_id: str) -> FailActivity:
    """What is said of an attempt that has killed its worker too often."""
    task = job.task
    told = (
        f"the worker of {task.name} died {deaths} times while it ran (memory, os._exit, a C library), "
        "so it is not run again: look into the worker's log, then mend the activity or its arguments"
    )
    return FailActivity(task.activity_id, task.attempt, Failure(CUT_OFF, "", told, ""), worker_id)


def _digest(job: Job) -> bytes:
    return blake2b(job.command_id.encode(), digest_size=16).digest()
