"""What must hold of runs, and of the schedules that set them to work: each due time once, and under `all` none missed."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ...commands import models as m
from ...commands import runs as asking
from ...events import records as r
from ...events.headers import dead_letter_in
from ...events.log.protocol import Record
from ...events.records import Event
from ...processors.schedules.spec import WORKFLOW
from ...processors.schedules.times import next_after, to_ms
from ...projections.audit.evidence import Evidence

Spot = tuple[int, int]
Commands = Mapping[Spot, m.Command]

_TOLD = r.SignalDelivered | r.SessionReset | r.NondeterminismFound
"""After these a schedule may go on from another time."""


def timetables(
    evidence: Evidence, events: Sequence[Event], commands: Commands, records: Sequence[Record]
) -> Iterator[str]:
    """One command for each run, in its maker's name, which is followed once; and schedules that miss nothing.

    `records` are the commands without those that somebody copied.
    """
    facts: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        facts[event.envelope.session_id].append(event)
    started = {
        asking.command_id(event.envelope.session_id, event.envelope.seq): event
        for event in events
        if isinstance(event.body, r.RunStarted)
    }
    asked = [
        ((record.partition, record.offset), commands[spot])
        for record in records
        if (spot := (record.partition, record.offset)) in commands
        and isinstance(commands[spot].body, m.StartRun)
    ]
    yield from _asked_once(started, [command for _, command in asked])
    yield from _followed_once(events, started)
    if evidence.quiescent:
        yield from _heard(events, asked, evidence)
    for session_id, own in facts.items():
        yield from _on_time(session_id, own)


def _asked_once(started: Mapping[str, Event], asked: Sequence[m.Command]) -> Iterator[str]:
    """One command for each fact that asks for one, with what that says, for whom its turn answers."""
    times = Counter(command.header.command_id for command in asked)
    for id_ in started.keys() | times.keys():
        if times[id_] != (id_ in started):
            yield f"{times[id_]} commands set run {id_} to work, and {int(id_ in started)} facts ask for it"
    for command in asked:
        event = started.get(command.header.command_id)
        if event is None or not isinstance(event.body, r.RunStarted):
            continue
        body, said, header = event.body, command.body, command.header
        wanted = (body.run_id, body.workflow, body.trigger, body.reason, body.data)
        if isinstance(said, m.StartRun) and wanted != (
            header.session_id,
            said.workflow,
            said.trigger,
            said.reason,
            said.data,
        ):
            yield f"run {header.command_id} is {said!r}, and {body!r} asked for it"
        if header.actor != event.envelope.on_behalf_of:
            yield f"run {header.command_id} is asked by {header.actor}, for {event.envelope.on_behalf_of}"


def _followed_once(events: Sequence[Event], started: Mapping[str, Event]) -> Iterator[str]:
    """A run begins at most one turn, of the session that it names."""
    begun = Counter(e.body.trigger_id for e in events if isinstance(e.body, r.TriggerReceived))
    for id_ in started:
        if begun[id_] > 1:
            yield f"run {id_} was taken {begun[id_]} times"


def _heard(
    events: Sequence[Event], asked: Sequence[tuple[Spot, m.Command]], evidence: Evidence
) -> Iterator[str]:
    """At rest each run was taken, refused, kept for later, or turned away at the door."""
    known = {event.envelope.cause.command_id for event in events}
    letters = (dead_letter_in(record.headers) for record in evidence.dead_letters)
    away = {(letter.partition, letter.offset) for letter in letters if letter is not None}
    for spot, command in asked:
        if command.header.command_id not in known and spot not in away:
            yield f"run {command.header.command_id} at {spot} was heard by nobody"


def _on_time(session_id: str, facts: Sequence[Event]) -> Iterator[str]:
    """The times of a schedule go up, each once; under `all` each follows on the last, but where it was told something."""
    opened, spec = facts[0].body, _spec(facts)
    if not isinstance(opened, r.SessionOpened) or opened.workflow != WORKFLOW or spec is None:
        return
    last_ms: int | None = None
    follows = False
    for event in facts:
        body = event.body
        if isinstance(body, _TOLD):
            follows = False
        if not isinstance(body, r.RunStarted) or body.reason.endswith("triggered"):
            continue
        due_ms = _due(body)
        if due_ms > event.envelope.at_ms:
            yield f"{session_id} ran {body.reason} at {event.envelope.at_ms}, too early"
        if last_ms is not None and due_ms <= last_ms:
            yield f"{session_id} ran {body.reason} after {last_ms}"
        next_ms = None if last_ms is None else next_after(spec["cron"], spec["timezone"], last_ms)
        if follows and spec["catch_up"] == "all" and due_ms != next_ms:
            yield f"{session_id} ran {body.reason}, and missed {next_ms}"
        last_ms, follows = due_ms, True


def _due(body: r.RunStarted) -> int:
    return to_ms(datetime.fromisoformat(body.reason.split(" ")[1]))


def _spec(facts: Sequence[Event]) -> dict[str, str] | None:
    """What it was opened with, as far as it is there."""
    first = next((e.body for e in facts if isinstance(e.body, r.MessageReceived)), None)
    given = json.loads(first.message.inline) if first and first.message.inline else None
    return given if isinstance(given, dict) and "cron" in given else None
