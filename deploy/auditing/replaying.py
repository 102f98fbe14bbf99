"""Replays a session for people: its events are folded again up to a place, and compared with what was kept of them.

A replay takes the events and nothing else. What it comes to is then compared with the snapshots at their places and, where it
goes as far as the views do, with the rows. The first difference of each is told as field, expected, and found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

from ...events.codec import STATES, decode_snapshot, decode_state, read_event
from ...events.errors import Undecodable, Unfoldable
from ...events.evolve import evolve, fold_head
from ...events.hashing import event_hash
from ...events.log.protocol import Record
from ...events.records import Event, Payload, Snapshot, TurnStarted
from ...events.state import STATE_VERSION, Head, SessionState, State
from ...projections.audit import differences, rebuild_rows
from ...projections.audit.folds import same_state
from ...projections.audit.rebuild import differing_column
from ...projections.rows import SESSIONS, Key, Row, no_rows
from ..telling.words import as_json


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where what was kept is not what the events say."""

    where: str
    field: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.field} is {self.found!r}, expected {self.expected!r}"


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a session: from event `first` to `last`, both included, or those of a turn. The fold begins at 1."""

    first: int = 1
    last: int | None = None
    turn: int | None = None


@dataclass(slots=True)
class Replayed:
    """What a replay came to: the fold at the end of the range, and the events up to there."""

    head: Head = field(default_factory=Head)
    state: State | None = None
    taken: list[tuple[Event, Record]] = field(default_factory=list)
    """The events up to the end of the range."""
    events: int = 0
    """How many the session has, also behind the range."""
    at_snapshots: dict[int, SessionState] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    snapshots: int = 0
    """How many were compared."""
    views_at: int | None = None
    """Up to which event rows were compared; none where they were not."""


def replay(events: Iterable[Record], snapshots: Iterable[Record], wanted: Range) -> Replayed:
    """Folds a session's events, of which `events` has all in their order, up to the end of the range."""
    kept = list(_kept(snapshots))
    places = {snapshot.seq for snapshot in kept}
    replayed = Replayed()
    for record in events:
        replayed.events += 1
        if replayed.differences or _is_behind(replayed, record, wanted):
            continue
        _take(replayed, record, places)
    if not replayed.differences:
        _compare_snapshots(replayed, kept)
    return replayed


def _is_behind(replayed: Replayed, record: Record, wanted: Range) -> bool:
    """Whether the range is over before this event."""
    if wanted.last is not None and replayed.head.seq >= wanted.last:
        return True
    state = replayed.state
    if wanted.turn is None or state is None or state.turn < wanted.turn:
        return False
    if state.turn > wanted.turn:
        return True
    try:
        event, _ = read_event(record.value, record.headers)
    except Undecodable:
        return False
    return isinstance(event.body, TurnStarted)


def _take(replayed: Replayed, record: Record, places: set[int]) -> None:
    where = f"the event at {record.topic} {record.partition}@{record.offset}"
    seq = replayed.head.seq + 1
    try:
        event, stored = read_event(record.value, record.headers)
    except Undecodable as error:
        replayed.differences.append(Difference(where, "value", f"event {seq}", error.message))
        return
    envelope = event.envelope
    found = {"seq": envelope.seq, "prev_hash": envelope.prev_hash.hex()}
    expected = {"seq": seq, "prev_hash": replayed.head.hash.hex()}
    for name, value in found.items():
        if value != expected[name]:
            replayed.differences.append(Difference(where, name, expected[name], value))
            return
    try:
        state = evolve(replayed.state, event)
    except Unfoldable as error:
        told = "what may follow" if replayed.state is None else f"after {replayed.state.status}"
        replayed.differences.append(Difference(where, type(event.body).__name__, told, str(error)))
        return
    hashed = event_hash(stored.fingerprint, stored.body, envelope.prev_hash)
    replayed.head, replayed.state = fold_head(replayed.head, envelope, hashed), state
    replayed.taken.append((event, record))
    if envelope.seq in places:
        replayed.at_snapshots[envelope.seq] = SessionState(replayed.head, state)


def _kept(snapshots: Iterable[Record]) -> Iterator[Snapshot]:
    """Snapshots of this release's states; others say nothing that could be compared."""
    for record in snapshots:
        if record.value is None:
            continue
        try:
            found = decode_snapshot(record.value, record.headers)
        except Undecodable:
            continue  # `audit verify` names it
        if isinstance(found, Snapshot) and found.state_version == STATE_VERSION:
            yield found


def _compare_snapshots(replayed: Replayed, kept: Iterable[Snapshot]) -> None:
    for snapshot in kept:
        expected = replayed.at_snapshots.get(snapshot.seq)
        if expected is None:
            continue  # behind the range
        replayed.snapshots += 1
        if same_state(snapshot.state, expected):
            continue
        where = f"the snapshot at seq {snapshot.seq}"
        try:
            found = _state_in(snapshot.state)
        except Undecodable as error:
            replayed.differences.append(Difference(where, "state", "a state", error.message))
            return
        differing = first_difference(expected, found)
        if differing is not None:
            replayed.differences.append(Difference(where, *differing))
            return


def _state_in(stored: bytes) -> SessionState:
    """In either of the forms in which states are stored; see `same_state`."""
    if stored[:1] != b"\0":
        return decode_state(stored)
    decoded: SessionState = STATES.decode(stored, None)
    return decoded


def compare_rows(replayed: Replayed, rows: Iterable[tuple[str, Key, Row]]) -> None:
    """Compares the views with the events up to where the views are, if the replay came so far."""
    live = no_rows()
    for table, key, row in rows:
        live[table][key] = row
    at = max((row["seq"] for row in live[SESSIONS].values()), default=0)
    if at > replayed.head.seq:
        return
    replayed.views_at = at
    rebuilt = rebuild_rows(event for event, _ in replayed.taken if event.envelope.seq <= at)
    found = ((table, key) for table, key, _ in differences(live, rebuilt))
    first = min(found, key=lambda one: (one[0], str(one[1])), default=None)
    if first is not None:
        table, key = first
        replayed.differences.append(
            _row_difference(table, key, rebuilt[table].get(key), live[table].get(key))
        )


def _row_difference(table: str, key: Key, expected: Row | None, found: Row | None) -> Difference:
    where = f"the row {'/'.join(map(str, key))} of {table}"
    if expected is None or found is None:
        is_there = ("a row", "no row") if found is None else ("no row", "a row")
        return Difference(where, "row", *is_there)
    column = cast("str", differing_column(table, found, expected))  # they do differ
    return Difference(where, column, as_json(expected[column]), as_json(found[column]))


def first_difference(expected: Any, found: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """The first field in which two values differ, with what it should be and what it is; none where they are equal."""
    if expected == found:
        return None
    if type(expected) is type(found) and not isinstance(expected, Payload):
        if hasattr(expected, "__dataclass_fields__"):
            for one in fields(expected):
                name = f"{path}.{one.name}" if path else one.name
                differing = first_difference(
                    getattr(expected, one.name), getattr(found, one.name), name
                )
                if differing is not None:
                    return differing
        if isinstance(expected, tuple) and len(expected) == len(found):
            for number, (mine, theirs) in enumerate(zip(expected, found, strict=True)):
                differing = first_difference(mine, theirs, f"{path}[{number}]")
                if differing is not None:
                    return differing
    return path, as_json(expected), as_json(found)


def told(replayed: Replayed, wanted: Range) -> Iterator[tuple[Event, Record]]:
    """The events of the range."""
    turn = 0
    for event, record in replayed.taken:
        if isinstance(event.body, TurnStarted):
            turn = event.body.turn
        if event.envelope.seq >= wanted.first and wanted.turn in (None, turn):
            yield event, record


def replayed_json(replayed: Replayed) -> Mapping[str, Any]:
    """All of it, for scripts."""
    head, state = replayed.head, replayed.state
    return {
        "seq": head.seq,
        "events": replayed.events,
        "hash": head.hash.hex(),
        "at_ms": head.now_ms,
        "state": None if state is None else as_json(state),
        "snapshots_compared": replayed.snapshots,
        "views_compared_to_seq": replayed.views_at,
        "differences": [
            {"where": d.where, "field": d.field, "expected": d.expected, "found": d.found}
            for d in replayed.differences
        ],
    }
