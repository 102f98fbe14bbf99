"""Attempts as a worker of the simulation has them: which were started, those on their way, and how their steps are played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...events.log.protocol import Place
from ...events.records import ActivityTask
from ..activities.attempt import Ask, Came, LookUp, Run, Step, Steps
from ..activities.beats import Beats
from ..activities.core import WorkerCore
from ..activities.emitting import Emission
from ..activities.inside import INSIDE, Inside
from ..activities.jobs import Job
from ..activities.tokens import NO_TOKENS
from .actors import DIGEST_KEY
from .downstream import TooSlow
from .tools import CRUNCH_MS, SILENT, STUCK_MS


@dataclass(frozen=True, slots=True)
class Start:
    """An attempt that was started, when, and how far the commands topic went when its partition was taken over."""

    command_id: str
    idempotency_key: str
    task: ActivityTask
    worker: str
    known: dict[Place, int]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Believed:
    """A result that a worker found when it looked tasks up, and how far the commands topic went by then."""

    command_id: str
    worker: str
    known: dict[Place, int]


def watched(
    core: WorkerCore,
    note: Callable[[set[str]], None],
    now_ms: Callable[[], int],
    hasty: list[str],
) -> None:
    """Tells which results this core finds, each time that it looks, and what it takes for over too early."""
    _note_believed(core, note)
    _note_hasty(core, now_ms, hasty)


def _note_believed(core: WorkerCore, note: Callable[[set[str]], None]) -> None:
    settled = core._settled  # noqa: SLF001 nobody else needs to know what a worker has looked up
    find = settled.found_among

    def found_among(asked: set[str], since_ms: int) -> set[str]:
        found = find(asked, since_ms)
        if found:
            note(found)
        return found

    settled.found_among = found_among  # type: ignore[method-assign]


def _note_hasty(core: WorkerCore, now_ms: Callable[[], int], hasty: list[str]) -> None:
    """Tells which attempts this core takes for past their deadline, and by the log's clock they are not."""
    is_over = core.is_over

    def noted(job: Job) -> bool:
        over = is_over(job)
        if over and not job.is_lost and job.task.deadline_ms > now_ms():
            hasty.append(job.command_id)
        return over

    core.is_over = noted  # type: ignore[method-assign]


@dataclass(slots=True)
class Running:
    """An attempt, and its next step; what its last one gave is known, and is told at `ready_ms`."""

    job: Job
    steps: Steps
    step: Step
    ready_ms: int
    begun_ms: int = 0
    body_until_ms: int = 0
    beats: Beats | None = None
    silent: bool = False

    def close(self, *, completed: bool) -> None:
        """Its body has ended, or counts for nothing any more."""
        if self.beats is not None:
            self.beats.close(completed=completed)


def lasts_ms(step: Run | LookUp | Ask) -> int:
    """How long this call takes."""
    if not isinstance(step, Run):
        return 0
    match step.call.task.name, step.call.arguments.get("mood"):
        case "stuck", _:
            return STUCK_MS
        case "crunch", mood if mood == SILENT:
            return STUCK_MS
        case "crunch", _:
            return CRUNCH_MS
        case _:
            return 0


def played(step: Run | LookUp | Ask, beats: Beats | None) -> tuple[Came, str]:
    """Runs the function to its end, and says what came of it; those of the simulation never wait."""
    call, words = step.call, step.words
    coroutine: Any = call.start()
    token = None
    if beats is not None:
        emission = Emission(beats.task, NO_TOKENS, lambda: beats.hidden)
        token = INSIDE.set(Inside(beats, DIGEST_KEY, emission))
    try:
        coroutine.send(None)
    except StopIteration as returned:
        return words.completed(call, returned.value), "returned"
    except TooSlow:
        return words.timed_out(call.task), "timed out"
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure
        return words.failed(call.task, error), f"raised {type(error).__name__}"
    finally:
        if token is not None:
            INSIDE.reset(token)
    raise RuntimeError(f"{call.name} waits: those of the simulation do not")
