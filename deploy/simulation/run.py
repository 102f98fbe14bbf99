"""Runs schedules and says what became of them: one seed, many seeds, several processes."""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import structlog

from ...events import records as r
from ...events.errors import Unfoldable
from ...events.evolve import evolve
from ...events.records import Event
from ...events.state import State
from ...events.transitions import ROWS
from ...processors.simulation.actors import Actor, Scene
from ...processors.simulation.keyless import by_the_clock
from ...processors.simulation.plan import Plan
from ...processors.simulation.world import Trace, World
from .checks import Findings, check
from .equality import against_the_model, states
from .executing import gates
from .projecting import Database, ProjectorActor

CRITICAL = 50
CHUNK = 20
"""Seeds that a process takes at once."""

Arrow = tuple[str | None, str, str]

ARROWS: frozenset[Arrow] = frozenset((source, event.__name__, to) for source, event, to in ROWS)


@dataclass(slots=True)
class Result:
    """One schedule, or the sum of many."""

    schedules: int = 0
    steps: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    arrows: set[Arrow] = field(default_factory=set)
    findings: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Sums up."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.counts += other.counts
        self.arrows |= other.arrows
        self.findings += other.findings


def quiet() -> None:
    """Recoveries are the point here, so nobody wants to read of each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))


def run_seed(
    seed: int,
    *,
    mistake: Callable[[], AbstractContextManager[None]] = nullcontext,
    compare: bool = True,
    trace: Trace | None = None,
) -> Result:
    """One schedule from its seed to its findings; a `mistake` is in force for all of it.

    `compare` adds the comparison with the sequential model. A mutant is judged without it: the model is made of the
    code that the mutant changes, and a promise that only such a twin can check would be checked by nobody.
    """
    result = Result(schedules=1)
    with mistake():
        findings = _judged(seed, result, compare=compare, trace=trace)
    result.findings = [(seed, promise, told) for promise, told in findings.told]
    return result


def run_seeds(seeds: Iterable[int], *, jobs: int = 1) -> Iterator[Result]:
    """Results as they come, seed by seed or in sums of several."""
    wanted = list(seeds)
    if jobs <= 1:
        yield from map(_swept, wanted)
        return
    chunks = [wanted[at : at + CHUNK] for at in range(0, len(wanted), CHUNK)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(_chunk, chunks)


def _chunk(seeds: list[int]) -> Result:
    quiet()
    total = Result()
    for seed in seeds:
        total.add(_swept(seed))
    return total


def _swept(seed: int) -> Result:
    """Garbage is collected between schedules, not within them."""
    gc.disable()
    try:
        return run_seed(seed)
    finally:
        gc.enable()
        if seed % CHUNK == 0:
            gc.collect()


def _judged(seed: int, result: Result, *, compare: bool, trace: Trace | None) -> Findings:
    plan = Plan.draw(seed)
    database = Database()

    def projectors(scene: Scene) -> list[Actor]:
        return [ProjectorActor(scene, n, database) for n in range(plan.projectors)]

    world = World(plan, more=projectors, trace=trace)
    findings = Findings()
    try:
        rested = world.run()
        findings, events = check(world, database, rested=rested)
        if compare and not plan.deploys and not plan.guarded and not by_the_clock(seed):
            model, differences = against_the_model(world)
            findings.extend("model", iter(differences))
            if not differences:
                findings.extend("I8", states(world, model))
            model.close()
        _count(world, events, result)
    except Exception as error:  # an engine that dies of anything but a fault is a finding
        findings.add("crash", f"{type(error).__name__}: {error}")
        if trace is not None:
            raise
    finally:
        world.close()
    result.steps = world.steps
    result.counts += world.counts
    return findings


def _count(world: World, events: Sequence[Event], result: Result) -> None:
    """Which arrows of the lifecycle were walked, and what was accepted and refused."""
    sessions: dict[tuple[str, str], State | None] = {}
    for event in events:
        key = (event.envelope.tenant, event.envelope.session_id)
        before = sessions.get(key)
        try:
            after = evolve(before, event)
        except Unfoldable:
            continue
        sessions[key] = after
        name = type(event.body).__name__
        result.counts[f"fact: {name}"] += 1
        result.arrows.add((before.status if before else None, name, after.status))
        result.counts["events"] += 1
        if isinstance(event.body, r.CommandRefused):
            result.counts["commands refused"] += 1
    result.counts += gates(events)
    result.counts["commands"] += len(world.log.dump(world.topics.commands))
    result.counts["sessions"] += len(sessions)
