"""What must hold of commands that were let in, whatever they are about; and mistakes in the checks before that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...commands import check as checking
from ...commands import decide as deciding
from ...commands import models as m
from ...events import records as r
from ...events.records import Event
from ...events.state import State
from ...processors import handler as sessions
from .planting import Mutant, plant

NO_CONSENT = (r.CommandRefused, r.CommandParked, r.SessionWaiting)
"""What a command may lead to without being let in."""


def versions_are_current(
    events: Sequence[Event], commands: Mapping[tuple[int, int], m.Command]
) -> Iterator[str]:
    """I7: a command that expects a version of the session meets that one, or is refused."""
    seen: set[tuple[int, int]] = set()
    for event in events:
        envelope = event.envelope
        spot = envelope.cause.partition, envelope.cause.offset
        # What the clock owes comes before the command that came by, and remembers nothing of it.
        if spot in seen or envelope.cause.command_hash is None or spot not in commands:
            continue
        seen.add(spot)
        expected = commands[spot].header.expected_seq
        if isinstance(event.body, NO_CONSENT) or expected in (None, envelope.seq - 1):
            continue
        yield f"{envelope.session_id} seq {envelope.seq} comes of a command that expected version {expected}"


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
