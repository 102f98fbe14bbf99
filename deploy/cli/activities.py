"""`activity`: list, resolve."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from ..exits import Exit, Stopped
from .asking import (
    Actor,
    CommandId,
    Detach,
    OfSession,
    OnlySession,
    SessionId,
    Timeout,
    Wait,
    one_session,
)
from .context import AsJson, check_limit, check_session, settings

app = typer.Typer(
    help="Activities: the calls of tools and models, and those of which nobody knows how they ended.",
    no_args_is_help=True,
)

Resolution = Literal["completed", "failed"]


@app.command("list")
def list_(
    session_id: OfSession = None,
    *,
    only: OnlySession = None,
    uncertain: Annotated[
        bool,
        typer.Option(
            "--uncertain", help="Only those that wait for somebody to say how they ended."
        ),
    ] = False,
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List activities in the order of their sessions: how each stands, since when, and what to do about it."""
    from .context import queries
    from .output import note, table, write_json

    given, session_id = settings(), one_session(session_id, only)
    check_limit(limit, most=1_000)
    with queries(given) as views:
        rows = views.ledger(
            tenant=given.tenant,
            session_id=session_id,
            in_doubt=uncertain,
            limit=limit,
        )
        if session_id is not None and not rows:
            check_session(given, views, session_id)
    for row in rows:
        row["next"] = what_to_do(row)
    if as_json:
        write_json(rows)
        return
    table(
        ("activity", "session", "name", "contract", "status", "attempts", "since", "what to do"),
        [
            (
                row["activity_id"],
                row["session_id"],
                row["action"],
                row["contract"],
                row["status"],
                row["attempts"],
                row["since"],
                row["next"] or "-",
            )
            for row in rows
        ],
    )
    if not rows:
        note("no activity waits to be resolved" if uncertain else "no activities")


@app.command("resolve")
def resolve(
    session_id: SessionId,
    activity_id: Annotated[
        str,
        typer.Argument(metavar="ACTIVITY", help="The activity's id, as 'activity list' shows it."),
    ],
    *,
    completed: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="It was done, with this result; '-' reads it from stdin."
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It was not done.")] = False,
    comment: Annotated[str, typer.Option(help="How you know, for the record.")] = "",
    command_id: CommandId = None,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Say what became of an uncertain activity, once you have looked where it would have left its mark."""
    from ...commands import inputs
    from . import typed
    from .asking import ask_and_tell

    if (completed is None) == (not failed):
        raise Stopped(
            Exit.USAGE, "say what became of it: --completed JSON with its result, or --failed"
        )
    inputs.activity_id(activity_id)
    resolution: Resolution = "failed" if completed is None else "completed"
    result = None if completed is None else typed.json_value("--completed", completed)
    return ask_and_tell(
        session_id,
        lambda client: client.resolve(
            session_id, activity_id, resolution, result, comment, command_id=command_id
        ),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        as_json=as_json,
        done=f"resolved: {activity_id} is {resolution}",
    )


def what_to_do(row: dict[str, Any]) -> str:
    """The next step about a row of the ledger; empty where there is none."""
    from ..telling.words import resolving

    if row["status"] == "uncertain":
        if row["in_doubt"]:
            return resolving(row["session_id"], row["activity_id"])
        told = row["on_uncertain"] == "raise"
        return f"nothing: its {'workflow was told' if told else 'turn is over'}"
    if row["status"] == "retrying":
        return "nothing: it is tried again"
    if row["status"] == "withheld":
        return f"decide on approval {row['proposal_id']}"
    if row["status"] == "requested":
        return f"nothing: it runs{', ' + row['progress'] if row['progress'] else ''}"
    return ""
