"""Starts processors, workers and the projector as child processes, and starts them again when they end.

Crash-only: a child that is lost in a client call ends itself, and this is the other half of that bargain. Children
write to `<home>/logs/<name>.log` themselves, so that the last words of a killed one are there. `<home>/run.json`
says who runs, for `wakeful status`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import IO, Self

import structlog

from . import lifeline, spares
from .children import BACKOFF_MAX_S, Cast, Child, children_of
from .exits import Exit, Stopped
from .follow import Follower
from .run_file import RunFile, Running, RunningChild
from .settings import PREFIX, Settings
from .stack.processes import LOG_KEEP_BYTES, identity

PROGRAM = (sys.executable, "-m", "wakeful")

BUSY_MAX = 3
"""Times that a child finds its place taken, without a steady run between: then somebody else runs all of this."""

LOOK_S = 0.02
ECHO_LOOKS = 5
"""Looks at the children between two at their logs: files are read ten times a second, no more."""

AGAIN_S = 1.0
"""Between two tries of what the machine refuses: a start, or writing who runs."""

DRAIN_S = 20.0
"""How long children may take to end on SIGTERM; a worker drains for half of that."""

logger = structlog.get_logger("wakeful.supervisor")


class Supervisor:
    """Runs an app. Usable from Python: `with Supervisor(settings, "desk.py") as running: …`.

    `failpoints` gives children by name (`processor-0`, `worker-default-0`, `projector`) a crash point for their
    first start only. `echo(name, line)` is told what the children log. Topics must exist (`processes.apply_topics`).
    """

    def __init__(
        self,
        settings: Settings,
        app_target: str,
        *,
        queues: Sequence[str],
        processors: int = 1,
        workers: int = 1,
        projector: bool = True,
        failpoints: Mapping[str, str] | None = None,
        echo: Callable[[str, str], None] | None = None,
        environ: Mapping[str, str] | None = None,
        concurrency: int | None = None,
        sync_concurrency: int | None = None,
        backoff_max_s: float = BACKOFF_MAX_S,
        program: Sequence[str] = PROGRAM,
        spares_max: int = spares.SPARES,
        spare_after_s: float = spares.SPARE_AFTER_S,
    ) -> None:
        if spares_max < 0:
            raise Stopped(Exit.USAGE, f"--spares is {spares_max}: give 0 or more")
        cast = Cast(
            app_target=app_target,
            queues=queues,
            processors=processors,
            workers=workers,
            projector=projector,
            concurrency=concurrency,
            sync_concurrency=sync_concurrency,
        )
        self._settings = settings
        self._app = app_target
        self._program = tuple(program)
        self._backoff_max_s = backoff_max_s
        self._environ = dict(os.environ if environ is None else environ)
        self._home = settings.home.absolute()
        self._file = RunFile(self._home)
        self._children = children_of(cast, failpoints or {}, settings.failpoint)
        self._follower = Follower(echo) if echo else None
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self.gave_up: Stopped | None = None
        """Why it stopped by itself: somebody else runs the same; whoever started it raises this."""
        self._thread: threading.Thread | None = None
        self._unsaved = False
        self._save_due_s = 0.0
        self._lock: IO[str] | None = None
        self._pipe: tuple[int, int] | None = None
        self._spares = spares.Spares(
            min(spares_max, len(self._children)), self._start_spare, after_s=spare_after_s
        )

    def start(self) -> None:
        """Starts all children and watches over them; `Stopped` when another supervisor has this home."""
        self._lock = self._take_home()
        self._pipe = os.pipe()
        try:
            (self._home / "logs").mkdir(exist_ok=True)
            for child in self._children.values():
                self._spawn(child)
            self._save()
        except BaseException:
            self.stop(drain_s=0.0)  # half a set of processes is worse than none
            raise
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    def stop(self, drain_s: float = DRAIN_S) -> None:
        """Sends SIGTERM to all, waits, kills what is left after `drain_s`. A repeat does nothing."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._spares.close()
        running = [c.process for c in self._children.values() if c.process is not None]
        for process in running:
            _signal(process, signal.SIGTERM)
            _signal(process, signal.SIGCONT)  # a frozen one could not hear us
        limit = monotonic() + drain_s
        for process in running:
            try:
                process.wait(max(0.0, limit - monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._follower:
            self._follower.look()
        self._let_go()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until `request_stop`, or until it has given up; tells whether one of them came."""
        return self._stopping.wait(timeout_s)

    def request_stop(self) -> None:
        """Lets `wait` return; for signal handlers."""
        self._stopping.set()

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Signals one child and returns its pid; a killed one is restarted as after any other death."""
        with self._guard:
            process = self._child(name).process
            if process is None or process.poll() is not None:
                raise Stopped(
                    Exit.NOT_FOUND, f"{name} does not run at the moment: it is started again soon"
                )
            process.send_signal(number)
            return process.pid

    def crash_next(self, name: str, point: str) -> None:
        """Gives the next start of a child a crash point, as `failpoints` do the first."""
        with self._guard:
            self._child(name).failpoint = point

    def pids(self) -> dict[str, int]:
        """The pid of each child that runs."""
        with self._guard:
            return {
                child.name: child.process.pid
                for child in self._children.values()
                if child.process is not None and child.process.poll() is None
            }

    @property
    def spares(self) -> list[int]:
        """The pids of the processes that wait to replace one."""
        return self._spares.pids

    @property
    def restarts(self) -> dict[str, int]:
        """How often each child was started again."""
        return {child.name: child.restarts for child in self._children.values()}

    @property
    def exit_codes(self) -> dict[str, list[int]]:
        """How each child ended, time after time; negative is the number of a signal."""
        return {child.name: list(child.ends) for child in self._children.values()}

    @property
    def names(self) -> list[str]:
        """The children's names."""
        return list(self._children)

    def log_path(self, name: str) -> Path:
        """Where a child's output goes."""
        return self._home / "logs" / f"{name}.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _child(self, name: str) -> Child:
        child = self._children.get(name)
        if child is None:
            raise Stopped(Exit.NOT_FOUND, f"no child {name!r}: there are {', '.join(self.names)}")
        return child

    def _watch(self) -> None:
        looks = 0
        while not self._stopping.wait(LOOK_S):
            looks += 1
            try:
                self._look_around(looks)
            except OSError as error:  # a disk is full, say: nobody else would start children again
                _tell("the supervisor could not do all it does, and goes on", error)

    def _look_around(self, looks: int) -> None:
        for child in self._children.values():
            with self._guard:
                self._unsaved = self._look(child) or self._unsaved
        if self._unsaved and monotonic() >= self._save_due_s:
            self._try_save()
        self._spares.look()
        if self._follower and looks % ECHO_LOOKS == 0:
            self._follower.look()

    def _try_save(self) -> None:
        try:
            self._save()
        except OSError as error:  # children come before the file that tells of them
            self._save_due_s = monotonic() + AGAIN_S
            _tell("who runs cannot be written: tried again", error, path=str(self._file.path))
        else:
            self._unsaved = False

    def _look(self, child: Child) -> bool:
        """Starts it, where that is due, or notes its end; whether there is news of it."""
        now_s = monotonic()
        if child.due_s is not None:
            if now_s < child.due_s:
                return False
            try:
                self._spawn(child)
            except OSError as error:
                child.due_s = now_s + AGAIN_S
                _tell("a process cannot be started: tried again", error, name=child.name)
                return False
            child.due_s = None
            child.restarts += 1
            return True
        code = child.process.poll() if child.process is not None else None
        if code is None:
            return False
        wait_s = child.ended(code, now_s, self._backoff_max_s)
        if child.busy >= BUSY_MAX:
            self._give_up(child)
        logger.warning(
            "a process ended and is started again",
            name=child.name,
            code=code,
            wait_s=round(wait_s, 2),
            log=str(self.log_path(child.name)),
        )
        return True

    def _give_up(self, child: Child) -> None:
        """Of two that stop each other in turn one has to end; this one was stopped first."""
        self.gave_up = Stopped(
            Exit.BUSY,
            f"{child.name} was replaced {child.busy} times by another process: a second 'wakeful run' serves namespace "
            f"{self._settings.namespace} from another WAKEFUL_HOME or another machine; end that one and start again, or "
            f"give this one a WAKEFUL_NAMESPACE of its own (its log: {self.log_path(child.name)})",
        )
        logger.error("another one runs the same, so this one ends", name=child.name)
        self._stopping.set()

    def _spawn(self, child: Child) -> None:
        if self._pipe is None:
            raise RuntimeError("the supervisor is not started: call start() first")
        path = self.log_path(child.name)
        if path.exists() and path.stat().st_size > LOG_KEEP_BYTES:
            path.replace(path.with_suffix(".log.1"))
        if self._follower:
            self._follower.add(child.name, path)
        spare = None if child.failpoint else self._spares.take(child.arguments, path)
        child.process = spare or self._start_new(child, path, self._pipe[0])
        child.started = identity(child.process.pid) or ""
        child.since_s = monotonic()
        child.failpoint = ""

    def _start_new(self, child: Child, path: Path, descriptor: int) -> subprocess.Popen[bytes]:
        with path.open("ab") as output:
            return subprocess.Popen(
                [*self._program, *child.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environ_of(child.failpoint, descriptor),
                pass_fds=(descriptor,),
                process_group=0,  # Ctrl-C is for the supervisor, which ends them in order
            )

    def _start_spare(self) -> subprocess.Popen[bytes]:
        if self._pipe is None:
            raise RuntimeError("the supervisor is not started: call start() first")
        descriptor = self._pipe[0]
        return spares.start(self._program, self._environ_of("", descriptor), descriptor)

    def _environ_of(self, failpoint: str, descriptor: int) -> dict[str, str]:
        return {
            **self._environ,
            **self._settings.to_environ(),
            PREFIX + "FAILPOINT": failpoint,
            lifeline.VARIABLE: str(descriptor),
        }

    def _take_home(self) -> IO[str]:
        self._home.mkdir(parents=True, exist_ok=True)
        lock = (self._home / "run.lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            other = self._file.load()
            who = f" (pid {other.pid}, {other.app})" if other else ""
            raise Stopped(
                Exit.BUSY,
                f"'wakeful run' runs in {self._home} already{who}: end that one, or set WAKEFUL_HOME to another folder",
            ) from None
        return lock

    def _save(self) -> None:
        own = os.getpid()
        self._file.save(
            Running(
                pid=own,
                started=identity(own) or "",
                app=self._app,
                namespace=self._settings.namespace,
                children=[
                    RunningChild(
                        name=child.name,
                        pid=child.process.pid if child.process and child.due_s is None else 0,
                        started=child.started,
                        restarts=child.restarts,
                        log=str(self.log_path(child.name)),
                    )
                    for child in self._children.values()
                ],
            )
        )

    def _let_go(self) -> None:
        if self._pipe is not None:
            for descriptor in self._pipe:
                os.close(descriptor)
            self._pipe = None
        if self._lock is not None:
            self._file.remove()
            self._lock.close()
            self._lock = None


def _tell(what: str, error: OSError, **fields: str) -> None:
    with suppress(OSError):  # where the disk is full, the log may be on it
        logger.error(what, error=str(error), **fields)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)
