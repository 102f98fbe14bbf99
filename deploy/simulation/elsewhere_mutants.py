"""Planted mistakes about jobs that others do, and about what sessions are found by: see `mutants.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ...commands import decide as deciding
from ...commands import jobs as completing
from ...commands import models as m
from ...events import attributes as finding
from ...events import evolve_jobs
from ...events import records as r
from ...events.replacing import replace as replaced
from ...events.state import State
from ...processors import handler as sessions
from ...processors.workflow import advance as advancing
from ...processors.workflow.choosing import Position
from ...processors.workflow.stepping import TurnContext
from ...projections import attributes as projecting
from .planting import Mutant, plant

_CONTEXT, _TERMS = advancing.context_of, finding.terms


def _knows_what_comes(position: Position, facts: Any) -> TurnContext:
    """A replay is told the attributes that the session has by now."""
    return replace(_CONTEXT(position, facts), attributes=position.state.attributes)


def _one_at_a_time(
    attributes: Iterable[r.Attribute], of: Iterable[str]
) -> Iterator[tuple[str, str | None]]:
    """No pair is a term."""
    return (one for one in _TERMS(attributes, of) if "&" not in one[0])


def _forgets_nothing(
    attributes: Iterable[r.Attribute], of: Iterable[str]
) -> Iterator[tuple[str, str | None]]:
    """What is gone is found all the same."""
    return (one for one in _TERMS(attributes, of) if one[1] is not None)


_DUE, _WHY_NOT, _COMPLETED = deciding.due, completing.why_not, completing.completed
_WITHDRAWALS, _EVOLVE = deciding.withdrawals, evolve_jobs.evolve


def _never_expires(state: State, now_ms: int, **more: Any) -> r.EventBody | None:
    """Nobody looks at the clock for a job."""
    return _DUE(replaced(state, jobs=()), now_ms, **more)


def _takes_it_again(state: State, body: m.CompleteJob) -> tuple[str, str, str] | None:
    """Whoever names a job that was awaited once is believed."""
    refusal = _WHY_NOT(state, body)
    past = any(job.job_id == body.job_id for job in state.past_jobs)
    return None if past and body.result is not None else refusal


def _ends_again(state: State, status: str, body: Any, actor: str) -> State:
    """A fold that takes it as it comes."""
    open_ = any(job.job_id == body.job_id for job in state.jobs)
    return _EVOLVE(state, status, body, actor) if open_ or isinstance(body, r.JobAwaited) else state


def _all_but_jobs(state: State, told: str) -> list[r.EventBody]:
    """Jobs outlive whoever waits for them."""
    return _WITHDRAWALS(replaced(state, jobs=()), told)


def _the_oldest(state: State, body: m.CompleteJob) -> tuple[str, str, str] | None:
    """Whatever job is meant, as long as one is awaited."""
    return None if state.jobs and body.result is not None else _WHY_NOT(state, body)


def _of_the_oldest(
    state: State, command: m.Command, proposals: Any, now_ms: int
) -> list[r.EventBody]:
    """And that one is done."""
    body = command.body
    if isinstance(body, m.CompleteJob) and body.result is not None:
        return [r.JobCompleted(state.jobs[0].job_id, body.result)]
    return _EXTERNAL(state, command, proposals, now_ms)


_EXTERNAL = deciding._external  # noqa: SLF001 - a mistake goes where it would be made


def _calls_it_what_it_will(body: m.CompleteJob) -> r.JobCompleted | r.JobFailed:
    """A failure is of the kind that its sender calls it."""
    failed = body.failure
    return _COMPLETED(body) if failed is None else r.JobFailed(body.job_id, failed)


ELSEWHERE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "lets no job expire",
        plant((deciding, "due", _never_expires), (sessions, "due", _never_expires)),
        seed=82,
    ),
    Mutant(
        "completes a job twice",
        plant((completing, "why_not", _takes_it_again), (evolve_jobs, "evolve", _ends_again)),
        seed=82,
    ),
    Mutant("lets a job outlive its turn", plant((deciding, "withdrawals", _all_but_jobs)), seed=78),
    Mutant(
        "completes one job for another",
        plant((completing, "why_not", _the_oldest), (deciding, "_external", _of_the_oldest)),
        seed=37,
    ),
    Mutant(
        "lets whoever fails a job say what kind of failure it is",
        plant((completing, "completed", _calls_it_what_it_will)),
        seed=35,
    ),
    Mutant(
        "tells a replay what the session is found by now",
        plant((advancing, "context_of", _knows_what_comes)),
        seed=37,
    ),
    Mutant("finds by one attribute alone", plant((projecting, "terms", _one_at_a_time)), seed=37),
    Mutant("finds by what was taken back", plant((projecting, "terms", _forgets_nothing)), seed=37),
)
