"""`approval`: list, approve, reject, edit, respond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..exits import Exit, Stopped
from .asking import Actor, Detach, Timeout, Wait, of_session
from .context import AsJson, check_limit, check_session, settings

if TYPE_CHECKING:
    from ..settings import Settings

app = typer.Typer(
    help="Approvals: what agents want to do and may not do alone.", no_args_is_help=True
)

OPEN_MAX = 1_000
"""Open proposals that are looked through for an id."""

STATUSES = (
    *("requested", "granted", "rejected", "answered", "voided", "expired", "withdrawn"),
    "all",
)

DONE = {"approve": "approved", "reject": "rejected", "edit": "edited", "respond": "answered"}

ProposalId = Annotated[
    str, typer.Argument(metavar="PROPOSAL", help="The proposal's id, as 'approval list' shows it.")
]
SessionOf = Annotated[
    str | None,
    typer.Option(
        "--session", help="Its session, where the id alone is not enough.", callback=of_session
    ),
]
Digest = Annotated[
    str | None,
    typer.Option(help="Hex digest of the action; with --session, Postgres is not asked."),
]
Comment = Annotated[str, typer.Option(help="For the record, and for the agent.")]


@app.command("list")
def list_(
    *,
    session_id: Annotated[
        str | None, typer.Option("--session", help="Of one session.", callback=of_session)
    ] = None,
    status: Annotated[str, typer.Option(help=", ".join(STATUSES) + ".")] = "requested",
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List approvals, the oldest first: those that wait for a decision, unless --status says otherwise."""
    from ..telling.text import shown_text
    from .context import queries
    from .output import note, table, write_json
    from .repeats import add_voids, asked_because
    from .showing import catch_up

    given = settings()
    check_limit(limit, most=1_000)
    if status not in STATUSES:
        raise Stopped(Exit.USAGE, f"--status {status!r}: expected one of {', '.join(STATUSES)}")
    with queries(given) as views:
        notes = catch_up(given, views, session_id)
        rows = views.approvals(
            tenant=given.tenant,
            session_id=session_id,
            status=None if status == "all" else status,
            limit=limit,
        )
        add_voids(views, given.tenant, rows)
        if session_id is not None and not rows:
            check_session(given, views, session_id)
    for told in notes:
        note(told)
    if as_json:
        write_json(rows)
        return
    table(
        ("proposal", "session", "action", "arguments", "approver", "status", "expires"),
        [
            (
                row["proposal_id"],
                row["session_id"],
                row["action"],
                shown_text(row["arguments"]),
                row["approver"],
                row["status"],
                row["expires_at"],
            )
            for row in rows
        ],
    )
    for row in rows:
        if why := asked_because(row):
            typer.echo(f"{row['proposal_id']}: {why}")
    if not rows:
        note(f"no approval is {status}" if status != "all" else "no approvals")


@app.command("approve")
def approve(
    proposal_id: ProposalId,
    *,
    session_id: SessionOf = None,
    digest: Digest = None,
    comment: Comment = "",
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Approve one proposed action: exactly the one with the digest that is stored, or given."""
    return _decide(
        proposal_id,
        session_id,
        digest,
        "approve",
        comment=comment,
        actor=actor,
        wait=wait,
        timeout=timeout,
        detach=detach,
        as_json=as_json,
    )


@app.command("reject")
def reject(
    proposal_id: ProposalId,
    *,
    session_id: SessionOf = None,
    digest: Digest = None,
    comment: Comment = "",
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Decline one proposed action; the agent is told, and goes on without it."""
    return _decide(
        proposal_id,
        session_id,
        digest,
        "reject",
        comment=comment,
        actor=actor,
        wait=wait,
        timeout=timeout,
        detach=detach,
        as_json=as_json,
    )


@app.command("edit")
def edit(
    proposal_id: ProposalId,
    arguments: Annotated[
        str,
        typer.Argument(
            metavar="JSON", help="All arguments as they should be, by name; '-' reads them."
        ),
    ],
    *,
    session_id: SessionOf = None,
    digest: Digest = None,
    comment: Comment = "",
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Change the arguments of one proposed action, and approve what it is then; the one that was shown is void."""
    from . import typed

    data = typed.json_value("the object of arguments", arguments)
    if not isinstance(data, dict):
        raise Stopped(
            Exit.USAGE, f'the arguments are an object, such as {{"cents": 5}}, got {arguments!r}'
        )
    return _decide(
        proposal_id,
        session_id,
        digest,
        "edit",
        data=data,
        comment=comment,
        actor=actor,
        wait=wait,
        timeout=timeout,
        detach=detach,
        as_json=as_json,
    )


@app.command("respond")
def respond(
    proposal_id: ProposalId,
    answer: Annotated[
        str, typer.Argument(metavar="TEXT", help="What the agent is told; '-' reads it.")
    ],
    *,
    session_id: SessionOf = None,
    digest: Digest = None,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Tell the agent something instead of deciding; nothing is approved, and it may ask again."""
    from . import typed

    return _decide(
        proposal_id,
        session_id,
        digest,
        "respond",
        data=typed.text("the answer", answer),
        comment="",
        actor=actor,
        wait=wait,
        timeout=timeout,
        detach=detach,
        as_json=as_json,
    )


def _decide(
    proposal_id: str,
    session_id: str | None,
    digest: str | None,
    decision: Literal["approve", "reject", "edit", "respond"],
    *,
    data: Any = None,
    comment: str,
    actor: str | None,
    wait: bool,
    timeout: float,
    detach: bool,
    as_json: bool,
) -> int:
    from .asking import ask_and_tell

    if session_id is None or digest is None:
        row = _find(settings(), proposal_id, session_id)
        session_id, digest = row["session_id"], digest or row["digest"]
    session, hexed = str(session_id), str(digest)
    return ask_and_tell(
        session,
        lambda client: client.decide(session, proposal_id, hexed, decision, comment, data=data),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        as_json=as_json,
        done=DONE[decision],
        approves=proposal_id if decision in ("approve", "edit") else None,
    )


def _find(given: Settings, proposal_id: str, session_id: str | None) -> dict[str, Any]:
    """The proposal in the views: an open one by preference, so that a decided one is refused by the log's word."""
    from .context import queries

    with queries(given) as views:
        for status in ("requested", None):
            rows = [
                row
                for row in views.approvals(
                    tenant=given.tenant, session_id=session_id, status=status, limit=OPEN_MAX
                )
                if row["proposal_id"] == proposal_id
            ]
            if len(rows) == 1:
                return rows[0]
            if rows:
                sessions = ", ".join(sorted(str(row["session_id"]) for row in rows)[:5])
                raise Stopped(
                    Exit.USAGE,
                    f"{len(rows)} sessions propose {proposal_id}: name one with --session ({sessions})",
                )
    of = f" of session {session_id}" if session_id else ""
    raise Stopped(
        Exit.NOT_FOUND, f"no proposal {proposal_id!r}{of}: see 'wakeful approval list --status all'"
    )
