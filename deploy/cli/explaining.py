"""`explain`: one session in words: what happened, what it waits for, what may come next, and the way out of a hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .asking import SessionId
from .context import AsJson, kafka, settings

if TYPE_CHECKING:
    from ...events.log.protocol import Record
    from ...events.records import Event
    from ...events.state import State
    from .showing import Found
    from .story import Story

EVENTS_MAX = 20_000
"""The last so many events of a session are told; a fold of fewer than all is no state."""

SKEW_MS = 1_000

STANDS = {
    "Opened": "is open, and nothing was asked of it yet",
    "Running": "is in turn {turn}",
    "Waiting": "waits in turn {turn}",
    "Suspended": "rests after turn {turn}, until the next message",
    "Recovering": "is held in turn {turn}: it goes on once somebody releases it",
    "Completed": "has ended with its outcome, in turn {turn}",
    "Failed": "has failed, in turn {turn}",
    "Cancelled": "was cancelled, in turn {turn}",
}

MENDING = {
    "nondeterminism": "deploy the code that took the recorded path, or guard the change with 'turn.version(…)'",
    "does_not_fold": "deploy code that reads this history, and start the processors again",
    "workflow_missing": "deploy the workflow in that version",
    "workflow_raised": "mend what raised in the workflow, and deploy it",
    "wrong_signal": "let the workflow catch WrongSignal, or take that signal as it is, and deploy it (the turn is given the same signal again)",
    "workflow_misuse": "mend the workflow, and deploy it",
    "state_unreadable": "let the workflow's state type read what is stored, and deploy it",
    "state_unserialisable": "let the workflow return what can be stored, and deploy it",
    "workflow_stuck": "mend what spins or blocks in the workflow, and deploy it",
    "workflow_spins": "let each round of the workflow's loop, or of 'turn.again', await what comes later, and deploy it",
    "process_died": "find out why the processor died of this command, and mend it",
    "engine_fault": "this is a fault of Wakeful: report it, with the processors' log",
    "verification_failed": "look at what its verification said",
    "payload_missing": "bring the payload back into the store of blobs (WAKEFUL_BLOBS)",
    "payload_damaged": "restore the payload in the store of blobs (WAKEFUL_BLOBS)",
    "payload_unavailable": "bring the store of blobs (WAKEFUL_BLOBS) back",
}
"""What to do before a release, by the reason of a hold."""


def explain(
    session_id: SessionId,
    *,
    turns: Annotated[int, typer.Option(min=1, max=10_000, help="The last so many turns.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Tell a session's story: what happened, what it waits for and since when, what may come next and why not the rest.

    For a held session: why, and the way out; for an activity in doubt: how to find out, and how to say so.
    """
    from ...events.keys import session_key
    from .dealing import letters_of
    from .output import note, write_json
    from .reading import last_events
    from .showing import find_session
    from .story import tell

    given = settings()
    found = find_session(given, session_id, events_max=0)
    opened = found.row["opened_at"]
    since_ms = 0 if opened is None else max(0, int(opened.timestamp() * 1000) - SKEW_MS)
    with kafka(given) as log:
        read = last_events(log, given.topics, given.tenant, session_id, since_ms, EVENTS_MAX)
        letters = letters_of(log, given.topics, session_key(given.tenant, session_id), since_ms)
    events = [event for event, _ in read]
    told = explained(found, tell(events), folded(events), letters)
    if as_json:
        write_json(told)
    else:
        _show(told, turns)
    for line in found.notes:
        note(line)


def folded(events: Sequence[Event]) -> State | None:
    """The session's state; null where these are not all of its events, or they do not fold."""
    from ...events.errors import Unfoldable
    from ...events.evolve import evolve

    state: State | None = None
    for number, event in enumerate(events, start=1):
        if event.envelope.seq != number:
            return None
        try:
            state = evolve(state, event)
        except Unfoldable:
            return None
    return state


def explained(
    found: Found, story: Story, state: State | None, letters: Sequence[Record] = ()
) -> dict[str, Any]:
    """All that is told, as one JSON object. Without a state the views say what it awaits, as of its last rest."""
    from ...commands.next_valid import next_valid, obligations
    from .not_let_in import not_let_in
    from .words import as_json

    row = found.row
    awaited = row["waiting_for"] if state is None else as_json(obligations(state))
    valid = row["next_valid"] if state is None else as_json(next_valid(state))
    names = ("session_id", "tenant", "workflow", "workflow_version", "status", "turn")
    return {
        **{name: row[name] for name in names},
        "stands": STANDS.get(row["status"], row["status"]).format(turn=row["turn"]),
        "since_ms": int(row["updated_at"].timestamp() * 1000),
        "story": as_json(story.chapters),
        "waits_for": [_awaited(owed, found, story) for owed in awaited or []],
        "tainted_by": row["tainted_by"] if state is None else list(state.tainted_by),
        "next": [one for one in valid or [] if one["allowed"]],
        "not_next": [one for one in valid or [] if not one["allowed"]],
        "next_is_of_now": state is not None,
        "held": _held(row, 0 if state is None else len(state.parked)),
        "not_let_in": not_let_in(letters, state),
        "in_doubt": [_doubt(one) for one in found.uncertain],
    }


def _awaited(owed: dict[str, Any], found: Found, story: Story) -> dict[str, Any]:
    """A wait, since when, and the command that ends it; none where it ends by itself, or is told as a doubt."""
    from .words import wanting

    told = ""
    if owed["kind"] != "uncertain":
        told = wanting(owed["kind"], owed["id"], owed["name"], found.row["session_id"])
    how = told.partition(": ")[2]
    asked = (a for a in found.approvals if owed["id"] in (a["proposal_id"], a.get("activity_id")))
    because: list[str] = next((a["because"] for a in asked), [])
    return {**owed, "since_ms": story.since_ms.get(owed["id"]), "how": how, "because": because}


def _held(row: dict[str, Any], parked: int) -> dict[str, Any] | None:
    """Why it is held, what to mend, and the two commands that end a hold."""
    if not row["held_reason"]:
        return None
    session_id, reason = row["session_id"], row["held_reason"]
    return {
        "reason": reason,
        "detail": row["held_detail"] or "",
        "kept_commands": parked,
        "mend": MENDING.get(reason, "find out why in the processors' log, and mend it"),
        "release": f"wakeful session release {session_id}",
        "or_end": f"wakeful session cancel {session_id}",
    }


def _doubt(row: dict[str, Any]) -> dict[str, Any]:
    """An activity that nobody knows the end of: why, where to look, and how to say what was found."""
    from .words import resolving

    failure = row["failure"] or {}
    return {
        "activity_id": row["activity_id"],
        "name": row["action"],
        "contract": row["contract"],
        "why": failure.get("message") or failure.get("kind") or "",
        "look": f"look where {row['action']} leaves its mark for the key {row['idempotency_key']}",
        "resolve": resolving(row["session_id"], row["activity_id"]),
    }


def _show(told: dict[str, Any], turns: int) -> None:
    from .output import when

    name = f"{told['session_id']} ({told['workflow']} v{told['workflow_version'] or '-'})"
    typer.echo(f"{name} {told['stands']}; its last event was at {when(told['since_ms'])}")
    _show_story(told["story"], turns)
    _show_held(told["held"])
    for doubt in told["in_doubt"]:
        _part(f"in doubt: {doubt['name']} ({doubt['activity_id']}, {doubt['contract']})")
        typer.echo(f"  {_safe(doubt['why'])}")
        typer.echo(f"  {doubt['look']}, then: {doubt['resolve']}")
    if told["waits_for"]:
        _part("waits for")
        for owed in told["waits_for"]:
            _show_awaited(owed)
    _show_letters(told["not_let_in"])
    if told["tainted_by"]:
        names = ", ".join(told["tainted_by"])
        _part(f"untrusted content has come in, by {_safe(names)}: policy decides what may follow")
    if told["next"] or told["not_next"]:
        _part("may come next" + ("" if told["next_is_of_now"] else " (as of its last rest)"))
        for one in told["next"]:
            typer.echo(f"  {one['command']}: {_safe(one['reason'])}")
        if told["not_next"]:
            _part("may not")
        for one in told["not_next"]:
            typer.echo(f"  {one['command']}: {_safe(one['reason'])}")


def _show_story(chapters: list[dict[str, Any]], turns: int) -> None:
    from .output import when

    left = len(chapters) - turns
    if left > 0:
        _part(f"({left} earlier turns: --turns {len(chapters)} tells them)")
    for chapter in chapters[max(0, left) :]:
        _part(chapter["title"])
        for line in chapter["lines"]:
            typer.echo(f"  {when(line['at_ms'])}  {_safe(line['text'], 1_000)}")


def _show_held(held: dict[str, Any] | None) -> None:
    from .output import block

    if held is None:
        return
    _part(f"held: {held['reason']}")
    block(held["detail"])
    kept = held["kept_commands"]
    those = (
        "command kept meanwhile is decided"
        if kept == 1
        else f"{kept} commands kept meanwhile are decided, in order"
    )
    also = f"; then the {those}" if kept else ""
    typer.echo(f"  the way out: {held['mend']}, then '{held['release']}'{also}")
    typer.echo(f"  or end it for good: '{held['or_end']}'")


def _show_letters(letters: list[dict[str, Any]]) -> None:
    from .not_let_in import SHOWN_MAX
    from .output import when

    if not letters:
        return
    more = f", of which {SHOWN_MAX} are shown" if len(letters) > SHOWN_MAX else ""
    _part(f"not let in ({len(letters)} in dead letters{more})")
    for one in sorted(letters, key=lambda letter: letter["awaited"])[-SHOWN_MAX:]:
        waited = ", which is waited for" if one["awaited"] else ""
        typer.echo(f"  {when(one['at_ms'])}  {_safe(one['what'])}{waited}: {_safe(one['reason'])}")
        typer.echo(f"    {one['way_out']}")


def _show_awaited(owed: dict[str, Any]) -> None:
    from .output import when

    since = f", since {when(owed['since_ms'])}" if owed["since_ms"] is not None else ""
    due = owed["expires_at_ms"]
    until = f"; {owed['expiry']} at {when(due)}" if due else ""
    if not due and owed["kind"] == "activity":
        until = f"; {owed['expiry']}"
    typer.echo(f"  {owed['kind']} {_safe(owed['name'])} ({owed['id']}){since}{until}")
    if owed["because"]:
        what = "withheld" if owed["kind"] == "activity" else "policy asks"
        typer.echo(f"    {what}, since {_safe('; '.join(owed['because']))}")
    if owed["how"]:
        typer.echo(f"    {_safe(owed['how'])}")


def _part(title: str) -> None:
    typer.echo(f"\n{_safe(title)}")


def _safe(text: str, limit: int = 400) -> str:
    from .output import shown_text

    return shown_text(text, limit)
