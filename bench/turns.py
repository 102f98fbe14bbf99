"""`make bench`: what a durable step costs, everything included: broker, engine, worker, projector, database, driver.

    python -m bench.turns [throughput latency] [--n 200] [--window 64 500] [--reps 3]

throughput: N sessions of 10 steps, approval, 2 steps, at most WINDOW open at once, approved as soon as they ask.
latency: 20 sessions, one at a time; approval 300 ms after they ask.
Default partition counts and durability; the fields are those of the peers' measures, one JSON line each.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import Effects, cpu_s, emit, percentile, transitions_ms
from wakeful.commands.client import Client
from wakeful.commands.models import DecideApproval, OpenSession
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.processes import apply_topics
from wakeful.deploy.settings import Settings, load_settings
from wakeful.deploy.stack import Stack
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.codec import decode_outcome
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Isolation, Log, Place, Record
from wakeful.processors.app import load_app

APP = str(Path(__file__).with_name("app.py"))
BEFORE, AFTER = 10, 2
STEPS = BEFORE + AFTER
TIME_LIMIT_S = 300
SETTLE_S = 0.3


class Driver:
    """Opens sessions, approves what they ask for, sees them complete."""

    def __init__(self, log: Log, settings: Settings, effects: Path) -> None:
        self._topics = settings.topics
        self._client = Client(
            log,
            settings.topics,
            tenant=settings.tenant,
            actor="bench",
            channel="bench",
            digest_key=settings.digest_key,
            now_ms=SystemClock().now_ms,
        )
        places = [
            Place(self._topics.outcomes, n) for n in range(log.partitions(self._topics.outcomes))
        ]
        self._reader = log.reader(Isolation.COMMITTED)
        ends = log.ends(places, Isolation.COMMITTED)
        self._reader.assign({place: end for place, (_, end) in ends.items()})
        self._effects = Effects(effects)
        self._effects.read()
        self._runs = 0

    def run(self, sessions: int, window: int, *, settle_s: float = 0.0) -> "Run":
        """Drives `sessions` to their completion, at most `window` open at once."""
        self._runs += 1
        run = Run([f"b{os.getpid()}-{self._runs}-{n}" for n in range(sessions)])
        limit = time.monotonic() + TIME_LIMIT_S
        todo = list(reversed(run.sessions))
        held: list[tuple[float, DecideApproval, str]] = []
        while len(run.done) < sessions:
            while todo and sessions - len(todo) - len(run.done) < window:
                self._open(todo.pop())
            for item in self._reader.poll(1_000, 2 if held else 20):
                if isinstance(item, Record):
                    self._hear(item, run, held, settle_s)
            now = time.monotonic()
            for entry in [entry for entry in held if entry[0] <= now]:
                held.remove(entry)
                run.signalled[entry[2]] = time.monotonic_ns()
                self._client.post(entry[2], entry[1])
            if now > limit:
                raise TimeoutError(
                    f"{len(run.done)} of {sessions} sessions were done after {TIME_LIMIT_S} s"
                )
        run.ended_s = time.monotonic()
        known = set(run.sessions)
        run.effects = [effect for effect in self._effects.read() if effect[1] in known]
        return run

    def _open(self, session: str) -> None:
        self._client.post(session, OpenSession("turns"))
        self._client.post(session, self._client.message({"before": BEFORE}))

    def _hear(
        self,
        record: Record,
        run: "Run",
        held: list[tuple[float, DecideApproval, str]],
        settle_s: float,
    ) -> None:
        outcome = decode_outcome(record.value, record.headers)
        if outcome.kind == "approval_wanted":
            decision = DecideApproval(
                outcome.proposal_id or "", outcome.digest or b"", "approve", ""
            )
            held.append((time.monotonic() + settle_s, decision, outcome.session_id))
        elif outcome.kind == "completed":
            run.done.add(outcome.session_id)
        else:
            raise RuntimeError(f"unexpected outcome {outcome}")


class Run:
    """One batch of sessions and what was seen of it."""

    def __init__(self, sessions: list[str]) -> None:
        self.sessions = sessions
        self.done: set[str] = set()
        self.signalled: dict[str, int] = {}
        self.effects: list[tuple[int, str, int]] = []
        self.began_s = time.monotonic()
        self.ended_s = 0.0

    def approvals_ms(self) -> list[float]:
        """From the decision to the start of the next step."""
        next_step = {session: at for at, session, step in self.effects if step == BEFORE}
        return [(next_step[s] - at) / 1e6 for s, at in self.signalled.items() if s in next_step]


def throughput(
    driver: Driver, parts: dict[str, list[int]], *, sessions: int, window: int, rep: int
) -> None:
    """Steps per second and CPU per step, by process."""
    before = {name: cpu_s(pids) for name, pids in parts.items()}
    own = time.process_time()
    run = driver.run(sessions, window)
    steps = sessions * STEPS
    spent = {name: cpu_s(pids) - before[name] for name, pids in parts.items()}
    spent["driver"] = time.process_time() - own
    per_step = {name: round(seconds * 1_000 / steps, 3) for name, seconds in spent.items()}
    between = transitions_ms(run.effects, BEFORE)
    elapsed_s = run.ended_s - run.began_s
    emit(
        peer="wakeful",
        measure="throughput",
        rep=rep,
        sessions=sessions,
        window=window,
        steps_per_s=round(steps / elapsed_s, 1),
        elapsed_s=round(elapsed_s, 2),
        cpu_ms_per_step=round(sum(per_step.values()), 3),
        **{f"cpu_ms_per_step_{name}": value for name, value in per_step.items()},
        step_ms_p50=percentile(between, 0.5),
        step_ms_p99=percentile(between, 0.99),
        executions=len(run.effects),
    )


def latency(driver: Driver, *, rep: int) -> None:
    """Step to step and decision to step, one session at a time."""
    effects, approvals = [], []
    for _ in range(20):
        run = driver.run(1, 1, settle_s=SETTLE_S)
        effects += run.effects
        approvals += run.approvals_ms()
    between = transitions_ms(effects, BEFORE)
    emit(
        peer="wakeful",
        measure="latency",
        rep=rep,
        sessions=20,
        step_ms_p50=percentile(between, 0.5),
        step_ms_p99=percentile(between, 0.99),
        n=len(between),
        approval_ms_p50=percentile(approvals, 0.5),
        approval_ms_p99=percentile(approvals, 0.99),
    )


def main() -> None:
    """Runs the measures asked for on a stack of their own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("measures", nargs="*", default=["throughput", "latency"])
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--window", type=int, nargs="+", default=[64, 500])
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--processors", type=int, default=1)
    asked = parser.parse_args()
    unknown = set(asked.measures) - {"throughput", "latency"}
    if unknown:
        parser.error(f"no measure {', '.join(sorted(unknown))}: there are throughput and latency")
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        home = Path(folder)
        environ = {**os.environ, "WAKEFUL_HOME": str(home), "WAKEFUL_NAMESPACE": "bench"}
        stack = Stack(home, environ=environ)
        try:
            stack.up(lambda line: print(line, file=sys.stderr))
            measure(asked, stack, environ, home)
        finally:
            stack.reset()


def measure(asked: argparse.Namespace, stack: Stack, environ: dict[str, str], home: Path) -> None:
    """All repetitions, with processes that stay up, after a warm-up that lets the JVM compile."""
    settings = load_settings(environ)
    app = load_app(APP)
    effects = home / "effects.log"
    servers = {service.name: [service.pid] for service in stack.status() if service.pid}
    with KafkaLog(settings.kafka_servers, client_id="bench") as log:
        apply_topics(log, settings, app.queues)
        running = Supervisor(
            settings,
            APP,
            queues=app.queues,
            processors=asked.processors,
            environ={**environ, "WAKEFUL_BENCH_EFFECTS": str(effects)},
        )
        with running:
            driver = Driver(log, settings, effects)
            driver.run(max(asked.window), max(asked.window))
            parts = {**servers, **group_by_duty(running.pids())}
            for rep in range(asked.reps):
                if "throughput" in asked.measures:
                    for window in asked.window:
                        throughput(driver, parts, sessions=asked.n, window=window, rep=rep)
                if "latency" in asked.measures:
                    latency(driver, rep=rep)


def group_by_duty(pids: dict[str, int]) -> dict[str, list[int]]:
    """`processor-0` and `processor-1` are `processor`, and so on."""
    grouped: dict[str, list[int]] = {}
    for name, pid in pids.items():
        grouped.setdefault(name.split("-")[0], []).append(pid)
    return grouped


if __name__ == "__main__":
    main()
