"""One session, from the views and the end of its partition, as JSON or for people."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..exits import Exit, Stopped
from ..settings import Settings
from ..telling.explained import Found
from .context import kafka, queries

if TYPE_CHECKING:
    from ...events.log.protocol import Log, Record
    from ...events.records import Event
    from ...projections.queries import Queries

VIEWS_MS = 3_000
"""How long a read waits for the views to reach what the log held when it was asked."""

BACK_MS = 15 * 60_000
"""How far before a session's last event its other events are looked for, where the views do not say where they lie."""


def find_session(given: Settings, session_id: str, *, events_max: int) -> Found:
    """The session as of now; `NOT_FOUND` once the views hold all that the log does and it is not among them."""
    from ...events.keys import check_id

    check_id("session id", session_id)
    with queries(given) as views:
        notes: list[str] = []
        try:
            with kafka(given) as log:
                _catch_up(given, session_id, views, log, notes)
                found = _found(given, session_id, views, notes)
                if events_max:
                    _add_events(given, log, views, found, events_max)
                return found
        except Stopped as stopped:
            if stopped.code != Exit.UNAVAILABLE:
                raise
            notes.append(f"as of the last projection: {stopped.message}")
            return _found(given, session_id, views, notes)


def catch_up(given: Settings, views: Queries, session_id: str | None) -> list[str]:
    """Waits until the views hold what the log does, of one session or of all; gives what kept them from it, in words."""
    notes: list[str] = []
    try:
        with kafka(given) as log:
            _catch_up(given, session_id, views, log, notes)
    except Stopped as stopped:
        if stopped.code != Exit.UNAVAILABLE:
            raise
        notes.append(f"as of the last projection: {stopped.message}")
    return notes


def show_session(found: Found, *, as_json: bool) -> None:
    """One JSON object, or what a person asks first: where it stands, why, and what can be done."""
    from ..telling.text import bare, last_line
    from .output import facts, note, write_json

    if as_json:
        write_json(
            {
                **found.row,
                "approvals": found.approvals,
                "uncertain": found.uncertain,
                "events": found.events,
            }
        )
    else:
        row = found.row
        held = f" (held: {row['held_reason']})" if row["held_reason"] else ""
        facts(
            [
                ("session", row["session_id"]),
                ("tenant", row["tenant"]),
                ("workflow", f"{row['workflow']} v{row['workflow_version'] or '-'}"),
                ("status", f"{row['status']}{held}"),
                ("child of", row["parent"]),
                ("held because", last_line(row["held_detail"] or "")),
                ("attributes", ", ".join(f"{n}={bare(v)}" for n, v in row["attributes"].items())),
                ("turn", f"{row['turn']}{_occasion(row)}"),
                ("messages", row["messages"]),
                ("refusals", row["refusals"] or None),
                ("opened", f"{_time(row['opened_at'])} by {row['opened_by']}"),
                ("last event", f"{_time(row['updated_at'])} (seq {row['seq']})"),
                ("last reply", _text(row["last_reply"])),
                ("outcome", _text(row["outcome"])),
                ("failure", _failure(row["failure"])),
                ("cancelled", row["cancel_reason"]),
                ("tainted by", ", ".join(row["tainted_by"])),
                ("holds", ", ".join(_held(one) for one in row["holds"])),
            ]
        )
        _show_lists(found)
    for told in found.notes:
        note(told)


def _held(one: dict[str, Any]) -> str:
    from ..telling.text import when

    return f"{one['kind']} ({one['id']}) until {when(one['expires_at_ms'])}"


def _show_lists(found: Found) -> None:
    import typer

    from ..telling.text import when
    from .output import block
    from .repeats import asked_because

    row = found.row
    detail = row["held_detail"] or (row["failure"] or {}).get("detail", "")
    if "\n" in detail:
        typer.echo("\ntraceback")
        block(detail)
    if row["held_reason"]:
        typer.echo(f"\nonce it is mended: wakeful session release {row['session_id']}")
        typer.echo(f"or end it for good: wakeful session cancel {row['session_id']}")
    if row["waiting_for"]:
        typer.echo("\nwaits for")
        for owed in row["waiting_for"]:
            until = (
                f"  {owed['expiry']} {when(owed['expires_at_ms'])}" if owed["expires_at_ms"] else ""
            )
            typer.echo(f"  {owed['kind']:<9} {owed['name']}  {owed['id']}{until}")
    for approval in found.approvals:
        if why := asked_because(approval):
            typer.echo(f"  {approval['proposal_id']}: {why}")
        typer.echo(
            f"  decide: wakeful approval approve {approval['proposal_id']} --session {row['session_id']}"
        )
    for told in _wanted(found):
        typer.echo(f"  {told}")
    if row["next_valid"]:
        typer.echo("\nmay be asked (as of its last rest)")
        for command in row["next_valid"]:
            answer = "yes" if command["allowed"] else "no "
            typer.echo(f"  {answer}  {command['command']:<16} {command['reason']}")
    if found.lines:
        typer.echo("\nlast events")
        for line in found.lines:
            typer.echo(f"  {line}")


def _wanted(found: Found) -> list[str]:
    """What it waits for from outside, but for the approvals, and how to give it."""
    from ..telling.words import wanting

    row = found.row
    why = {doubt["activity_id"]: _failure(doubt["failure"]) for doubt in found.uncertain}
    told = [
        wanting(o["kind"], o["id"], o["name"], row["session_id"], why=why.get(o["id"]) or "")
        for o in row["waiting_for"]
        if o["kind"] != "approval"
    ]
    return [one for one in told if one]


def _found(given: Settings, session_id: str, views: Queries, notes: list[str]) -> Found:
    row = _row(given, session_id, views, notes)
    approvals = _approvals(given, session_id, views)
    doubts = views.ledger(tenant=given.tenant, session_id=session_id, in_doubt=True, limit=100)
    return Found(row, approvals, doubts, notes=notes)


def _catch_up(
    given: Settings, session_id: str | None, views: Queries, log: Log, notes: list[str]
) -> None:
    from ...events.errors import Transient
    from ...events.keys import partition_of, session_key
    from ...events.log.protocol import Isolation, Place

    events = given.topics.events
    count = log.partitions(events)
    numbers = range(count)
    if session_id is not None:
        number = partition_of(session_key(given.tenant, session_id), count)
        numbers = range(number, number + 1)
    ends = log.ends([Place(events, one) for one in numbers], Isolation.COMMITTED)
    try:
        views.wait_for({place: end for place, (_, end) in ends.items()}, timeout_ms=VIEWS_MS)
    except Transient as behind:
        notes.append(str(behind))


def _row(given: Settings, session_id: str, views: Queries, notes: list[str]) -> dict[str, Any]:
    rows = views.session(session_id, tenant=given.tenant)
    if not rows:
        behind = f" ({notes[0]})" if notes else ""
        raise Stopped(
            Exit.NOT_FOUND,
            f"no session {session_id!r} of tenant {given.tenant}{behind}: see 'wakeful session list'",
        )
    return rows[0]


def _approvals(given: Settings, session_id: str, views: Queries) -> list[dict[str, Any]]:
    from .repeats import add_voids

    rows = views.approvals(tenant=given.tenant, session_id=session_id, limit=100)
    add_voids(views, given.tenant, rows)
    return rows


def session_events(
    given: Settings, log: Log, views: Queries, found: Found, count: int, *, since_ms: int
) -> list[tuple[Event, Record]]:
    """Its last events: from where the views say that they lie, or all that came since, where the views are behind."""
    from ...events.errors import Transient
    from ..telling.reading import last_events
    from ..telling.stretches import newest_events

    if not found.notes:
        with suppress(Transient):  # of an older version, which does not say
            return newest_events(log, given.topics, views, found.row, count)
    return last_events(
        log, given.topics, given.tenant, found.row["session_id"], max(0, since_ms), count
    )


def _add_events(given: Settings, log: Log, views: Queries, found: Found, events_max: int) -> None:
    from ..telling.words import event_json, event_line

    updated_ms = int(found.row["updated_at"].timestamp() * 1000)
    opened_ms = int(found.row["opened_at"].timestamp() * 1000) if found.row["opened_at"] else 0
    since_ms = max(opened_ms, updated_ms - BACK_MS) - 1_000  # the log's clocks differ a little
    seen = session_events(given, log, views, found, events_max, since_ms=since_ms)
    found.events = [event_json(e, partition=at.partition, offset=at.offset) for e, at in seen]
    found.lines = [event_line(e) for e, _ in seen]
    if len(seen) < min(events_max, found.row["seq"]):
        session_id = found.row["session_id"]
        found.notes.append(f"for older events: 'wakeful tail --session {session_id} --from-start'")


def _occasion(row: dict[str, Any]) -> str:
    """What started the turn, where it was no message."""
    from ...events.state import MESSAGE
    from ..telling.text import last_line

    if row["trigger"] in (None, MESSAGE):
        return ""
    reason = f": {last_line(row['trigger_reason'])}" if row["trigger_reason"] else ""
    return f" ({row['trigger']}{reason})"


def _time(value: Any) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S") if value is not None else "-"


def _failure(value: Any) -> str | None:
    if value is None:
        return None
    return (
        f"{value['kind']}: {value['message']}{' (' + value['type'] + ')' if value['type'] else ''}"
    )


def _text(value: Any) -> str | None:
    from ..telling.text import shown_text

    return None if value is None else shown_text(value, 2_000)
