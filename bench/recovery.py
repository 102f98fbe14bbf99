"""Processes die by kill -9 in the middle of work; their supervisor starts them again. How long until all goes on?

recovery: 200 sessions open at once, steps of 100 ms; the kill comes when each has done 4 steps on average. Counted from
the kill, to the first and to the last session's next step. Cases: the only worker, one of two, the processor, and all
of ours at once, where the bound counts from the first restart.
worker_killed: two workers, calls of 5 s; the one with more of them in flight is killed. Counted from the kill to each
cut call's next begin, in whichever process.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bench.driver import Load, Run
from bench.measure import Effect, by_session, percentile, started_ns, until
from bench.rig import STARTED_LIMIT_S, Bed, Rig, rigged
from wakeful.processors.activities.core import SESSION_TIMEOUT_MS

DELAY_S = 0.1
STEPS_BEFORE_KILL = 4

CALL_S = 5.0
CALLS = 40
CALLS_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """What is killed, out of how many workers; `limit_s` is what we promise of the last session's next step.

    Without `victims` it is the worker with more of the sessions in flight.
    """

    name: str
    victims: tuple[str, ...]
    workers: int = 1
    limit_s: float | None = None
    since_restart: bool = False


CASES = (
    Case("the worker", ("worker-default-0",), limit_s=2.0),
    Case("one of two workers", (), workers=2, limit_s=2.0),
    Case("the processor", ("processor-0",)),
    Case(
        "all of ours",
        ("processor-0", "worker-default-0", "projector"),
        limit_s=3.0,
        since_restart=True,
    ),
)


def repeats(effects: Iterable[Effect]) -> tuple[int, int]:
    """How many executions were of a step behind a later one that had begun, and how many of the latest, again.

    The first are repeats of completed steps, of which there must be none; the others were in flight.
    """
    completed = in_flight = 0
    for steps in by_session(effects).values():
        latest = -1
        for effect in steps:
            completed += effect.step < latest
            in_flight += effect.step == latest
            latest = max(latest, effect.step)
    return completed, in_flight


def moved_again_s(effects: Iterable[Effect], at_ns: int) -> dict[str, float]:
    """Seconds from that moment to each session's next execution."""
    found: dict[str, float] = {}
    for effect in effects:
        if effect.at_ns > at_ns:
            found.setdefault(effect.session, (effect.at_ns - at_ns) / 1e9)
    return found


def measure(bed: Bed, *, sessions: int, reps: int) -> None:
    """All cases, each with processes of its own that stay up for all repetitions."""
    for case in CASES:
        name = "recovery-" + case.name.replace(" ", "-")
        with rigged(bed, name, delay_s=DELAY_S, workers=case.workers) as rig:
            rig.driver.run(Load(sessions, sessions))
            for rep in range(reps):
                once(rig, case, sessions=sessions, rep=rep)


def once(rig: Rig, case: Case, *, sessions: int, rep: int) -> None:
    """One kill, and the way back to the end of all sessions."""
    driver = rig.driver
    run = driver.begin(Load(sessions, sessions))
    wanted = sessions * STEPS_BEFORE_KILL
    driver.until(run, lambda: len(run.look()) >= wanted, f"{wanted} steps have begun")
    at_ns, gone = rig.kill(case.victims or [busiest_worker(rig, run)])
    midway = set(run.sessions) - run.done
    driver.until(run, lambda: rig.restarted(gone), "what was killed runs again", STARTED_LIMIT_S)
    pids = rig.running.pids()
    # a spare was started before the kill, so for it the restart is the kill
    back_s = max(0, min(started_ns(pids[name]) for name in gone) - at_ns) / 1e9
    driver.until(run, lambda: run.over, "all sessions are over")
    emit(rig, run, case, rep=rep, at_ns=at_ns, back_s=back_s, midway=midway)


def busiest_worker(rig: Rig, run: Run) -> str:
    """The one that has begun the latest step of more sessions than any other."""
    latest = {effect.session: effect.pid for effect in run.effects}
    begun = Counter(latest.values())
    workers = {name: pid for name, pid in rig.running.pids().items() if name.startswith("worker")}
    return max(workers, key=lambda name: begun[workers[name]])


def emit(
    rig: Rig, run: Run, case: Case, *, rep: int, at_ns: int, back_s: float, midway: set[str]
) -> None:
    """The line of one kill."""
    ended_ns = time.monotonic_ns()
    again = {s: at for s, at in moved_again_s(run.look(), at_ns).items() if s in midway}
    last_s = max(again.values())
    counted_s = last_s - back_s if case.since_restart else last_s
    completed, in_flight = repeats(run.effects)
    rig.emit(
        "recovery",
        case=case.name,
        rep=rep,
        sessions=len(run.sessions),
        midway=len(midway),
        restarted_s=round(back_s, 2),
        first_step_s=round(min(again.values()), 2),
        last_first_step_s=round(last_s, 2),
        last_since_restart_s=round(last_s - back_s, 2),
        all_done_s=round((ended_ns - at_ns) / 1e9, 2),
        reexecuted_completed=completed,
        duplicated_inflight=in_flight,
        limit_s=case.limit_s,
        within=None if case.limit_s is None else counted_s <= case.limit_s and not completed,
    )


def measure_calls(bed: Bed, *, reps: int) -> None:
    """Long calls, in one line for all repetitions."""
    with rigged(bed, "calls", delay_s=CALL_S, workers=2, projector=False) as rig:
        found = [cut_calls_again_s(rig) for _ in range(reps)]
        waits = [seconds for one in found for seconds in one]
        rig.emit(
            "worker_killed",
            reps=reps,
            session_timeout_s=SESSION_TIMEOUT_MS / 1000,
            calls_cut=len(waits),
            again_s_first=round(min(waits), 2),
            again_s_p50=percentile(waits, 0.5),
            again_s_last=round(max(waits), 2),
            last_of_each_rep_s=[round(max(one), 2) for one in found],
        )


def cut_calls_again_s(rig: Rig) -> list[float]:
    """The seconds from the kill to the next begin of each call that it cut."""
    run = rig.driver.begin(Load(CALLS, CALLS, before=1, approve=False))
    sessions = set(run.sessions)

    def all_begun() -> bool:
        return {effect.session for effect in run.look()} >= sessions

    rig.driver.until(run, all_begun, "every call has begun", CALLS_LIMIT_S)
    pids = {pid: name for name, pid in rig.running.pids().items() if name.startswith("worker")}
    recent_ns = time.monotonic_ns() - int(CALL_S * 0.8e9)
    running = [effect for effect in run.effects if effect.at_ns > recent_ns]
    in_flight = {pid: {e.session for e in running if e.pid == pid} for pid in pids}
    victim = max(in_flight, key=lambda pid: len(in_flight[pid]))
    cut = in_flight[victim]
    at_ns, gone = rig.kill([pids[victim]])

    def again() -> dict[str, float]:
        others = [effect for effect in run.look() if effect.session in cut and effect.pid != victim]
        return moved_again_s(others, at_ns)

    rig.driver.until(
        run, lambda: again().keys() == cut, "every cut call has begun again", CALLS_LIMIT_S
    )
    until(lambda: rig.restarted(gone), "all processes run", limit_s=STARTED_LIMIT_S)
    return list(again().values())
