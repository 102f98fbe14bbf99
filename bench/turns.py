"""What a durable step costs, everything included: broker, engine, worker, projector, database, driver.

throughput: N sessions of 10 steps, approval, 2 steps, at most WINDOW open at once, approved as soon as they ask.
latency: 20 sessions, one at a time; approval 300 ms after they ask.
Default partition counts; the fields are those of the peers' measures.
"""

from bench.driver import BEFORE, STEPS, Load
from bench.measure import Meter, approvals_ms, percentile, transitions_ms
from bench.rig import Rig

SETTLE_S = 0.3
ONE_BY_ONE = 20


def warm_up(rig: Rig, sessions: int) -> None:
    """Lets all processes come up, and the JVM compile."""
    rig.driver.run(Load(sessions, sessions))


def throughput(rig: Rig, *, sessions: int, window: int, **fields: object) -> None:
    """Steps per second and CPU per step, by process."""
    meter = Meter(rig.parts())
    run = rig.driver.run(Load(sessions, window))
    follow_ms = rig.views_follow_ms()
    steps = sessions * STEPS
    cpu = meter.per_step(steps)
    between = transitions_ms(run.effects, BEFORE)
    elapsed_s = run.ended_s - run.began_s
    rig.emit(
        "throughput",
        **fields,
        sessions=sessions,
        window=window,
        steps_per_s=round(steps / elapsed_s, 1),
        elapsed_s=round(elapsed_s, 2),
        **cpu,
        step_ms_p50=percentile(between, 0.5),
        step_ms_p99=percentile(between, 0.99),
        executions=len(run.effects),
        views_follow_ms=round(follow_ms, 1),
    )


def latency(rig: Rig, *, sessions: int = ONE_BY_ONE, **fields: object) -> None:
    """Step to step and decision to step, one session at a time."""
    run = rig.driver.run(Load(sessions, 1, settle_s=SETTLE_S))
    between = transitions_ms(run.effects, BEFORE)
    approvals = approvals_ms(run.effects, run.signalled, BEFORE)
    rig.emit(
        "latency",
        **fields,
        sessions=sessions,
        step_ms_p50=percentile(between, 0.5),
        step_ms_p99=percentile(between, 0.99),
        n=len(between),
        approval_ms_p50=percentile(approvals, 0.5),
        approval_ms_p99=percentile(approvals, 0.99),
    )
