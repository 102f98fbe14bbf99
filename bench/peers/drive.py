"""`python -m bench.peers.drive '{"peer": …}'`: one peer's turn in a round, in the peer's own environment.

Starts its worker, warms it up, drives the workload at each window, and prints one JSON line for each. The driver
reads the effects log: a session is approved as soon as its last step before the approval has run (an engine keeps the
decision until it is waited for), and is done when its function has written that it came to its end.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.measure import (
    FINISHED,
    Effect,
    Effects,
    Meter,
    Report,
    approvals_ms,
    percentile,
    transitions_ms,
)
from bench.peers.worker import Worker

LOOK_S = 0.002
LIMIT_S = 900.0


class Peer(Protocol):
    """The driver's side of an engine."""

    async def connect(self) -> None:
        """Makes it ready to be asked."""

    async def start(self, session: str, before: int, after: int) -> None:
        """Starts a session under this name."""

    async def approve(self, session: str) -> None:
        """Decides what the session waits for, or will."""

    async def close(self) -> None:
        """Lets go of what `connect` opened."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What is asked of a peer: its name, and how to reach it, and how much."""

    peer: str
    name: str
    round: int
    sessions: int
    windows: Sequence[int]
    warm: int
    before: int
    after: int
    effects: str
    log: str
    parts: Mapping[str, Sequence[int]]
    """Its servers' pids."""
    version: str
    worker: Sequence[str]
    """The arguments of its worker."""
    given: Mapping[str, str]
    """What its driver's side takes."""


@dataclass(slots=True)
class Batch:
    """Sessions on their way."""

    todo: list[str]
    begun: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    signalled: dict[str, int] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    calls: set[asyncio.Task[None]] = field(default_factory=set)

    def call(self, what: Coroutine[Any, Any, None]) -> None:
        """Lets a request go its way; `check` raises what came of it."""
        self.calls.add(asyncio.create_task(what))

    def check(self) -> None:
        """Raises the first error of a request that is over."""
        over = {call for call in self.calls if call.done()}
        self.calls -= over
        for call in over:
            call.result()


async def drive(peer: Peer, turn: Turn, name: str, sessions: int, window: int) -> Batch:
    """Drives so many sessions to their end."""
    batch = Batch([f"{turn.name}-{name}-{n}" for n in reversed(range(sessions))])
    reader = Effects(Path(turn.effects))
    limit = time.monotonic() + LIMIT_S
    while len(batch.done) < sessions:
        for effect in reader.read():
            batch.effects.append(effect)
            if effect.step == FINISHED:
                batch.done.add(effect.session)
            elif effect.step == turn.before - 1 and effect.session not in batch.signalled:
                batch.signalled[effect.session] = time.monotonic_ns()
                batch.call(peer.approve(effect.session))
        while batch.todo and len(batch.begun) - len(batch.done) < window:
            session = batch.todo.pop()
            batch.begun.add(session)
            batch.call(peer.start(session, turn.before, turn.after))
        batch.check()
        if time.monotonic() > limit:
            raise TimeoutError(f"{turn.peer}: {len(batch.done)} of {sessions} done in {LIMIT_S} s")
        await asyncio.sleep(LOOK_S)
    return batch


async def measure(peer: Peer, turn: Turn, worker: Worker, report: Report, window: int) -> None:
    """One line: throughput at this window."""
    meter = Meter({"worker": [worker.pid], **turn.parts})
    began_s = time.monotonic()
    batch = await drive(peer, turn, f"w{window}", turn.sessions, window)
    elapsed_s = time.monotonic() - began_s
    steps = turn.sessions * (turn.before + turn.after)
    cpu = meter.per_step(steps)
    between = transitions_ms(batch.effects, turn.before)
    approvals = approvals_ms(batch.effects, batch.signalled, turn.before)
    report.emit(
        peer=turn.peer,
        version=turn.version,
        measure="throughput",
        durability="default",
        round=turn.round,
        sessions=turn.sessions,
        window=window,
        steps_per_s=round(steps / elapsed_s, 1),
        elapsed_s=round(elapsed_s, 2),
        **cpu,
        step_ms_p50=percentile(between, 0.5),
        step_ms_p99=percentile(between, 0.99),
        approval_ms_p50=percentile(approvals, 0.5),
        executions=sum(effect.step >= 0 for effect in batch.effects),
    )


def connected(turn: Turn, worker: Worker) -> Peer:
    """The driver's side of the peer that is meant; imported only where it is installed."""
    match turn.peer:
        case "dbos":
            from bench.peers.dbos_peer import Dbos

            return Dbos(worker, **turn.given)
        case "restate":
            from bench.peers.restate_peer import Restate

            return Restate(worker, **turn.given)
        case _:
            raise ValueError(f"no peer {turn.peer!r}: there are dbos and restate")


async def take(turn: Turn) -> None:
    """The whole turn."""
    environ = {**os.environ, "WAKEFUL_BENCH_EFFECTS": turn.effects}
    module = f"bench.peers.{turn.peer}_peer"
    with Worker(module, turn.worker, environ=environ, log=Path(turn.log)) as worker:
        peer = connected(turn, worker)
        await peer.connect()
        try:
            await drive(peer, turn, "warm", turn.warm, turn.warm)
            for window in turn.windows:
                await measure(peer, turn, worker, Report(), window)
        finally:
            await peer.close()


if __name__ == "__main__":
    asyncio.run(take(Turn(**json.loads(sys.argv[1]))))
