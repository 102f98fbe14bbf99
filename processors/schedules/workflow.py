"""The built-in workflow of schedules: one turn that never ends by itself, and sleeps between its stretches.

When a run is due is reckoned once, in the activation that ends a stretch, and kept in the state that the stretch leaves: so a
replay reads it, also under other rules for time zones. A run is a fact of this session, and the command that sets it to work
lies in the same transaction: it goes out once, whatever crashes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from ...events.attributes import attributes_of
from ...events.verdicts import QUEUE, REFUSE, SKIP
from ..workflow.definitions import Message, Workflow, workflow
from ..workflow.errors import WrongSignal
from ..workflow.runs import Run, start_run
from ..workflow.turn import Turn
from .spec import (
    BY_NAME,
    CAUGHT_UP_MAX,
    CONTROL,
    DUE,
    NEXT,
    PAUSED,
    SCHEDULED_BY,
    TRIGGER,
    WORKFLOW,
    BadSpec,
    Control,
    Spec,
    first_due,
    read_spec,
)
from .times import last_up_to, moment, to_ms

LATE_MS = 60_000
"""How late a schedule may come to a time that is not missed: so long a restart may take."""


class Schedule(BaseModel):
    """Where a schedule stands: `due_ms` is when it runs next, null while it is paused; `runs` counts those that were due."""

    spec: Spec | None = None
    due_ms: int | None = None
    runs: int = 0


@workflow(WORKFLOW, version=1)
async def schedule(turn: Turn, state: Schedule, message: Message) -> Schedule:
    """One stretch: what it is, or the next thing that happens to it."""
    now_ms = to_ms(turn.now())
    if state.spec is None:
        return await _begin(turn, message, now_ms)
    spec = state.spec
    try:
        said = await _next(turn, state.due_ms, now_ms)
    except WrongSignal as wrong:
        await turn.say(f"{wrong}: send pause, resume or trigger")
        return turn.again(state)
    now_ms = to_ms(turn.now())
    if said is None:
        state.runs += await _run_due(turn, spec, state.due_ms or now_ms, now_ms)
    elif said.do == "trigger":
        await _run(turn, spec, None, now_ms)
        return turn.again(state)
    elif said.do == "pause":
        await turn.attributes({NEXT: None, PAUSED: True})
        return turn.again(Schedule(spec=spec, runs=state.runs))
    return await _until_next(turn, spec, state.runs, now_ms)


async def _begin(turn: Turn, message: Message, now_ms: int) -> Schedule:
    """Looks at what it was opened with. What cannot be ends it, and says why."""
    try:
        spec = read_spec(message.data, now_ms)
    except BadSpec as wrong:
        await turn.say(f"no schedule: {wrong}")
        await turn.complete({"refused": str(wrong)})
        return Schedule()
    await turn.attributes(
        {
            BY_NAME: spec.name,
            "cron": spec.cron,
            "timezone": spec.timezone,
            "target": spec.workflow,
            "session": spec.session,
            "until": spec.until,
        }
    )
    return await _until_next(turn, spec, 0, now_ms)


async def _next(turn: Turn, due_ms: int | None, now_ms: int) -> Control | None:
    """What it is told, or nothing where its time has come. What came before that time is heard first."""
    told = turn.signal(CONTROL, Control)
    if due_ms is None:
        return await told
    won = await turn.first(told, turn.sleep(max(0, due_ms - now_ms) / 1_000))
    return won.value


async def _until_next(turn: Turn, spec: Spec, runs: int, now_ms: int) -> Schedule:
    """Reckons when it is due next, for good; a schedule that is never due again has ended."""
    due_ms = first_due(spec, now_ms)
    if due_ms is None:
        await turn.attributes({NEXT: None, PAUSED: None})
        await turn.complete({"runs": runs})
        return Schedule(spec=spec, runs=runs)
    await turn.attributes({NEXT: moment(due_ms), PAUSED: False})
    return turn.again(Schedule(spec=spec, due_ms=due_ms, runs=runs))


async def _run_due(turn: Turn, spec: Spec, due_ms: int, now_ms: int) -> int:
    """Runs what is due by now, as far as it is to be caught up on; how many these are."""
    count = CAUGHT_UP_MAX if spec.catch_up == "all" else 1
    until_ms = now_ms if spec.until is None else min(now_ms, to_ms(spec.until))
    due, more = last_up_to(spec.cron, spec.timezone, due_ms, until_ms, count)
    if spec.catch_up == "none" and due and due[-1] < now_ms - LATE_MS:
        due, more = [], True
    for one_ms in due:
        await _run(turn, spec, one_ms, now_ms, queues=len(due) > 1)
    if more:
        await turn.say(_skipped(spec, due_ms, due))
    return len(due)


def _skipped(spec: Spec, due_ms: int, due: Sequence[int]) -> str:
    """What was missed and is not caught up on, in words."""
    until = f" and before {moment(due[0]).isoformat()}" if due else ""
    limit = f", of which {CAUGHT_UP_MAX} are at most" if spec.catch_up == "all" else ""
    return f"skipped what was due from {moment(due_ms).isoformat()} on{until}: catch-up is {spec.catch_up}{limit}"


async def _run(
    turn: Turn, spec: Spec, due_ms: int | None, now_ms: int, *, queues: bool = False
) -> None:
    """Sets the session of one occasion to work: that for a time, or where none is given one that somebody asked for."""
    at = moment(now_ms if due_ms is None else due_ms)
    stamp = f"{at:%Y%m%dT%H%M%SZ}"
    if due_ms is None:
        stamp = f"{at:%Y%m%dT%H%M%S}.{now_ms % 1_000:03}Z-{turn.uuid().hex[:8]}"
    where_open = REFUSE if spec.session is None else QUEUE
    if where_open == QUEUE and due_ms is not None and not queues and spec.overlap != "allow":
        where_open = SKIP
    asked = "" if due_ms is not None else ", triggered"
    found_by = {SCHEDULED_BY: spec.name} | ({} if spec.session else {DUE: at})
    run = Run(
        spec.session or f"{spec.name}-{stamp}",
        spec.workflow,
        f"{spec.name} {at:%Y-%m-%dT%H:%M:%SZ}{asked}",
        where_open,
        attributes_of(found_by),
    )
    await start_run(turn, run, trigger=TRIGGER, data=spec.data)


BUILT_IN: tuple[Workflow[Schedule], ...] = (schedule,)
"""What every processor has loaded besides the app's own workflows."""
