"""Checks of versions and repairs: turns begin where the pin says, and a reset goes back to what a turn has left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...events import records as r
from .evidence import Violation
from .history import Fact, History, of
from .invariants import VERSIONS


@dataclass(slots=True)
class _Versions:
    """Of one session: the turn under way, what turns have left, and the pin."""

    turn: int = 0
    version: int = 0
    message_id: str | None = None
    is_open: bool = False
    left: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    pinned: int | None = None
    awaits: str | None = None
    """The message that a reset has put back, until a turn takes it."""


def versions(history: History) -> Iterator[Violation]:
    """A pinned session begins its turns on that version; after a reset the state is the one that the turn had left.

    Turns count up by one, also after a reset, so that no effect has the key of another; and what the reset puts back is
    taken by the next turn.
    """
    for facts in history.sessions.values():
        known = _Versions()
        for fact in facts:
            yield from _followed(fact, known)


def _followed(fact: Fact, known: _Versions) -> Iterator[Violation]:
    body = fact.event.body
    match body:
        case r.TurnStarted():
            yield from _started(fact, body, known)
        case r.SessionPinned():
            known.pinned = body.version
        case r.SessionReset():
            yield from _reset(fact, body, known)
        case r.TurnCompleted():
            known.left[known.turn] = (known.version, body.state.digest)
            known.is_open = False
        case r.SessionCompleted() | r.SessionFailed() | r.SessionCancelled():
            known.is_open = False
        case _:
            pass  # the others say nothing of versions


def _started(fact: Fact, body: r.TurnStarted, known: _Versions) -> Iterator[Violation]:
    if body.turn != known.turn + 1:
        yield of(fact, VERSIONS, f"turn {body.turn} begins after turn {known.turn}")
    if known.pinned is not None and body.workflow_version != known.pinned:
        told = f"turn {body.turn} begins on version {body.workflow_version}, the session is pinned to {known.pinned}"
        yield of(fact, VERSIONS, told)
    if known.pinned is not None and body.rollout_offset is not None:
        told = f"turn {body.turn} of a pinned session names the rollout at {body.rollout_offset}"
        yield of(fact, VERSIONS, told)
    read_to = fact.event.envelope.control_offset or 0
    if body.rollout_offset is not None and body.rollout_offset >= read_to:
        told = f"turn {body.turn} goes by the rollout at {body.rollout_offset}, and control was read to {read_to}"
        yield of(fact, VERSIONS, told)
    if known.awaits is not None and body.message_id != known.awaits:
        told = f"turn {body.turn} takes {body.message_id!r}, a reset had put back {known.awaits!r}"
        yield of(fact, VERSIONS, told)
    known.turn, known.version = body.turn, body.workflow_version
    known.message_id, known.is_open, known.awaits = body.message_id, True, None


def _reset(fact: Fact, body: r.SessionReset, known: _Versions) -> Iterator[Violation]:
    left = known.left.get(body.to_turn) if body.to_turn else (0, None)
    stands = (body.workflow_version, body.state.digest if body.state is not None else None)
    if left is None:
        yield of(fact, VERSIONS, f"it is reset to the end of turn {body.to_turn}, which has none")
    elif left != stands:
        told = f"it is reset to turn {body.to_turn}, with another state than that turn has left"
        yield of(fact, VERSIONS, told)
    if body.turn != known.turn:
        yield of(fact, VERSIONS, f"it is reset from turn {body.turn}, and stood in {known.turn}")
    if body.message_id is not None and (not known.is_open or body.message_id != known.message_id):
        told = f"a reset puts {body.message_id!r} back, which no open turn answers"
        yield of(fact, VERSIONS, told)
    known.awaits, known.is_open = body.message_id, False
