"""`python -m bench.recovery`: a worker dies by kill -9 with calls in flight; how long until they go on elsewhere.

Two workers, calls of 5 s; the one with more of them in flight is killed, and its supervisor starts another. Counted
from the kill to each cut call's next begin, in whichever process. One JSON line for all repetitions.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

from bench.measure import emit, percentile
from bench.turns import APP
from wakeful.commands.client import Client
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.processes import apply_topics
from wakeful.deploy.settings import Settings, load_settings
from wakeful.deploy.stack import Stack
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.log.kafka import KafkaLog
from wakeful.processors.activities.core import SESSION_TIMEOUT_MS

CALL_S = 5.0
SESSIONS = 40
LIMIT_S = 60.0
LOOK_S = 0.01

Begun = list[tuple[float, int, str]]
"""Seconds of the monotonic clock, the pid, the session."""


def begun(effects: Path) -> Begun:
    """Every begin of a call so far."""
    if not effects.exists():
        return []
    words = [line.split(" ") for line in effects.read_text(encoding="utf-8").splitlines()]
    return [(int(at) / 1e9, int(pid), session) for at, pid, session, _step, _kind in words]


def once(client: Client, running: Supervisor, effects: Path, rep: int) -> list[float]:
    """The seconds from the kill to the next begin of each call that it cut."""
    sessions = {f"r{rep}-{n}" for n in range(SESSIONS)}
    for session in sessions:
        client.open("turns", session)
        client.send(session, {"before": 1})
    wait_until(lambda: {s for _, _, s in begun(effects)} >= sessions, "every call has begun")
    pids = {pid: name for name, pid in running.pids().items() if name.startswith("worker")}
    now_s = time.monotonic()
    mine = [one for one in begun(effects) if one[2] in sessions and now_s - one[0] < CALL_S * 0.8]
    in_flight = {pid: {s for _, p, s in mine if p == pid} for pid in pids}
    victim = max(in_flight, key=lambda pid: len(in_flight[pid]))
    killed_s = time.monotonic()
    running.kill(pids[victim])

    def again() -> dict[str, float]:
        found: dict[str, float] = {}
        for at_s, pid, session in begun(effects):
            if session in in_flight[victim] and at_s > killed_s and pid != victim:
                found.setdefault(session, at_s - killed_s)
        return found

    wait_until(lambda: again().keys() == in_flight[victim], "every cut call has begun again")
    wait_until(lambda: len(running.pids()) == len(running.names), "all processes run")
    return list(again().values())


def wait_until(holds, what: str) -> None:
    """Looks until it holds."""
    give_up, pause = time.monotonic() + LIMIT_S, threading.Event()
    while not holds():
        if time.monotonic() > give_up:
            raise TimeoutError(f"after {LIMIT_S} s it is not so that {what}")
        pause.wait(LOOK_S)


def measure(settings: Settings, environ: dict[str, str], effects: Path, reps: int) -> None:
    """All repetitions, with processes that stay up."""
    own = {"WAKEFUL_BENCH_EFFECTS": str(effects), "WAKEFUL_BENCH_DELAY_S": str(CALL_S)}
    with KafkaLog(settings.kafka_servers, client_id="bench") as log:
        apply_topics(log, settings, ["default"])
        client = Client(
            log,
            settings.topics,
            tenant=settings.tenant,
            actor="bench",
            channel="bench",
            digest_key=settings.digest_key,
            now_ms=SystemClock().now_ms,
        )
        running = Supervisor(
            settings,
            APP,
            queues=["default"],
            workers=2,
            projector=False,
            environ={**environ, **own},
        )
        with running:
            found = [once(client, running, effects, rep) for rep in range(reps)]
        client.close()
    waits = [seconds for one in found for seconds in one]
    emit(
        peer="wakeful",
        measure="worker_killed",
        reps=reps,
        session_timeout_s=SESSION_TIMEOUT_MS / 1000,
        calls_cut=len(waits),
        again_s_first=round(min(waits), 2),
        again_s_p50=percentile(waits, 0.5),
        again_s_last=round(max(waits), 2),
        last_of_each_rep_s=[round(max(one), 2) for one in found],
    )


def main() -> None:
    """On a stack of its own, or the one that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=5)
    reps = parser.parse_args().reps
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        home = Path(folder)
        namespace = f"recovery-{os.getpid()}"
        environ = {**os.environ, "WAKEFUL_HOME": str(home), "WAKEFUL_NAMESPACE": namespace}
        stack = Stack(home, environ=environ)
        try:
            stack.up()
            measure(load_settings(environ), environ, home / "effects.log", reps)
        finally:
            stack.reset()


if __name__ == "__main__":
    main()
