"""What a stack remembers between two commands: one state file, written whole or not at all."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from time import monotonic, sleep

from .errors import StackError

SERVICES = ("kafka", "postgres", "redis")
LOCK_POLL_S = 0.05
LOCK_LIMIT_S = 120.0  # longer than the slowest start, so that a second `up` waits for the first


@dataclass(frozen=True, slots=True)
class Record:
    """One service of a stack, as it was started: enough to find, prove, stop and remove it."""

    service: str
    provider: str  # native, docker or external
    address: str  # what a client is given
    port: int = 0
    pid: int = 0
    started: str = ""  # identity of the process beside its pid: pids are used again
    container: str = ""
    data: str = ""
    log: str = ""
    secret: str = field(default="", repr=False)
    cluster_id: str = ""  # of the broker that was found there, for kafka alone

    @property
    def key(self) -> str:
        """Records of several providers stand side by side: going back finds the old data."""
        return f"{self.provider}:{self.service}"


@dataclass(slots=True)
class State:
    """All of a stack's memory: its cluster id and a record per service it ever started."""

    cluster_id: str
    records: dict[str, Record] = field(default_factory=dict)  # by Record.key


class StateFile:
    """The state of the stack under `home`. Readable by its owner only: it holds a password."""

    def __init__(self, home: Path) -> None:
        self.path = home / "stack.json"
        self._lock_path = home / "lock"

    def load(self) -> State | None:
        """Return the state, or None where no stack was started."""
        try:
            raw = json.loads(self.path.read_text(encoding="utf-8"))
            records = {name: Record(**row) for name, row in raw["records"].items()}
            return State(cluster_id=raw["cluster_id"], records=records)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            raise StackError(
                f"cannot read {self.path} ({broken}): it is no state of a local stack; stop what "
                "still runs by hand, remove the file and start again"
            ) from broken

    def save(self, state: State) -> None:
        """Write the state so that a crash leaves either the old or the new one."""
        rows = {name: asdict(record) for name, record in state.records.items()}
        text = json.dumps({"cluster_id": state.cluster_id, "records": rows}, indent=2)
        beside = self.path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the stack's lock, so that two commands at once act one after the other."""
        descriptor = self._lock()
        try:
            yield
        finally:
            os.close(descriptor)  # lets go of the lock, too

    def _lock(self) -> int:
        limit = monotonic() + LOCK_LIMIT_S
        while True:
            descriptor = self._open_lock()
            try:
                flock(descriptor, LOCK_EX | LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), self._lock_path.stat()):
                    return descriptor
            except FileNotFoundError:
                pass  # a reset removed the file we hold: lock the one that follows it
            except BlockingIOError:
                if monotonic() > limit:
                    os.close(descriptor)
                    raise StackError(
                        f"another command has held {self._lock_path} for {LOCK_LIMIT_S:.0f} s: "
                        "wait for it to end, or end it"
                    ) from None
                sleep(LOCK_POLL_S)
            os.close(descriptor)

    def _open_lock(self) -> int:
        try:
            self._lock_path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as refused:
            raise StackError(
                f"cannot write the stack's folder {self._lock_path.parent} ({refused.strerror}): "
                "set WAKEFUL_HOME to a folder that you may write"
            ) from refused


def new_cluster_id() -> str:
    """Return a Kafka cluster id: 16 random bytes in URL-safe base64, without a leading dash."""
    while (text := secrets.token_urlsafe(16)).startswith("-"):
        pass
    return text
