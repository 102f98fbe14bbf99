"""Processes that outlive the command which started them, and never a signal to a stranger."""

import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from .errors import StackError

LOOPBACK = "127.0.0.1"
LOG_TAIL_LINES = 40
LOG_TAIL_BYTES = 64 * 1024  # read for them
LOG_KEEP_BYTES = 16 * 1024 * 1024  # a larger log is moved aside at the next start
POLL_S = 0.02
STATE, STARTED = 0, 19  # fields of /proc/<pid>/stat behind the command name
PORT_MAX = 65_535
PORT_LOWEST = 15_000
PORT_HIGHEST = 32_768  # where outgoing ports begin on Linux, when it does not say; 49152 elsewhere
PORT_TRIES_MAX = 200
PORT_BACK_LIMIT_S = 3.0  # the port of a service that just ended may be let go of a little later
KILL_LIMIT_S = 10.0  # SIGKILL is near immediate; only a process stuck in the kernel takes longer

_children: set[int] = set()  # to be reaped when they end while we still run


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged user to run as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Proc:
    """A process, by its pid and by what tells it from a later one with the same pid."""

    pid: int
    started: str


def spawn(
    arguments: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path,
    environ: Mapping[str, str],
    account: Account | None = None,
) -> Proc:
    """Start a process in a session of its own, with its output appended to `log`."""
    if log.exists() and log.stat().st_size > LOG_KEEP_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as output:
        child = subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
        )
    _children.add(child.pid)
    child.returncode = 0  # its handle shall not mind, when it is dropped, that the process runs on
    return Proc(child.pid, identity(child.pid) or "")


def plain_environment() -> dict[str, str]:
    """Return the little that a service is given of our environment: no options from outside."""
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "TZ") if name in os.environ
    }
    return {**kept, "LC_ALL": "C.UTF-8"}


def identity(pid: int) -> str | None:
    """Return what tells this process from a later one with the same pid; None if there is none."""
    if pid in _children and _is_reaped(pid):
        return None
    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.joinpath("self").exists():
        return _identity_by_ps(pid)
    try:
        # the command name, in parentheses, may hold spaces and parentheses itself
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, ticks = fields[STATE], fields[STARTED]
    return None if state in "ZX" else f"{boot}/{ticks}"


def is_alive(proc: Proc) -> bool:
    """Tell whether this very process still runs."""
    return proc.pid > 0 and bool(proc.started) and identity(proc.pid) == proc.started


def send(proc: Proc, number: int) -> bool:
    """Signal the process if it is still the one we started; tell whether it was."""
    if not is_alive(proc):
        return False
    try:
        os.kill(proc.pid, number)
    except ProcessLookupError:  # it ended between the two lines
        return False
    return True


def wait_ended(proc: Proc, limit_s: float) -> bool:
    """Wait until the process has ended; tell whether it has."""
    limit = monotonic() + limit_s
    while is_alive(proc):
        if monotonic() > limit:
            return False
        sleep(POLL_S)
    return True


def stop(proc: Proc, number: int, limit_s: float) -> None:
    """Ask the process to end, and end it when it does not. A repeat does nothing."""
    if not send(proc, number):
        return
    send(proc, signal.SIGCONT)  # a frozen one could not hear us
    if not wait_ended(proc, limit_s):
        send(proc, signal.SIGKILL)
        wait_ended(proc, KILL_LIMIT_S)


def pick_port(service: str, fixed: str | None, *, prefer: int = 0) -> int:
    """Return a free loopback port: the one that was fixed, else the one it had, else a new one.

    New ones lie below those that the system gives to outgoing connections: a client that calls a
    dead server's port again and again may else be given that very port to call from, and then sits
    on it (seen here: 1 restart of a killed broker in 6).

    Raises StackError where the port that was asked for is no port or is taken.
    """
    if fixed:
        name = f"WAKEFUL_{service.upper()}_PORT"
        if not fixed.isdigit() or not 0 < int(fixed) <= PORT_MAX:
            raise StackError(f"{name}={fixed} is no port: give a number from 1 to {PORT_MAX}")
        if not _is_free(int(fixed)):
            raise StackError(
                f"port {fixed} for {service} is taken by another process: end that one, or choose "
                f"another port with {name}, or unset {name} to let the system choose"
            )
        return int(fixed)
    if prefer and _is_free_soon(prefer):
        return prefer
    below = _first_outgoing_port()
    for _ in range(PORT_TRIES_MAX):
        port = PORT_LOWEST + secrets.randbelow(below - PORT_LOWEST)
        if _is_free(port):
            return port
    raise StackError(
        f"no free port found from {PORT_LOWEST} to {below - 1}: choose one with "
        f"WAKEFUL_{service.upper()}_PORT"
    )


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a log, for people who ask why a service did not start."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(an empty log)"


def _is_free_soon(port: int) -> bool:
    limit = monotonic() + PORT_BACK_LIMIT_S
    while not _is_free(port):
        if monotonic() > limit:
            return False
        sleep(POLL_S)
    return True


def _first_outgoing_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        first = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    return first if first > PORT_LOWEST + 1000 else PORT_HIGHEST


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # as servers do; a port with a listener is refused all the same
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _is_reaped(pid: int) -> bool:
    try:
        ended, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # another thread was first
        ended = pid
    if ended:
        _children.discard(pid)
    return bool(ended)


def _identity_by_ps(pid: int) -> str | None:
    """For systems without /proc."""
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, since = shown.stdout.strip().partition(" ")
    return since.strip() if since and not state.startswith("Z") else None
