"""Planted mistakes about authority at each attempt: see `mutants.py`."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ...commands import decide as deciding
from ...commands import decisions
from ...commands.policy import Ruling
from ...events import evolve_activities as activities
from ...events import records as r
from ...events.log.protocol import LogFault
from ...events.replacing import replace
from ...events.state import OpenActivity, State
from ...processors import effects, gate, handler, session
from ...processors.activities.standing import Standing
from ...processors.proposals import OpenProposals
from .planting import Mutant, plant

_ATTEMPT, _TASK_OF, _DELIVERABLE = gate._Gate.attempt, effects.task_of, deciding.deliverable
_LOOK, _READ = Standing._look, Standing._read
_LET_GO, _REQUESTED = gate._Gate._let_go, activities._requested
_EXECUTING, _WITHHOLD = gate._Gate._executing, gate._Gate._withhold


def _lets_all_go(session: Any, app: Any, facts: Any, now_ms: int, body: r.EventBody) -> gate.Looked:
    """It never looks."""
    del session, app, facts, now_ms
    return body, []


def _asks_nobody(self: gate._Gate, body: gate.Attempt) -> gate.Looked:
    """Withheld, and that is all."""
    return _ATTEMPT(self, body)[0], []


def _only_the_first(self: gate._Gate, body: gate.Attempt) -> gate.Looked:
    """Authority is looked at when the activity is asked for, and never again."""
    return _ATTEMPT(self, body) if isinstance(body, r.ActivityRequested) else (body, [])


def _sends_it_all_the_same(event: r.Event, requested: r.Event | None, state: State | None) -> Any:
    """What is withheld is recorded as withheld, and its task goes out."""
    body: Any = event.body
    if getattr(body, "withheld_ms", None) is not None:
        event = r.Event(event.envelope, replace(body, withheld_ms=None))
    return _TASK_OF(event, requested, state)


def _says_no_set_of_the_exempt(
    self: gate._Gate, body: Any, known: OpenActivity | None, ruling: Any
) -> Any:
    """What nobody has to approve is let go as if there were no policy."""
    grant = self._grant(body, known)
    return _LET_GO(self, body, known, ruling if grant is not None else None)


def _lets_the_exempt_lie(
    event: r.Event, requested: r.Event | None, state: State | None
) -> r.ActivityTask | None:
    """The worker of what nobody has to approve is not told of any policy."""
    task = _TASK_OF(event, requested, state)
    return replace(task, control_offset=None) if task and task.start_by_ms is None else task


def _forgets_the_approved(state: State) -> r.EventBody | None:
    """An approval that policy asked for leads to nothing."""
    owed = _DELIVERABLE(state)
    return None if isinstance(owed, r.ActivityRetried) else owed


def _taken_for_running(state: State, body: r.ActivityRequested) -> State:
    """Its clock runs, and its session does not wait."""
    return _REQUESTED(state, replace(body, withheld_ms=None))


def _gives_no_time_back(
    self: gate._Gate, body: Any, known: OpenActivity | None, ruling: Any
) -> Any:
    """Approved, it has the deadline that passed while people thought."""
    gone: Any = _LET_GO(self, body, known, ruling)
    return replace(gone, deadline_ms=None) if isinstance(gone, r.ActivityRetried) else gone


def _keeps_old_versions(self: OpenProposals, versions: Any) -> Any:
    """It asks again about what is no longer so."""
    del self
    return versions


def _waits_for_nobody(self: gate._Gate, body: Any, known: Any, ruling: Ruling) -> Any:
    """It is withheld for an approval that nobody is asked for."""
    return _WITHHOLD(self, body, known, replace(ruling, final=False))


def _hopes(self: gate._Gate, request: Any, grant: Any) -> Ruling:
    """It takes no denial for the last word: people are asked for ever."""
    return replace(_EXECUTING(self, request, grant), final=False)


def _despairs(self: gate._Gate, request: Any, grant: Any) -> Ruling:
    """It takes every denial for the last word."""
    ruling = _EXECUTING(self, request, grant)
    return replace(ruling, final=not ruling.allowed)


def _reads_once(self: Standing) -> None:
    """What was read counts for good."""
    if self._reader is None:
        _LOOK(self)
    else:
        self._wanted, self._known_at = False, self._monotonic()


def _takes_silence_for_news(self: Standing) -> None:
    """What could not be read has said nothing new."""
    with suppress(LogFault):
        _READ(self)


GATE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "forgets that an attempt that failed may have been carried out",
        plant((activities, "perhaps_done", lambda *_: False)),
        seed=262,
    ),
    Mutant("looks at no attempt", plant((handler, "look", _lets_all_go)), seed=9),
    Mutant(
        "looks at first attempts alone", plant((gate._Gate, "attempt", _only_the_first)), seed=26
    ),
    Mutant("withholds and asks nobody", plant((gate._Gate, "attempt", _asks_nobody)), seed=9),
    Mutant(
        "dispatches what is withheld", plant((handler, "task_of", _sends_it_all_the_same)), seed=9
    ),
    Mutant(
        "forgets who was approved", plant((session, "deliverable", _forgets_the_approved)), seed=4
    ),
    Mutant("lets the withheld run", plant((activities, "_requested", _taken_for_running)), seed=9),
    Mutant("gives no time back", plant((gate._Gate, "_let_go", _gives_no_time_back)), seed=4),
    Mutant(
        "lets a grant outlive its data", plant((gate._Gate, "_drift", lambda *_: ("", ()))), seed=90
    ),
    Mutant(
        "lets a grant outlive its giver",
        plant((gate._Gate, "_no_longer", lambda *_: iter(()))),
        seed=241,
    ),
    Mutant(
        "decides what others were shown", plant((decisions, "has_aged", lambda *_: False)), seed=4
    ),
    Mutant(
        "knows no taint",
        plant((activities, "_tainted_by", lambda state, *_: state.tainted_by)),
        seed=95,
    ),
    Mutant(
        "asks about what was so", plant((OpenProposals, "_current", _keeps_old_versions)), seed=6390
    ),
    Mutant(
        "calls what nobody approved uncertain",
        plant(
            (
                deciding,
                "unapproved",
                lambda a: r.ActivityUncertain(
                    a.activity_id, a.attempt, r.Failure("unapproved", "", "", ""), ""
                ),
            )
        ),
        seed=9,
    ),
    Mutant(
        "asks about what nobody can allow",
        plant((gate._Gate, "_executing", _hopes)),
        seed=95,
    ),
    Mutant("gives up at any denial", plant((gate._Gate, "_executing", _despairs)), seed=9),
    Mutant(
        "asks nobody and waits",
        plant((gate._Gate, "_withhold", _waits_for_nobody)),
        seed=95,
    ),
    Mutant(
        "says no set of what is exempt",
        plant((gate._Gate, "_let_go", _says_no_set_of_the_exempt)),
        seed=9,
    ),
    Mutant(
        "lets what is exempt lie and begin by any set",
        plant((handler, "task_of", _lets_the_exempt_lie)),
        seed=9,
    ),
    Mutant("begins whatever was let go", plant((Standing, "check", lambda *_: None)), seed=9),
    Mutant("begins it however late", plant((Standing, "_newest_ms", lambda *_: 0)), seed=47),
    Mutant("reads policy once for its attempts", plant((Standing, "_look", _reads_once)), seed=267),
    Mutant(
        "takes silence for no new policy",
        plant((Standing, "_read", _takes_silence_for_news)),
        seed=370,
    ),
)
