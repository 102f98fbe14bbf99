"""One local stack: Kafka, Postgres and a Redis-compatible server, whose state lies in one folder."""

import shutil
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

from ...events.log import probe
from ..home import KEYS_FILE
from . import docker
from .docker import Docker
from .errors import StackError
from .external import External, without_password
from .native_kafka import NativeKafka, check_cluster
from .native_postgres import NativePostgres
from .native_valkey import NativeValkey
from .processes import POLL_S
from .provider import Place, Provider
from .records import SERVICES, Record, State, StateFile, new_cluster_id

CHECK_LIMIT_S = 10.0  # for a running broker to name its cluster
OURS = ("native", "docker")
FINAL_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
ENDED_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the three services are."""

    kafka: str  # bootstrap servers
    postgres: str  # libpq URL of a database that its user owns
    redis: str  # URL
    cluster_id: str


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service, for people; passwords are masked."""

    name: str
    state: Literal["running", "stopped", "external"]
    pid: int | None
    address: str
    detail: str


def stack_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of the stack that is meant here: WAKEFUL_HOME, else .wakeful."""
    return Path(environ.get("WAKEFUL_HOME") or ".wakeful")


def _say_nothing(_: str) -> None:
    pass


class Stack:
    """The local stack whose state lives under `home`. Stacks with other homes are not touched.

    Each service is given by the first of: its URL in `environ` (WAKEFUL_KAFKA, WAKEFUL_POSTGRES,
    WAKEFUL_REDIS), Docker where an engine answers, a process of the installed packages.
    WAKEFUL_STACK=native or docker leaves no choice. WAKEFUL_KAFKA_PORT and so on fix ports.
    """

    def __init__(self, home: Path, *, environ: Mapping[str, str]) -> None:
        self.home = home.absolute()
        self._environ = dict(environ)
        self._file = StateFile(self.home)
        self._saving = threading.Lock()

    def up(self, report: Callable[[str], None] = _say_nothing) -> Endpoints:
        """Start what does not run, all at once, and return where the services are.

        A repeat returns the running ones; a dead one is started again on its port and data.
        Raises StackError; what did start stays, and `down` ends it.
        """
        reporting = threading.Lock()

        def say(line: str) -> None:  # the starts run beside each other, their reports do not
            with reporting:
                report(line)

        with self._file.locked():
            state = self._file.load() or State(new_cluster_id())
            self._file.save(state)
            providers = self._choose()
            with ThreadPoolExecutor(len(SERVICES)) as pool:
                starts = [pool.submit(self._ensure, state, each, say) for each in providers]
            failures = [str(error) for start in starts if (error := start.exception())]
            if failures:
                raise StackError("\n".join(failures)) from starts[0].exception()
            self._make_keys(say)
            return _endpoints({record.service: record for record in (s.result() for s in starts)})

    def endpoints(self) -> Endpoints | None:
        """Return where the services are, or None where not all of them run."""
        found = self._running()
        return _endpoints(found) if len(found) == len(SERVICES) else None

    def addresses(self) -> dict[str, str]:
        """Return where each service is that runs; `endpoints` is for those who need all of them."""
        return {name: record.address for name, record in self._running().items()}

    def cluster_id(self) -> str | None:
        """Return the id of the cluster at the broker's address, or None where no broker runs."""
        record = self._running().get("kafka")
        return None if record is None else record.cluster_id

    def status(self) -> list[ServiceStatus]:
        """Return one line per service, running or not."""
        running = self._running()
        state = self._file.load()
        known = {} if state is None else state.records
        lines = []
        for service in SERVICES:
            record = running.get(service)
            if record is not None:
                lines.append(_line(record))
            else:
                old = next((r for r in known.values() if r.service == service), None)
                detail = f"log: {old.log}" if old and old.log else "never started"
                lines.append(ServiceStatus(service, "stopped", None, "", detail))
        return lines

    def down(self) -> None:
        """End what this stack started and keep its data. A repeat does nothing."""
        if self.home.exists():
            with self._file.locked():
                self._stop_all(self._file.load())

    def reset(self) -> None:
        """End what this stack started and remove all that it kept."""
        if not self.home.exists():
            return
        with self._file.locked():
            state = self._file.load()
            self._stop_all(state)
            for record in _ours(state):
                _provider(record).remove(record)
            shutil.rmtree(self.home / "logs", ignore_errors=True)
            self._file.path.unlink(missing_ok=True)
            for name in (KEYS_FILE, f"{KEYS_FILE}.lock"):  # of this stack's cluster, which is gone
                (self.home / name).unlink(missing_ok=True)
        # other things of the project's may lie here; an empty folder is of no use to anyone
        (self.home / "lock").unlink(missing_ok=True)
        if not any(self.home.iterdir()):
            self.home.rmdir()

    def kill(self, service: str, number: int = signal.SIGKILL) -> None:
        """Signal one service; return when it has ended, if the signal is one that ends it."""
        record = self._record(service)
        provider = _provider(record)
        if not provider.signal(record, number):
            raise StackError(f"{service} does not run: `wakeful up` starts it")
        limit = monotonic() + ENDED_LIMIT_S
        while number in FINAL_SIGNALS and provider.is_alive(record):
            if monotonic() > limit:
                raise StackError(
                    f"{service} did not end {ENDED_LIMIT_S:.0f} s after its signal: try 'wakeful down'"
                )
            threading.Event().wait(POLL_S)

    def start(self, service: str) -> Endpoints:
        """Start one service again, on its port and data, and return where all of them are."""
        with self._file.locked():
            state = self._file.load()
            if state is None:
                raise StackError(f"there is no stack in {self.home}: run `wakeful up`")
            for provider in self._choose():
                if provider.service == service:
                    self._ensure(state, provider, _say_nothing)
        found = self.endpoints()
        if found is None:
            raise StackError("not all services run: run `wakeful up`")
        return found

    def _ensure(self, state: State, provider: Provider, report: Callable[[str], None]) -> Record:
        before = state.records.get(f"{provider.name}:{provider.service}")
        if before is not None and provider.name in OURS and provider.is_alive(before):
            if provider.service != "kafka" or self._answers(before):
                return before
            provider.stop(before)  # it lives and does not answer: it may be frozen, or half started
        since = monotonic()
        if provider.name in OURS:
            report(f"{provider.service}: starting ({provider.name})")
        place = Place(self.home, self._environ, state.cluster_id, self._remember_in(state))
        record = provider.start(place, before)
        shown = without_password(record.address)
        report(f"{provider.service}: ready at {shown} after {monotonic() - since:.1f} s")
        return record

    def _answers(self, record: Record) -> bool:
        try:
            answer = probe.cluster_id(record.address, limit_s=CHECK_LIMIT_S)
        except probe.NotReadyError:
            return False
        check_cluster(record.address, answer, record.cluster_id)
        return True

    def _remember_in(self, state: State) -> Callable[[Record], None]:
        def remember(record: Record) -> None:
            with self._saving:
                state.records[record.key] = record
                self._file.save(state)

        return remember

    def _make_keys(self, report: Callable[[str], None]) -> None:
        """A keyring for this machine, once: what runs in this home signs with it, and believes nobody else."""
        from ..keyfile import ensure_local_keys

        elsewhere = (
            self._environ.get("WAKEFUL_KEYS") or self._environ.get("WAKEFUL_INSECURE") == "1"
        )
        if not elsewhere and ensure_local_keys(self.home / KEYS_FILE):
            report(f"keys: made {self.home / KEYS_FILE}, for this machine alone")

    def _choose(self) -> list[Provider]:
        urls = {name: self._environ.get(f"WAKEFUL_{name.upper()}", "") for name in SERVICES}
        wanted = self._environ.get("WAKEFUL_STACK", "")
        if wanted not in {"", *OURS}:
            raise StackError(f"WAKEFUL_STACK={wanted} is unknown: give native or docker")
        in_docker = False
        if not all(urls.values()) and wanted != "native":
            in_docker = docker.engine_answers()
            if wanted == "docker" and not in_docker:
                raise StackError("WAKEFUL_STACK=docker, and no Docker engine answers: start it")
        chosen: list[Provider] = []
        for name, url in urls.items():
            ours = Docker(name) if in_docker else _native(name)
            chosen.append(External(name, url) if url else ours)
        return chosen

    def _running(self) -> dict[str, Record]:
        """Return what the environment points at and was checked, then what we started and lives."""
        state = self._file.load()
        found: dict[str, Record] = {}
        for record in [] if state is None else state.records.values():
            url = self._environ.get(f"WAKEFUL_{record.service.upper()}", "")
            if url:
                if record.provider == "external" and record.address == url:
                    found[record.service] = record
            elif record.provider in OURS and _provider(record).is_alive(record):
                found[record.service] = record
        return found

    def _record(self, service: str) -> Record:
        record = self._running().get(service)
        if record is None:
            raise StackError(f"{service} does not run: `wakeful up` starts it")
        return record

    def _stop_all(self, state: State | None) -> None:
        records = [record for record in _ours(state) if _provider(record).is_alive(record)]
        with ThreadPoolExecutor(len(SERVICES)) as pool:
            stops = [pool.submit(_provider(record).stop, record) for record in records]
        for stop in stops:
            stop.result()


def _native(service: str) -> Provider:
    match service:
        case "kafka":
            return NativeKafka()
        case "postgres":
            return NativePostgres()
        case _:
            return NativeValkey()


def _provider(record: Record) -> Provider:
    match record.provider:
        case "native":
            return _native(record.service)
        case "docker":
            return Docker(record.service)
        case _:
            return External(record.service, record.address)


def _ours(state: State | None) -> list[Record]:
    return [] if state is None else [r for r in state.records.values() if r.provider in OURS]


def _endpoints(records: Mapping[str, Record]) -> Endpoints:
    return Endpoints(
        kafka=records["kafka"].address,
        postgres=records["postgres"].address,
        redis=records["redis"].address,
        cluster_id=records["kafka"].cluster_id,
    )


def _line(record: Record) -> ServiceStatus:
    external = record.provider == "external"
    return ServiceStatus(
        name=record.service,
        state="external" if external else "running",
        pid=record.pid or None,
        address=without_password(record.address),
        detail="from the environment" if external else f"{record.provider}, log: {record.log}",
    )
