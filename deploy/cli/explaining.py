"""`explain`: one session in words: what happened, what it waits for, what may come next, and the way out of a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .asking import SessionId
from .context import AsJson, kafka, queries, settings

if TYPE_CHECKING:
    from ..settings import Settings

EVENTS_MAX = 20_000
"""The last so many events of a session are told; a fold of fewer than all is no state."""

SKEW_MS = 1_000


def explain(
    session_id: SessionId,
    *,
    turns: Annotated[int, typer.Option(min=1, max=10_000, help="The last so many turns.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Tell a session's story: what happened, what it waits for and since when, what may come next and why not the rest.

    For a held session: why, and the way out; for an activity in doubt: how to find out, and how to say so.
    """
    from .output import note, write_json

    told, notes = told_of(settings(), session_id)
    if as_json:
        write_json(told)
    else:
        _show(told, turns)
    for line in notes:
        note(line)


def told_of(given: Settings, session_id: str) -> tuple[dict[str, Any], list[str]]:
    """The session in words, and what was in the way of telling it as of now."""
    from ...events.keys import session_key
    from ..telling.dealing import letters_of
    from ..telling.explained import explained, folded
    from ..telling.story import tell
    from .showing import find_session, session_events

    found = find_session(given, session_id, events_max=0)
    opened = found.row["opened_at"]
    since_ms = 0 if opened is None else max(0, int(opened.timestamp() * 1000) - SKEW_MS)
    with kafka(given) as log, queries(given) as views:
        read = session_events(given, log, views, found, EVENTS_MAX, since_ms=since_ms)
        letters = letters_of(log, given.topics, session_key(given.tenant, session_id), since_ms)
    events = [event for event, _ in read]
    return explained(found, tell(events), folded(events), letters), found.notes


def _show(told: dict[str, Any], turns: int) -> None:
    from ..telling.text import when

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
    for one in told["holds"]:
        until = when(one["expires_at_ms"])
        _part(f"holds {one['kind']} ({one['id']}), until {until} at most")
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
    from ..telling.text import when

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
    if held["or_back"]:
        typer.echo(f"  or take it back to the end of its last turn: '{held['or_back']}'")
    typer.echo(f"  or end it for good: '{held['or_end']}'")


def _show_letters(letters: list[dict[str, Any]]) -> None:
    from ..telling.not_let_in import SHOWN_MAX
    from ..telling.text import when

    if not letters:
        return
    more = f", of which {SHOWN_MAX} are shown" if len(letters) > SHOWN_MAX else ""
    _part(f"not let in ({len(letters)} in dead letters{more})")
    for one in sorted(letters, key=lambda letter: letter["awaited"])[-SHOWN_MAX:]:
        waited = ", which is waited for" if one["awaited"] else ""
        typer.echo(f"  {when(one['at_ms'])}  {_safe(one['what'])}{waited}: {_safe(one['reason'])}")
        typer.echo(f"    {one['way_out']}")


def _show_awaited(owed: dict[str, Any]) -> None:
    from ..telling.text import when

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
    from ..telling.text import shown_text

    return shown_text(text, limit)
