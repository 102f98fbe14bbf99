"""`session recover` and `session held`: what stands still, and what is kept until somebody mends it."""

from __future__ import annotations

from typing import Annotated

import typer

from ..telling.text import last_line
from .asking import Actor, CommandId, Detach, SessionId, ask_and_tell
from .context import AsJson, check_limit, queries, settings
from .output import note, table, write_json


def recover(
    session_id: SessionId,
    *,
    activity: Annotated[
        str,
        typer.Option(help="The activity that has stalled, such as 2.1; without it, the session."),
    ] = "",
    attempt: Annotated[int, typer.Option(min=0, help="Its attempt that has stalled.")] = 0,
    reason: Annotated[str, typer.Option(help="What was seen, for the record.")] = "",
    command_id: CommandId = None,
    actor: Actor = None,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Give up an attempt that has stalled, or drive a session again that should go on and does not."""
    return ask_and_tell(
        session_id,
        lambda client: client.recover(
            session_id, reason, activity_id=activity, attempt=attempt, command_id=command_id
        ),
        actor=actor,
        detach=detach,
        as_json=as_json,
        done="recovered",
    )


def held(
    *,
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the sessions that are held, and why; 'explain' says what to do about each."""
    given = settings()
    check_limit(limit, most=1_000)
    with queries(given) as views:
        rows = views.sessions(tenant=given.tenant, status="Recovering", limit=limit)
    if as_json:
        write_json(rows)
        return
    table(
        ("session", "workflow", "held since", "reason", "why"),
        [
            (
                row["session_id"],
                row["workflow"],
                row["updated_at"],
                row["held_reason"],
                last_line(row["held_detail"] or ""),
            )
            for row in rows
        ],
    )
    if not rows:
        note(f"no session of tenant {given.tenant} is held")
