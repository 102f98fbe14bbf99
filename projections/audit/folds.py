"""Checks that fold: the lifecycle is kept, snapshots are what the events say, and nobody is stranded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from ...events import records as r
from ...events.codec import STATES, encode_state
from ...events.due import awaited_by
from ...events.errors import Unfoldable
from ...events.evolve import evolve, fold_head
from ...events.recovering import is_stalled
from ...events.state import MESSAGE, STATE_VERSION, Head, SessionState, State, Status
from .evidence import Violation
from .history import Fact, History, Session, hash_of, name_of, of
from .invariants import LEGAL_PATH, NOBODY_STRANDED, PARKED_FREE, PURE_FOLD, RECOVERY

AFTER_END = (r.CommandRefused, r.LateResultRecorded)
"""What may still be recorded of a session that has ended: what was asked in vain."""


@dataclass(slots=True)
class Folded:
    """A session refolded: where it stands now, and at the seqs that have a snapshot."""

    state: State | None
    head: Head
    at: dict[int, SessionState]
    violations: list[Violation]


def refold(history: History) -> dict[Session, Folded]:
    """Folds every session once, for all the checks that need it."""
    wanted: dict[Session, set[int]] = defaultdict(set)
    for _, snapshot in history.snapshots:
        if isinstance(snapshot, r.Snapshot):
            wanted[snapshot.tenant, snapshot.session_id].add(snapshot.seq)
    return {session: _refold(facts, wanted[session]) for session, facts in history.sessions.items()}


def _refold(facts: list[Fact], wanted: set[int]) -> Folded:
    folded = Folded(None, Head(), {}, [])
    state, head = folded.state, folded.head
    for fact in facts:
        event = fact.event
        if (
            state is not None
            and state.only_waits
            and event.envelope.cause.offset > head.cause_offset
        ):
            told = "only waits were left, and it did not park before the next command"
            folded.violations.append(of(fact, PARKED_FREE, told))
        head = fold_head(head, event.envelope, hash_of(fact))
        if state is not None and state.ended and not isinstance(event.body, AFTER_END):
            told = f"{type(event.body).__name__} after the session was {state.status}"
            folded.violations.append(of(fact, LEGAL_PATH, told))
        if _goes_on_anyway(state, event.body):
            folded.violations.append(of(fact, RECOVERY, "it was recovered, and had not stalled"))
        try:
            state = evolve(state, event)
        except Unfoldable as error:
            folded.violations.append(of(fact, LEGAL_PATH, str(error)))
            return folded  # what follows cannot be judged by a state that is not known
        if event.envelope.seq in wanted:
            folded.at[event.envelope.seq] = SessionState(head, state)
    folded.state, folded.head = state, head
    return folded


def _goes_on_anyway(state: State | None, body: r.EventBody) -> bool:
    """Whether a session is driven again that waits, or runs."""
    if not isinstance(body, r.RecoveryRequested) or body.activity_id:
        return False
    return state is None or not is_stalled(state)


def legal_path(folds: dict[Session, Folded]) -> Iterator[Violation]:
    """10: each event is an arrow of the lifecycle; after the end only what was asked in vain is recorded.

    22: a session of which only waits are left parks at once, whatever else lies in the batch.
    """
    for folded in folds.values():
        yield from folded.violations


def pure_fold(history: History, folds: dict[Session, Folded]) -> Iterator[Violation]:
    """8: a snapshot is, byte for byte, what folding the events up to it gives."""
    for record, snapshot in history.snapshots:
        if not isinstance(snapshot, r.Snapshot) or snapshot.state_version != STATE_VERSION:
            continue
        session = (snapshot.tenant, snapshot.session_id)
        folded = folds.get(session)
        expected = folded.at.get(snapshot.seq) if folded else None
        if sha256(snapshot.state).digest() != snapshot.state_hash:
            told = f"the snapshot at seq {snapshot.seq} does not match its own hash"
        elif expected is None:
            told = f"there is a snapshot at seq {snapshot.seq}, and no event to that fold"
        elif same_state(snapshot.state, expected):
            continue
        else:
            told = f"the snapshot at seq {snapshot.seq} is not what its events fold to"
        if folded is None or not folded.violations:
            yield Violation(PURE_FOLD, name_of(session), record.offset, told)


def same_state(stored: bytes, expected: SessionState) -> bool:
    """States are stored with Avro's single-object marker, or in the frame of values."""
    return stored == (
        STATES.encode(expected).value if stored[:1] == b"\0" else encode_state(expected)
    )


def no_one_stranded(history: History, folds: dict[Session, Folded]) -> Iterator[Violation]:
    """38: at quiescence nobody runs without awaiting something, and no message waits for a turn."""
    if not history.evidence.quiescent:
        return
    for session, folded in folds.items():
        state = folded.state
        if state is None or state.hold is not None:
            continue
        owed = state.activities or state.waits
        if state.status in (Status.RUNNING, Status.WAITING) and not owed:
            yield Violation(
                NOBODY_STRANDED,
                name_of(session),
                None,
                f"it is {state.status} and nothing will wake it",
            )
        elif state.undoing is not None and not owed and not awaited_by(state):
            told = "it has still to take back what it did, and nothing will wake it"
            yield Violation(NOBODY_STRANDED, name_of(session), None, told)
        elif state.status in (Status.OPENED, Status.SUSPENDED) and state.queue:
            told = f"it is {state.status} and {len(state.queue)} messages wait for a turn"
            yield Violation(NOBODY_STRANDED, name_of(session), None, told)
        for wait_id in _could_end(state):
            told = f"it waits for something ({wait_id}), and has kept it"
            yield Violation(NOBODY_STRANDED, name_of(session), None, told)


def _could_end(state: State) -> Iterator[str]:
    """Waits for what is there."""
    for activity in state.activities:
        if activity.withheld_ms is not None and (activity.grant is not None or activity.denied):
            yield activity.activity_id
    names = {signal.name for signal in state.signals}
    messages = any(queued.trigger == MESSAGE for queued in state.queue)
    for receive in state.receives:
        if receive.name in names if receive.kind == "signal" else messages or not receive.wait:
            yield receive.wait_id
