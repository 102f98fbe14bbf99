"""`session`: open, send, start-turn, show, list, cancel, release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from . import arrivals, recovering
from .asking import (
    Actor,
    CommandId,
    Detach,
    ExpectedSeq,
    SessionId,
    Timeout,
    Wait,
    named,
)
from .context import AsJson, check_limit, settings

if TYPE_CHECKING:
    from ..settings import Settings

app = typer.Typer(help="Sessions: open, talk to, look at, end.", no_args_is_help=True)

EVENTS_SHOWN = 10

VIEWS_MS = 3_000
"""How long a read waits for the views to reach what the log held when it was asked."""


@app.command("open")
def open_(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's name.")],
    *,
    session_id: Annotated[
        str | None, typer.Option("--session", help="An id of your own. (default: a random one)")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Derive the id from this: a repeat opens nothing new.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What it is to be found by; may be repeated."),
    ] = None,
    actor: Actor = None,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Open a session and print its id."""
    from ...commands.client import random_id
    from . import typed
    from .asking import ask_and_tell

    given = settings()
    if session_id is not None and idempotency_key is not None:
        raise Stopped(
            Exit.USAGE, "give --session or --idempotency-key, not both: the id follows from the key"
        )
    attributes = typed.attributes(attribute or [])
    own = session_id
    if own is None:
        own = _derived(given, idempotency_key) if idempotency_key is not None else random_id()
    code = ask_and_tell(
        own,
        lambda client: client.open(workflow, own, attributes=attributes),
        actor=actor,
        detach=detach,
        as_json=as_json,
        done=f"open: next, 'wakeful session send {own} TEXT --wait'",
    )
    if not as_json:
        typer.echo(own)
    return code


@app.command("send")
def send(
    session_id: SessionId,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to say; '-' reads it from stdin.")
    ],
    *,
    data: Annotated[bool, typer.Option("--data", help="TEXT is JSON and is sent as such.")] = False,
    message_id: Annotated[
        str | None,
        typer.Option(help="Your id of the message: a repeat changes nothing.", callback=named),
    ] = None,
    expected_seq: ExpectedSeq = None,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Send a message. With --wait, print the replies and stop when the session rests."""
    from . import typed
    from .asking import ask_and_tell

    message = typed.json_value("--data: TEXT", text) if data else typed.text("TEXT", text)
    return ask_and_tell(
        session_id,
        lambda client: client.send(session_id, message, message_id, expected_seq=expected_seq),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        follow_message=True,
        as_json=as_json,
        done="received",
    )


app.command("start-turn")(arrivals.start_turn)


@app.command("cancel")
def cancel(
    session_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="SESSION...", help="The session's id, or several; '-' reads them from stdin."
        ),
    ],
    *,
    reason: Annotated[str, typer.Option(help="For the record.")] = "",
    command_id: CommandId = None,
    actor: Actor = None,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """End a session for good, or several; what they did is taken back first, where the workflow said how."""
    from .asking import ask_and_tell
    from .cancelling import cancel_all, named_sessions

    session_id, *more = named_sessions(session_ids)
    if more:
        if command_id is not None:
            raise Stopped(
                Exit.USAGE, "--command-id names one command: leave it out for several sessions"
            )
        return cancel_all([session_id, *more], reason=reason, actor=actor, as_json=as_json)
    return ask_and_tell(
        session_id,
        lambda client: client.cancel(session_id, reason, command_id=command_id),
        actor=actor,
        detach=detach,
        as_json=as_json,
        done="cancelled",
    )


@app.command("release")
def release(
    session_id: SessionId,
    *,
    reason: Annotated[str, typer.Option(help="For the record.")] = "",
    command_id: CommandId = None,
    actor: Actor = None,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Let a held session go on from where it was held."""
    from .asking import ask_and_tell

    return ask_and_tell(
        session_id,
        lambda client: client.release(session_id, reason, command_id=command_id),
        actor=actor,
        detach=detach,
        as_json=as_json,
        done="released",
    )


app.command("recover")(recovering.recover)
app.command("held")(recovering.held)


@app.command("list")
def list_(
    *,
    status: Annotated[
        str | None,
        typer.Option(
            help="Opened, Running, Waiting, Suspended, Recovering, Compensating, Completed, Failed, Cancelled."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="With this attribute; may be given twice."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List sessions, the one with the latest event first; with --where the newest match first."""
    from ...events import attributes
    from .context import queries
    from .output import note, table, write_json

    given = settings()
    check_limit(limit, most=1_000)
    wanted = None if status is None else _status(status)
    term = attributes.wanted(where) if where else None
    with queries(given) as views:
        rows = views.sessions(tenant=given.tenant, status=wanted, term=term, limit=limit)
    if as_json:
        write_json(rows)
        return
    table(
        ("session", "workflow", "status", "turn", "waiting for", "updated"),
        [
            (
                row["session_id"],
                row["workflow"],
                _shown_status(row),
                row["turn"],
                _awaited(row["waiting_for"]),
                row["updated_at"],
            )
            for row in rows
        ],
    )
    if not rows:
        with_them = f" with {' and '.join(where)}" if where else ""
        note(f"no sessions{' ' + wanted if wanted else ''} of tenant {given.tenant}{with_them}")


@app.command("artifact")
def artifact(
    session_id: SessionId,
    artifact_id: Annotated[
        str, typer.Argument(metavar="ARTIFACT", help="What has changed, by the id the agent uses.")
    ],
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Its version now.")],
    *,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Say that something outside, which a session relies on, has changed: what was proposed from it is asked anew."""
    from .asking import ask_and_tell

    return ask_and_tell(
        session_id,
        lambda client: client.change_artifact(session_id, artifact_id, version),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        as_json=as_json,
        done=f"noted: {artifact_id} is {version} now",
    )


@app.command("show")
def show(
    session_id: SessionId,
    *,
    events: Annotated[
        int, typer.Option(min=0, max=500, help="How many of its last events.")
    ] = EVENTS_SHOWN,
    as_json: AsJson = False,
) -> None:
    """Show where a session stands: status, what it waits for, what may be asked of it, its last events."""
    from .showing import find_session, show_session

    given = settings()
    found = find_session(given, session_id, events_max=events)
    show_session(found, as_json=as_json)


def _derived(given: Settings, idempotency_key: str) -> str:
    from ...commands.client import session_id_of

    return session_id_of(given.tenant, idempotency_key)


def _status(text: str) -> str:
    from ...events.state import Status

    known = [str(value) for name, value in vars(Status).items() if name.isupper()]
    for status in known:
        if status.lower() == text.lower():
            return status
    raise Stopped(Exit.USAGE, f"--status {text!r}: expected one of {', '.join(known)}")


def _shown_status(row: dict[str, Any]) -> str:
    return f"{row['status']} (held)" if row["held_reason"] else str(row["status"])


def _awaited(waiting_for: list[dict[str, Any]]) -> str:
    return ", ".join(f"{w['kind']} {w['name']}" for w in waiting_for) or "-"
