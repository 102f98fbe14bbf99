"""One run's cluster: a stack of its own, a proxy before the broker, the processes under a supervisor, and who else comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from time import monotonic

import redis

from tests.chaos.clocked import VARIABLE
from tests.chaos.duties import Duties
from tests.chaos.observer import Observer
from tests.chaos.proxy import Proxy
from wakeful.deploy.demo.payments import Service
from wakeful.deploy.exits import Stopped
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints, Stack, StackError, native_kafka
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Place
from wakeful.projections.queries import Queries

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "tests.chaos.clocked")
PROCESSORS, WORKERS, PARTITIONS = 3, 3, 4
BACKOFF_MAX_S = 0.5
"""A child that is killed every few seconds would rest longer and longer, and its recovery tell of nothing else."""

# A broker that lives for minutes earns nothing by the full JIT.
native_kafka.JAVA_OPTIONS = (*native_kafka.JAVA_OPTIONS, native_kafka.SHORT_LIVED)

LOOK_S = 0.05
ENDS_S = 20.0
STARTS_MAX = 5

PAYMENT_FAULTS = {
    "--slow": "100",
    "--errors": "0.04",
    "--errors-after": "0.03",
    "--hang": "0.01",
    "--drop": "0.05",
    "--late": "0.03",
    "--late-ms": "150",
    "--look-up-errors": "0.04",
}


class Cluster:
    """See the module; made by `cluster`. Faults are inflicted through it, by one thread."""

    def __init__(
        self, stack: Stack, found: Endpoints, proxy: Proxy, rig: Duties, clock: Path, seed: int
    ) -> None:
        self.stack, self.found, self.proxy, self.rig = stack, found, proxy, rig
        self.observer: Observer
        self.running: Supervisor
        self.payments: Service
        self.through: Settings
        """As the processes have them: to the broker by the proxy."""
        self.draw = Random(f"{seed}/faults")
        self._clock = clock
        self._others: list[subprocess.Popen[bytes]] = []
        self._never = threading.Event()

    def named(self, what: str) -> str:
        """One of the children of this kind, by the draw."""
        return self.draw.choice([name for name in self.running.names if name.startswith(what)])

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Signals a child; one that is being started again is waited for."""
        limit = monotonic() + ENDS_S
        while True:
            try:
                self.running.kill(name, number)
            except Stopped:
                if monotonic() > limit:
                    raise
                self.rest(LOOK_S)
            else:
                return

    def rest(self, seconds: float) -> None:
        """Lets time pass."""
        self._never.wait(seconds)

    def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Waits until it is true, or so long; whether it is."""
        limit = monotonic() + seconds
        while not true():
            if monotonic() > limit:
                return False
            self.rest(LOOK_S)
        return True

    def ends(self, name: str) -> int:
        """How often a child has ended so far."""
        return len(self.running.exit_codes[name])

    def put_off_clocks(self, off_ms: int, whom: int) -> None:
        """Puts the clocks of processes off; see `clocked`."""
        beside = self._clock.with_suffix(".new")
        beside.write_text(f"{off_ms} {whom}")
        beside.replace(self._clock)

    def start_other(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A process that no supervisor knows of, with a home of its own, as on another machine."""
        number = len(self._others)
        home = self.stack.home / "others" / str(number)
        home.mkdir(parents=True)
        environ = {
            **os.environ,
            **self.through.to_environ(),
            **self.environ,
            "WAKEFUL_HOME": str(home),
        }
        with (home / "log").open("wb") as output:
            other = subprocess.Popen(
                [*PROGRAM, *arguments],
                cwd=ROOT,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._others.append(other)
        return other

    def said(self, other: subprocess.Popen[bytes], words: str) -> bool:
        """Whether a process that was started by `start_other` has said this."""
        home = self.stack.home / "others" / str(self._others.index(other))
        return words in (home / "log").read_text(errors="replace")

    def end(self, other: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> int:
        """Ends such a process, where it has not; gives its exit code."""
        if other.poll() is None:
            other.send_signal(number)
            try:
                other.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                other.kill()
        return other.wait()

    @property
    def environ(self) -> dict[str, str]:
        """What processes are told beside the settings."""
        return {
            VARIABLE: str(self._clock),
            "WAKEFUL_CHAOS_PAYMENTS": self.payments.url,
            "WAKEFUL_ALWAYS_REPLAY": self.rig.environ["WAKEFUL_ALWAYS_REPLAY"],
        }

    def start_again(self, service: str) -> None:
        """A service of the stack, where it does not run; tried again where it is not ready in time."""
        _patiently(lambda: self.stack.start(service))

    def redis(self) -> redis.Redis:
        """A client of the Redis-compatible server."""
        return redis.Redis.from_url(self.found.redis, socket_timeout=5)

    def views_are_at(self, ends: Mapping[Place, int]) -> bool:
        """Whether the views have come to these ends; false also where nobody answers."""
        settings = self.rig.settings
        with suppress(Exception), Queries(settings.postgres_url, settings.namespace) as asked:
            positions = asked.positions()
            return all(positions.get(place, 0) >= end for place, end in ends.items())
        return False

    def heal(self) -> None:
        """Ends all that is wrong, whatever fault was under way."""
        self.proxy.delay_s = 0.0
        self.proxy.mend()
        with suppress(Exception):
            self.proxy.let_go(1.0)
        self.put_off_clocks(0, 2)
        for service in ("kafka", "postgres", "redis"):
            with suppress(Exception):
                self.stack.kill(service, signal.SIGCONT)
            self.start_again(service)
        for name in self.running.names:
            with suppress(Stopped):
                self.running.kill(name, signal.SIGCONT)
        for other in self._others:
            with suppress(Exception):
                other.send_signal(signal.SIGCONT)
            self.end(other, signal.SIGTERM)


@contextmanager
def cluster(folder: Path, seed: int, mutant: str | None = None) -> Iterator[Cluster]:
    """Everything up and under load's way; all of it is ended with the context, and `folder` keeps the logs."""
    draw = Random(f"{seed}/settings")
    stack = Stack(folder / "stack", environ={"WAKEFUL_STACK": "native"})
    with ExitStack() as ending:
        ending.callback(stack.down)
        found = _patiently(stack.up)
        proxy = ending.enter_context(Proxy(found.kafka))
        flags = [word for flag in PAYMENT_FAULTS.items() for word in flag]
        service = ending.enter_context(Service(folder / "book.ndjson", "--seed", str(seed), *flags))
        clock = folder / "clock"
        rig = Duties(
            kafka=found.kafka,
            postgres=found.postgres,
            namespace=f"chaos{seed}",
            home=folder,
            partitions=PARTITIONS,
            environ={
                "WAKEFUL_REDIS": found.redis,
                "WAKEFUL_ALWAYS_REPLAY": str(draw.randrange(2)),
            },
        )
        ending.callback(rig.close)
        one = Cluster(stack, found, proxy, rig, clock, seed)
        one.payments = service
        one.observer = Observer(
            KafkaLog(found.kafka, client_id="observer"), rig.topics.events, PARTITIONS
        )
        through = rig.settings.model_copy(update={"kafka": proxy.address})
        one.through = through
        environ = {
            **os.environ,
            **one.environ,
            **({"WAKEFUL_CHAOS_MUTANT": mutant} if mutant else {}),
        }
        one.running = Supervisor(
            through,
            rig.app,
            queues=["default"],
            processors=PROCESSORS,
            workers=WORKERS,
            environ=environ,
            backoff_max_s=BACKOFF_MAX_S,
            program=PROGRAM,
        )
        ending.enter_context(one.running)
        yield one


def _patiently(start: Callable[[], Endpoints]) -> Endpoints:
    """A repeat starts what was not ready in time, as on a machine with much else to do."""
    for _ in range(STARTS_MAX - 1):
        with suppress(StackError):
            return start()
    return start()
