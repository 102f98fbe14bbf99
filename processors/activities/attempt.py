"""Who may run and who must look first: one attempt under its contract, as steps that somebody else carries out. Pure.

| contract | fresh | not fresh | the call raised or timed out |
|---|---|---|---|
| read, write_idempotent | run | run | told as it is |
| write_lookup | run | wait, look up, run where nothing is found | wait, look up, told where nothing is found |
| write_undo, write_once | run | never comes: see `core.py` | told as it is; the processor calls it uncertain |

A call that failed for certain (`NothingDone`, a type in `Retry.never`) is told as it is under every contract. A look-up
that fails is told as `look_up_failed`, and no call follows in this attempt. The limit of start-to-close counts for each
call and each look-up, and not for the waits between them.

Before each function that takes credentials the provider is asked, as a step of its own: nothing has begun. Where it gives
none, `no_credentials` is said, since nothing ran; where an earlier call may hide behind that, `look_up_failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from ...commands.models import FailActivity, ReturnActivity
from ...events.contracts import IDEMPOTENT, LOOKUP, ONCE, READ
from ...events.errors import Corrupt
from ...events.failures import (
    AUTHORITY_STALE,
    CUT_OFF,
    NOT_WANTED,
    RAISED,
    RESOURCE_LOST,
    STOPPED,
    TAKEN_OVER,
    TIMED_OUT,
    WORKER_STOPS,
)
from ...events.records import ActivityTask, Failure
from .contracts import Write
from .definitions import CREDENTIALS
from .jobs import Job
from .look_ups import LookUps
from .providing import Given, Providing
from .runner import Body, Call, Runner, Said
from .telling import Hang

"""Why a worker returns an attempt that it has not begun."""

UNCLEAR = frozenset({RAISED, TIMED_OUT, RESOURCE_LOST})
"""Failures of a call that leave open whether it was carried out."""


@dataclass(frozen=True, slots=True)
class Wait:
    """So long, on a clock that does not jump."""

    ms: int


@dataclass(frozen=True, slots=True)
class Run:
    """The activity's own function; from here on the attempt has begun."""

    call: Call
    words: Runner


@dataclass(frozen=True, slots=True)
class LookUp:
    """Its look-up; nothing is changed by it."""

    call: Call
    words: LookUps


@dataclass(frozen=True, slots=True)
class Ask:
    """The provider, for the credentials of the step `before` which it comes; nothing of the activity runs."""

    call: Call
    words: Providing
    before: type[Run | LookUp]


@dataclass(frozen=True, slots=True)
class Say:
    """The last step: what is to be reported. None where it came too late, and the log's clock has said it already."""

    body: Body | None


Step = Wait | Ask | Run | LookUp | Say

Came = Body | Given | None

Steps = Generator[Step, Came, None]
"""Takes what came of each step: what `step.words` said of its call, None after a wait."""


def steps_of(
    runner: Runner,
    task: ActivityTask,
    *,
    fresh: bool,
    waited_ms: int,
    is_over: Callable[[], bool],
) -> Steps:
    """The steps of one attempt; the last is `Say`. It may be left at any of them, and then says nothing.

    `waited_ms` is how long ago this worker took the task. `is_over` tells whether nobody waits for it any more, and is
    asked before each call under a contract that minds a repeat.
    """
    runner = runner.apart()
    looked_up, look_ups = task.contract == LOOKUP, LookUps(runner)
    minds_repeat = looked_up or task.contract in ONCE
    if minds_repeat and is_over():
        yield Say(None)
        return
    call = runner.prepare(task)
    if isinstance(call, FailActivity):
        unseen = looked_up and not fresh  # an earlier attempt, by other code, may have called it
        yield Say(look_ups.unseen(task, call.failure) if unseen else call)
        return
    if looked_up and not fresh:
        found = yield from _look(runner, call, _settle_ms(call) - waited_ms)
        if found is not None:
            yield Say(found)
            return
        if is_over():
            yield Say(None)
            return
    ready: Call | FailActivity = call
    if call.activity.takes_credentials:
        ready = yield from _equipped(runner, call, writes=_writes(call), before=Run)
        if isinstance(ready, Call) and minds_repeat and is_over():
            yield Say(None)
            return
    if isinstance(ready, FailActivity):
        yield Say(ready)
        return
    body = _body(Run, (yield Run(ready, runner)))
    if looked_up and isinstance(body, FailActivity) and not _is_certain(body.failure, call):
        found = yield from _look(runner, call, _settle_ms(call))
        if isinstance(found, FailActivity):
            found = look_ups.unseen(task, found.failure, before=body.failure)
        body = body if found is None else found
    yield Say(body)


def hung(
    runner: Runner, task: ActivityTask, hang: Hang, *, fresh: bool, begun: bool
) -> FailActivity:
    """What is said of an attempt that nothing can stop: what is to be looked up, its worker no longer can.

    One that has not begun hangs in the provider of its credentials, or else in the look-up of what may have run before.
    """
    if not begun and (fresh or task.contract != LOOKUP):
        return Providing(runner).hung(task, hang)
    body = runner.hung(task, hang)
    return LookUps(runner).unseen(task, body.failure) if task.contract == LOOKUP else body


def fenced(runner: Runner, task: ActivityTask) -> FailActivity:
    """What is said of an attempt whose worker does not know whether it is still its own; the same for a look-up."""
    body = runner.fenced(task)
    return LookUps(runner).unseen(task, body.failure) if task.contract == LOOKUP else body


def let_go(task: ActivityTask, *, begun: bool, worker: str) -> ReturnActivity | FailActivity | None:
    """What a worker says of an attempt that it does not carry out, or not to the end.

    None where its task is delivered again all the same: that of a contract which minds no repeat, or looks first.
    """
    if task.contract not in ONCE:
        return None
    if not begun:
        return ReturnActivity(task.activity_id, task.attempt, WORKER_STOPS, worker)
    told = f"the worker of {task.name} stopped and cut the call off: nobody knows whether it was carried out"
    return FailActivity(task.activity_id, task.attempt, Failure(CUT_OFF, "", told, ""), worker)


def unwanted(job: Job, worker: str) -> Said | None:
    """What a worker says of an attempt that nobody waits for, and that has no result: its effect may be taken back.

    Of a read that makes no difference.
    """
    task = job.task
    if task.contract == READ:
        return None
    if not job.begun and job.fresh:
        return ReturnActivity(task.activity_id, task.attempt, NOT_WANTED, worker)
    told = f"{task.name} was stopped, since nobody waits for it any more: it may have done something before"
    return FailActivity(task.activity_id, task.attempt, Failure(STOPPED, "", told, ""), worker)


def outdated(job: Job, worker: str) -> ReturnActivity:
    """What a worker says of an attempt whose authority has aged before it began it (`standing.py`).

    An idempotent write whose task lay in the log before may have been begun by the worker that had it then. Other writes
    are looked up first, or are handed out once.
    """
    task = job.task
    taken_over = job.seen_ms is not None and task.contract == IDEMPOTENT
    reason = TAKEN_OVER if taken_over else AUTHORITY_STALE
    return ReturnActivity(task.activity_id, task.attempt, reason, worker)


def _look(runner: Runner, call: Call, wait_ms: int) -> Generator[Step, Came, Body | None]:
    """What was found, None where nothing was, or that the look-up failed."""
    look_ups = LookUps(runner)
    look_up = look_ups.prepare(call)
    if isinstance(look_up, FailActivity):
        return look_up
    if wait_ms > 0:
        yield Wait(wait_ms)
    if call.activity.look_up is not None and call.activity.look_up.takes_credentials:
        look_up = yield from _equipped(runner, look_up, writes=False, before=LookUp)
        if isinstance(look_up, FailActivity):
            return look_ups.unseen(call.task, look_up.failure)
    return _body(LookUp, (yield LookUp(look_up, look_ups)))


def _equipped(
    runner: Runner, call: Call, *, writes: bool, before: type[Run | LookUp]
) -> Generator[Step, Came, Call | FailActivity]:
    """The call with its credentials, or that there are none."""
    providing = Providing(runner)
    asking = providing.prepare(call, writes=writes)
    if isinstance(asking, FailActivity):
        return asking
    came = yield Ask(asking, providing, before)
    if isinstance(came, Given):
        return replace(call, arguments={**call.arguments, CREDENTIALS: came.credentials})
    if isinstance(came, FailActivity):
        return came
    raise Corrupt(f"asked for credentials, the step of {call.name} came to {type(came).__name__}")


def _writes(call: Call) -> bool:
    """Only what is a write by its request and by the loaded code: a deploy gives no read the means to write."""
    return call.task.contract != READ and isinstance(call.activity.contract, Write)


def _body(step: type[Run | LookUp], came: Came) -> Body | None:
    if isinstance(came, Given):
        raise Corrupt(f"a {step.__name__} came to credentials, expected what is to be said of it")
    return came


def _settle_ms(call: Call) -> int:
    """As it was recorded with the request."""
    recorded = call.task.settle_ms
    return (call.activity.settle_ms or 0) if recorded is None else recorded


def _is_certain(failure: Failure, call: Call) -> bool:
    """Whether this failure says that nothing was done, or that the call itself came to its end."""
    if failure.kind not in UNCLEAR:
        return True
    never = call.activity.retry.never
    return failure.type in never or failure.type.rpartition(".")[2] in never
