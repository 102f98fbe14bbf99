"""Which command is being decided, in a file that outlives the process: one that kills it again and again is found out.

What takes the process with it (`os._exit`, a crash of a C library, memory without end) leaves nothing to catch. Without a
note the next process would meet the same command, and everybody behind it in the partition would wait for a deploy.
A hint, and no fact: what is recorded is that the session was held, and why.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Protocol

from .workflow.errors import WorkflowSpins, WorkflowStuck

DEATHS_MAX = 3
"""A command that was in hand so many times running when the process died is decided no more."""

_NOTE = struct.Struct("<qqq")
_NOTHING = (0, -1, 0)


class ProcessDied(Exception):
    """The command at hand has killed this process too often."""


class InHand(Protocol):
    """Told of each command before it is decided, and when it is over."""

    def begins(self, partition: int, offset: int) -> None:
        """Notes it. Raises `ProcessDied` where it is the one that the process has died of too often."""

    def ends(self) -> None:
        """Nothing is in hand; also called where the decision raised."""


class NothingNoted:
    """For a handler whose process is a test's, or a simulated one."""

    def begins(self, partition: int, offset: int) -> None:
        """Lets it be decided."""

    def ends(self) -> None:
        """Nothing to forget."""


class NotedInHand:
    """24 bytes of a mapped file, written twice per command: the page outlives the process, whatever ended it."""

    def __init__(self, path: Path) -> None:
        """Reads what was in hand when the last process under this name ended; a file that is no note is a new one."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            is_new = os.fstat(handle).st_size != _NOTE.size
            os.ftruncate(handle, _NOTE.size)
            self._page = mmap.mmap(handle, _NOTE.size)
        finally:
            os.close(handle)
        partition, offset, deaths = _NOTHING if is_new else _NOTE.unpack_from(self._page)
        self._suspect = (partition, offset)
        self._deaths = deaths + 1
        self.ends()

    def begins(self, partition: int, offset: int) -> None:
        """See `InHand`. The deaths of a command count while it is the one that each of them met."""
        deaths = self._deaths if self._suspect == (partition, offset) else 0
        if deaths >= DEATHS_MAX:
            raise ProcessDied(
                f"its process died {deaths} times while it decided this: the workflow ends it (os._exit, a C library, "
                "memory), or something does that is near; mend it and deploy, then release the session"
            )
        _NOTE.pack_into(self._page, 0, partition, offset, deaths)

    def ends(self) -> None:
        """See `InHand`."""
        _NOTE.pack_into(self._page, 0, *_NOTHING)


def hold_reason(error: BaseException) -> str:
    """What a hold is called that comes from outside of the workflow's own errors."""
    match error:
        case WorkflowStuck():
            return "workflow_stuck"
        case WorkflowSpins():
            return "workflow_spins"
        case ProcessDied():
            return "process_died"
        case _:
            return "engine_fault"
