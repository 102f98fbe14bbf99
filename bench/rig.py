"""A stack of the benchmark's own, and on it an app's processes with a namespace and a home of their own."""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.driver import Driver
from bench.durability import keeping
from bench.measure import Report, say
from wakeful.deploy import logs
from wakeful.deploy.processes import apply_topics
from wakeful.deploy.settings import Settings, load_settings
from wakeful.deploy.stack import Stack
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Isolation, Log, Place
from wakeful.processors.app import load_app
from wakeful.projections.queries import Queries

APP = str(Path(__file__).with_name("app.py"))
STARTED_LIMIT_S = 60.0
RESTART_MAX_S = 0.5
"""A child is started again at once, however often it has been killed here."""

VIEWS_LIMIT_MS = 120_000

SERVERS = {"kafka": "broker"}
"""What the lines call a service, where it is not its own name."""


@dataclass(frozen=True, slots=True)
class Bed:
    """The stack, and what every measure is given."""

    home: Path
    stack: Stack
    environ: Mapping[str, str]
    report: Report

    @property
    def servers(self) -> dict[str, list[int]]:
        """The pids of the stack's services; those that the environment names run elsewhere, and cannot be counted."""
        status = self.stack.status()
        return {SERVERS.get(s.name, s.name): [s.pid] for s in status if s.pid}

    @property
    def uncounted(self) -> list[str]:
        """The services that run elsewhere."""
        return [SERVERS.get(s.name, s.name) for s in self.stack.status() if not s.pid]

    @property
    def kafka(self) -> str:
        """The broker's address."""
        return load_settings(self.environ).kafka_servers

    @property
    def postgres(self) -> str:
        """The database's address."""
        return load_settings(self.environ).postgres_url


@dataclass(frozen=True, slots=True)
class Rig:
    """One app's processes that run, and a driver for them."""

    bed: Bed
    running: Supervisor
    driver: Driver
    settings: Settings
    effects: Path
    durability: str
    log: Log

    def views_follow_ms(self) -> float:
        """Waits until the views hold all events that there are now; how long that took."""
        began_s, topic = time.monotonic(), self.settings.topics.events
        places = [Place(topic, n) for n in range(self.log.partitions(topic))]
        ends = {
            place: end for place, (_, end) in self.log.ends(places, Isolation.COMMITTED).items()
        }
        with Queries(self.settings.postgres_url, self.settings.namespace) as views:
            views.wait_for(ends, timeout_ms=VIEWS_LIMIT_MS)
        return (time.monotonic() - began_s) * 1000

    def parts(self) -> dict[str, list[int]]:
        """The pids of the processor, the worker, the projector, and of the stack's services."""
        return {**group_by_duty(self.running.pids()), **self.bed.servers}

    def kill(self, names: Iterable[str]) -> tuple[int, dict[str, int]]:
        """Ends these children by kill -9; gives the moment before the first, and the pids that are gone."""
        at_ns = time.monotonic_ns()
        return at_ns, {name: self.running.kill(name) for name in names}

    def restarted(self, gone: Mapping[str, int]) -> bool:
        """Whether each of them runs again."""
        pids = self.running.pids()
        return all(pids.get(name) not in {None, pid} for name, pid in gone.items())

    def emit(self, measure: str, **fields: object) -> None:
        """One line of this rig."""
        self.bed.report.emit(peer="wakeful", measure=measure, durability=self.durability, **fields)


@contextmanager
def made_bed(report: Report) -> Iterator[Bed]:
    """A stack in a temporary folder; whatever happens, it is ended and removed."""
    logs.configure("error", "text")
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        environ = {**os.environ, "WAKEFUL_HOME": folder}
        stack = Stack(Path(folder), environ=environ)
        try:
            stack.up(say)
            bed = Bed(Path(folder), stack, environ, report)
            if bed.uncounted:
                say(f"not counted, since the environment names them: {', '.join(bed.uncounted)}")
            yield bed
        finally:
            stack.reset()


@contextmanager
def rigged(
    bed: Bed,
    name: str,
    *,
    durability: str = "default",
    delay_s: float = 0.0,
    workers: int = 1,
    processors: int = 1,
    projector: bool = True,
) -> Iterator[Rig]:
    """Runs the benchmark's app under the namespace `name`, until it is left.

    `delay_s` is how long each step's body takes. A repeat under the same name goes on with its topics.
    """
    own = bed.home / name
    effects = own / "effects.log"
    found = load_settings(bed.environ)
    settings = found.model_copy(
        update={"namespace": f"bench-{name}", "home": own, "open_policy": True}
    )
    own.mkdir(exist_ok=True)
    app = load_app(APP)
    environ = {
        **bed.environ,
        "WAKEFUL_BENCH_EFFECTS": str(effects),
        "WAKEFUL_BENCH_DELAY_S": str(delay_s),
    }
    with (
        keeping(found.kafka_servers, durability),
        KafkaLog(found.kafka_servers, client_id="bench") as log,
    ):
        apply_topics(log, settings, app.queues)
        running = Supervisor(
            settings,
            APP,
            queues=app.queues,
            processors=processors,
            workers=workers,
            projector=projector,
            environ=environ,
            backoff_max_s=RESTART_MAX_S,
        )
        with running, Driver(log, settings, effects) as driver:
            yield Rig(bed, running, driver, settings, effects, durability, log)


def group_by_duty(pids: Mapping[str, int]) -> dict[str, list[int]]:
    """`processor-0` and `processor-1` are `processor`, and so on."""
    grouped: dict[str, list[int]] = {}
    for name, pid in pids.items():
        grouped.setdefault(name.split("-")[0], []).append(pid)
    return grouped
