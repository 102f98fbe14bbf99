"""What an operator may do about a session that does not go on: attempts to give up, turns to go back to, a version to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....commands.next_valid import next_valid
from ....commands.recovering import running
from ....commands.repairs import ends_known
from ....events.errors import Transient
from ....events.log.protocol import LogFault
from ....events.state import OpenActivity, State
from ....processors.watchers.stalls import Proposal
from ..problems import Problem
from .visits import Visit

NUMBER_MAX = 9
"""Digits of a number in a form."""


@dataclass(frozen=True, slots=True)
class Mending:
    """What the forms offer; a session of which nothing runs and that does not go on is recovered as a whole.

    `attempts` begins with those that watchers name, so that a form offers these; `seen` is what they say. `turns` are those
    to whose end it can go back, the newest first.
    """

    attempts: tuple[OpenActivity, ...]
    recovers: bool
    pins: bool
    turns: tuple[int, ...]
    seen: tuple[str, ...]


def mending(visit: Visit, session_id: str, state: State | None) -> Mending:
    """As of this state; nothing without one: the command line does it then."""
    if state is None:
        return Mending((), recovers=False, pins=False, turns=(), seen=())
    may = {one.command for one in next_valid(state) if one.allowed}
    proposed = _proposed(visit, session_id) if "RecoverSession" in may else []
    named = {one["activity_id"] for one in proposed}
    return Mending(
        attempts=tuple(sorted(running(state), key=lambda a: a.activity_id not in named)),
        recovers="RecoverSession" in may,
        pins="PinSession" in may,
        turns=tuple(reversed(ends_known(state))) if "ResetSession" in may else (),
        seen=tuple(one["why"] for one in proposed),
    )


def attempt_of(text: str) -> dict[str, Any]:
    """The attempt that a form names, such as '1.3 2'; none where it is the session. `Problem` 422 where it is neither."""
    activity_id, _, attempt = text.partition(" ")
    if not text:
        return {"activity_id": "", "attempt": 0}
    if not attempt.isdecimal() or len(attempt) > NUMBER_MAX:
        told = f"{text[:80]!r} names no attempt: choose one of those that run"
        raise Problem(422, "wrong_attempt", told)
    return {"activity_id": activity_id, "attempt": int(attempt)}


def turn_of(text: str) -> int:
    """The turn that a form names; `Problem` 422 where it is none."""
    if not text.isdecimal() or len(text) > NUMBER_MAX:
        raise Problem(422, "wrong_turn", f"{text[:80]!r} is no turn: choose one that has ended")
    return int(text)


def version_of(text: str) -> int | None:
    """The version that a form names, null where it names none; `Problem` 422 where it cannot be one."""
    if not text.strip():
        return None
    if not text.isdecimal() or len(text) > NUMBER_MAX or not int(text):
        raise Problem(422, "wrong_version", f"{text[:80]!r} is no version: they count from 1")
    return int(text)


def _proposed(visit: Visit, session_id: str) -> list[Proposal]:
    """What watchers propose it for; nothing where nobody watches, or nobody can tell."""
    try:
        proposals = visit.services.watched.look().proposals(visit.principal.tenant)
    except (LogFault, Transient):
        return []
    return [one for one in proposals if one["session_id"] == session_id]
