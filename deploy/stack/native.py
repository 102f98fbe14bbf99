"""What the three native services have in common: a process, its port, its log, a few tries."""

import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from . import processes
from .errors import StackError
from .processes import Proc
from .provider import READY_LIMIT_S, Place
from .records import Record
from .waiting import EndedError, wait_ready

START_TRIES_MAX = 3  # a port that was free when we asked may be taken when the service binds it


@dataclass(frozen=True, slots=True)
class Native:
    """The part of a provider that is the same for all processes of ours."""

    service: str
    stop_signal: int
    stop_limit_s: float
    name: str = "native"

    def is_alive(self, record: Record) -> bool:
        """Tell whether the very process that we started still runs."""
        return processes.is_alive(_proc(record))

    def signal(self, record: Record, number: int) -> bool:
        """Signal the process, unless its pid belongs to another by now."""
        return processes.send(_proc(record), number)

    def stop(self, record: Record) -> None:
        """End the process: as it likes to be ended, or by force when that takes too long."""
        processes.stop(_proc(record), self.stop_signal, self.stop_limit_s)

    def remove(self, record: Record) -> None:
        """Remove its data folder."""
        if record.data:
            shutil.rmtree(record.data, ignore_errors=True)


def run_until_ready(
    place: Place,
    launch: Callable[[], Record],
    ready: Callable[[float], None],
    *,
    limit_s: float = READY_LIMIT_S,
) -> Record:
    """Launch a process and return its record once `ready` returns.

    A process that ends at once is launched again, a few times. Raises StackError with the end of
    the log; nothing that failed is left running.
    """
    limit = monotonic() + limit_s
    ended = EndedError()
    for _ in range(START_TRIES_MAX):
        record = launch()
        place.remember(record)
        try:
            wait_ready(
                ready,
                is_alive=partial(processes.is_alive, _proc(record)),
                explain=partial(_log_end, record),
                service=record.service,
                limit_s=limit - monotonic(),
            )
        except EndedError as gone:
            ended = gone
        except BaseException:
            processes.stop(_proc(record), signal.SIGKILL, 0)
            raise
        else:
            return record
    raise StackError(str(ended)) from ended


def data_folder(place: Place, service: str) -> Path:
    """Return the folder of a service below the stack's home, made if it is missing."""
    folder = place.home / service
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log_file(place: Place, service: str) -> Path:
    """Return the log of a service; its folder exists."""
    folder = place.home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{service}.log"


def _proc(record: Record) -> Proc:
    return Proc(record.pid, record.started)


def _log_end(record: Record) -> str:
    return f"the end of {record.log} is\n{processes.tail(Path(record.log))}"
