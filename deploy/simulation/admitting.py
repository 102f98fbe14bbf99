"""Mistakes in the checks before a command is let in, whatever it is about; the audit has what must hold of it."""

from __future__ import annotations

from ...commands import check as checking
from ...commands import decide as deciding
from ...events import records as r
from ...events.state import State
from ...processors import handler as sessions
from .planting import Mutant, plant


def _all_but_proposals(state: State, told: str) -> list[r.EventBody]:
    """Whoever decides one later is let in."""
    found = _withdrawals(state, told)
    return [body for body in found if not isinstance(body, r.ApprovalWithdrawn)]


_withdrawals = deciding.withdrawals


ADMISSION_MUTANTS: tuple[Mutant, ...] = (
    Mutant("knows every session", plant((sessions, "check_unknown", lambda *_: None))),
    Mutant(
        "lets commands in that are older than its memory",
        plant((checking, "check_age", lambda *_: None), (deciding, "check_age", lambda *_: None)),
        seed=16,
    ),
    Mutant("expects no version", plant((checking, "_expected_seq", lambda *_: None)), seed=5),
    Mutant("lets ended sessions go on", plant((checking, "_ended", lambda *_: None))),
    Mutant(
        "leaves proposals open behind it",
        plant((deciding, "withdrawals", _all_but_proposals)),
        seed=90,
    ),
)
