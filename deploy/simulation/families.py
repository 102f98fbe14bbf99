"""What must hold between a session and its children, which only who sees all sessions can tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...commands import children as between
from ...commands import models as m
from ...events import records as r
from ...events.errors import Unfoldable
from ...events.evolve import evolve
from ...events.log.protocol import Record
from ...events.records import Event
from ...events.state import State

Spot = tuple[int, int]
Commands = Mapping[Spot, m.Command]

_ENDS = r.SessionCompleted | r.SessionFailed | r.SessionCancelled
_TOLD = r.ChildCompleted | r.ChildFailed | r.ChildCancelled
_AS_TOLD: dict[type, type] = {
    r.ChildCompleted: r.SessionCompleted,
    r.ChildFailed: r.SessionFailed,
    r.ChildCancelled: r.SessionCancelled,
}


@dataclass(slots=True)
class _Known:
    """Of all sessions: their facts, and what was told between them."""

    facts: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    started: dict[str, Event] = field(default_factory=dict)
    ended: dict[str, Event] = field(default_factory=dict)


def families(
    events: Sequence[Event], commands: Commands, records: Sequence[Record], *, rested: bool
) -> Iterator[str]:
    """Each child is opened once and tells its end once, and is what its parent was told; at rest nobody is left behind.

    `records` are the commands without those that somebody copied.
    """
    known = _Known()
    for event in events:
        known.facts[event.envelope.session_id].append(event)
        if isinstance(event.body, r.ChildStarted):
            known.started[event.body.child_id] = event
        elif isinstance(event.body, _ENDS):
            known.ended[event.envelope.session_id] = event
    told = [
        (record, commands[spot])
        for record in records
        if (spot := (record.partition, record.offset)) in commands
        and commands[spot].header.channel == between.CHANNEL
    ]
    yield from _said_once(known, [command for _, command in told])
    for child, event in known.started.items():
        yield from _as_asked(known, child, event)
    ends = {
        command.body.child_id: record
        for record, command in told
        if isinstance(command.body, m.EndChild)
    }
    yield from _as_it_ended(known, ends)
    if rested:
        yield from _left_behind(known, ends)


def _said_once(known: _Known, told: Sequence[m.Command]) -> Iterator[str]:
    """One command for each fact that asks for one, and none for another."""
    starts = Counter(c.header.session_id for c in told if isinstance(c.body, m.StartChild))
    ends = Counter(c.body.child_id for c in told if isinstance(c.body, m.EndChild))
    for child in known.started.keys() | starts.keys():
        wanted = int(child in known.started)
        if starts[child] != wanted:
            yield f"child {child} was asked for {wanted} times, and {starts[child]} commands open it"
    for child, times in ends.items():
        if times > 1:
            yield f"child {child} told its end {times} times"
        if child not in known.ended and child in known.facts:
            yield f"child {child} told its end, and has none"
    for child in known.started.keys() & known.ended.keys() - ends.keys():
        yield f"child {child} has ended, and told nobody"


def _as_asked(known: _Known, child: str, event: Event) -> Iterator[str]:
    """It is what was asked for, of whoever asked, for the same person, within the same time."""
    facts, body = known.facts.get(child), event.body
    if not facts or not isinstance(body, r.ChildStarted):
        return
    opened, parent_id = facts[0].body, event.envelope.session_id
    parent = opened.parent if isinstance(opened, r.SessionOpened) else None
    if parent is None or parent.session_id != parent_id:
        yield f"{child} was opened by {parent}, it was {parent_id} who asked for it"
        return
    if parent.deadline_ms != body.expires_at_ms:
        yield f"{child} has until {parent.deadline_ms}, its parent waits until {body.expires_at_ms}"
    first = known.facts[parent_id][0].body
    if isinstance(first, r.SessionOpened) and first.parent is not None:
        held = any(isinstance(one.body, r.SessionReleased) for one in known.facts[parent_id])
        if parent.deadline_ms > first.parent.deadline_ms and not held:
            yield f"{child} has until {parent.deadline_ms}, its parent until {first.parent.deadline_ms}"
    said = next((one for one in facts if isinstance(one.body, r.MessageReceived)), None)
    person = event.envelope.on_behalf_of
    if said is None or said.envelope.actor != person:
        yield f"{child} acts for {said and said.envelope.actor}, its parent for {person}"


def _as_it_ended(known: _Known, ends: Mapping[str, Record]) -> Iterator[str]:
    """What a parent recorded is how its child ended; an end that was there before the expiry, and in time, wins."""
    for session_id, facts in known.facts.items():
        due: dict[str, int] = {}
        for event in facts:
            body = event.body
            if isinstance(body, r.ChildStarted):
                due[body.child_id] = body.expires_at_ms
            elif isinstance(body, _TOLD):
                yield from _told_right(known, session_id, body)
            elif isinstance(body, r.ChildExpired) and body.child_id in ends:
                end, cause = ends[body.child_id], event.envelope.cause
                in_time = end.timestamp_ms < due.get(body.child_id, 0)
                if in_time and end.offset < cause.offset:
                    yield f"child {body.child_id} of {session_id} expired, and had told its end in time"


def _told_right(known: _Known, session_id: str, body: _TOLD) -> Iterator[str]:
    end = known.ended.get(body.child_id)
    if end is None:
        if body.child_id in known.facts or not isinstance(body, r.ChildFailed):
            yield f"child {body.child_id} of {session_id} is told as {type(body).__name__}, and has not ended"
        return
    if not isinstance(end.body, _AS_TOLD[type(body)]):
        yield f"child {body.child_id} of {session_id} is told as {type(body).__name__}, it was {end.body!r}"
    gave = end.body.outcome if isinstance(end.body, r.SessionCompleted) else None
    if isinstance(body, r.ChildCompleted) and body.result != gave:
        yield f"child {body.child_id} is told to give {body.result!r}, it gave {gave!r}"
    state = _folded(known.facts[body.child_id])
    if state is not None and body.tainted_by != state.tainted_by:
        yield f"child {body.child_id} is told to be tainted by {body.tainted_by}, it is by {state.tainted_by}"


def _left_behind(known: _Known, ends: Mapping[str, Record]) -> Iterator[str]:
    """At rest no parent waits for a child that has ended, and no child goes on for a parent that does not wait."""
    for child, event in known.started.items():
        parent = _folded(known.facts[event.envelope.session_id])
        own = _folded(known.facts[child]) if child in known.facts else None
        waits = parent is not None and any(one.child_id == child for one in parent.children)
        held = parent is not None and parent.hold is not None
        if waits and child in ends and not held:
            yield f"{event.envelope.session_id} waits for child {child}, which has told its end"
        stops = own is None or own.ended or own.undoing is not None or own.hold is not None
        if not waits and not stops and parent is not None:
            yield f"child {child} goes on, and {event.envelope.session_id} does not wait for it"


def _folded(facts: Sequence[Event]) -> State | None:
    state: State | None = None
    for event in facts:
        try:
            state = evolve(state, event)
        except Unfoldable:
            return None  # the audit has named it
    return state
