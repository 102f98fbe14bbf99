"""Sessions that wait for a person: what they take of memory and CPU, and how fast one of them goes on.

parked: N sessions of 10 steps are parked at their approval, then N more. A partition keeps a bounded number of parked
sessions in memory (`PARKED_MAX`), so the first N fill that, and only what the second N add is the price of being
parked. Then 10 s of silence; then approvals, one at a time: of the newest sessions (in memory) and of the oldest.
next_step: a session with H steps behind it is approved (a) while it is in memory, (b) once so many others have been
parked after it that it is on disk only, (c) while all of ours is dead, by kill -9.
"""

import time
from collections.abc import Sequence

from bench.driver import Load, Run
from bench.measure import Meter, median, percentile, pss_mb, ratio, started_ns
from bench.recovery import moved_again_s
from bench.rig import STARTED_LIMIT_S, Bed, Rig, rigged
from wakeful.processors.live import PARKED_MAX

WINDOW = 64
SETTLE_S = 2.0
IDLE_S = 10.0
RESUMED = 50
EVICTING = 1.5
"""So many times what all partitions keep: each has its share, whatever sessions hash to."""

EACH = 5
"""Sessions per length of history, of which the median counts."""


def measure(bed: Bed, *, sessions: int) -> None:
    """Memory by process, per thousand parked sessions."""
    with rigged(bed, "parked") as rig:
        rig.driver.run(Load(WINDOW, WINDOW))
        steps = [memory(rig)]
        runs = []
        for _ in range(2):
            runs.append(rig.driver.run(Load(sessions, WINDOW, approve=False)))
            steps.append(memory(rig))
        meter = Meter(rig.parts())
        time.sleep(IDLE_S)
        idle = meter.spent_s()
        del idle["driver"]  # it sleeps, and is not of ours
        emit(rig, runs, steps, idle, sessions=sessions)


def memory(rig: Rig) -> dict[str, float]:
    """MB by part, once all is at rest."""
    time.sleep(SETTLE_S)
    return {name: pss_mb(pids) for name, pids in rig.parts().items()}


def emit(
    rig: Rig,
    runs: Sequence[Run],
    steps: Sequence[dict[str, float]],
    idle: dict[str, float],
    *,
    sessions: int,
) -> None:
    """The line, with approvals out of the parked."""
    thousand = 1000 / sessions
    base, first, second = steps
    count = min(RESUMED, sessions // 2)
    newest = resumed_ms(rig, runs[1], list(runs[1].parked)[-count:])
    kept = PARKED_MAX * rig.settings.partitions
    on_disk = 2 * sessions >= EVICTING * kept
    oldest = resumed_ms(rig, runs[0], list(runs[0].parked)[:count]) if on_disk else []
    rig.emit(
        "parked",
        sessions=2 * sessions,
        kept_in_memory=kept,
        **{f"mb_base_{name}": round(value, 1) for name, value in base.items()},
        **{
            f"mb_per_1000_first_{name}": round((first[name] - base[name]) * thousand, 1)
            for name in base
        },
        **{
            f"mb_per_1000_more_{name}": round((second[name] - first[name]) * thousand, 1)
            for name in base
        },
        idle_cpu_cores=round(sum(idle.values()) / IDLE_S, 3),
        **{f"idle_cpu_cores_{name}": round(value / IDLE_S, 3) for name, value in idle.items()},
        resume_ms_p50=percentile(newest, 0.5),
        resume_ms_p99=percentile(newest, 0.99),
        resume_from_disk_ms_p50=percentile(oldest, 0.5),
        resume_from_disk_ms_p99=percentile(oldest, 0.99),
        disk_to_memory=ratio(percentile(oldest, 0.5), percentile(newest, 0.5)),
    )


def resumed_ms(rig: Rig, run: Run, sessions: Sequence[str]) -> list[float]:
    """From the approval to the next step, one session at a time."""
    return [rig.driver.resume(run, session) for session in sessions]


def measure_next_step(bed: Bed, *, histories: Sequence[int], reps: int) -> None:
    """Warm, from disk, and after the death of all of ours, by length of history."""
    with rigged(bed, "next-step") as rig:
        rig.driver.run(Load(WINDOW, WINDOW))
        for rep in range(reps):
            aside = {h: park(rig, h, EACH) for h in histories}
            evict(rig)
            for history, run in aside.items():
                from_disk = resumed_ms(rig, run, list(run.parked))
                warm_run = park(rig, history, EACH)
                warm = resumed_ms(rig, warm_run, list(warm_run.parked))
                emit_next_step(rig, history, rep=rep, warm=warm, from_disk=from_disk)


def park(rig: Rig, history: int, sessions: int) -> Run:
    """Sessions that have done `history` steps and wait."""
    run = rig.driver.run(Load(sessions, sessions, before=history, approve=False))
    time.sleep(SETTLE_S / 10)
    return run


def evict(rig: Rig) -> None:
    """Parks so many others that none of those before is in memory."""
    others = round(EVICTING * PARKED_MAX * rig.settings.partitions)
    rig.driver.run(Load(others, WINDOW, before=0, approve=False))


def emit_next_step(
    rig: Rig, history: int, *, rep: int, warm: list[float], from_disk: list[float]
) -> None:
    """The line of one length of history."""
    dead_s, restart_s = after_death_s(rig, history)
    warm_ms, disk_ms = median(warm), median(from_disk)
    rig.emit(
        "next_step",
        rep=rep,
        history=history,
        warm_next_step_ms=warm_ms,
        from_disk_next_step_ms=disk_ms,
        cold_next_step_s=round(restart_s, 3),
        cold_since_kill_s=round(dead_s, 3),
        disk_to_warm=ratio(disk_ms, warm_ms),
        cold_to_warm=ratio(restart_s * 1000, warm_ms),
    )


def after_death_s(rig: Rig, history: int) -> tuple[float, float]:
    """All of ours is killed and the approval sent at once: seconds to the next step from the kill, and from the restart."""
    run = park(rig, history, 1)
    at_ns, gone = rig.kill(rig.running.names)
    rig.driver.approve(run, run.sessions)
    rig.driver.until(run, lambda: rig.restarted(gone), "all processes run", STARTED_LIMIT_S)
    pids = rig.running.pids()
    # a spare was started before the kill, so for it the restart is the kill
    back_s = max(0, min(started_ns(pids[name]) for name in gone) - at_ns) / 1e9
    rig.driver.until(run, lambda: bool(run.done), "the session is done")
    dead_s = moved_again_s(run.look(), at_ns)[run.sessions[0]]
    return dead_s, dead_s - back_s
