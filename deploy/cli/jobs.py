"""`job`: list, complete, fail."""

from __future__ import annotations

from typing import Annotated

import typer

from ..exits import Exit, Stopped
from .asking import Actor, CommandId, Detach, OfSession, OnlySession, Timeout, Wait, one_session
from .context import AsJson, check_limit, check_session, settings

app = typer.Typer(
    help="External jobs: work that somebody else does, and that a session waits for.",
    no_args_is_help=True,
)

JobId = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's id, as its session handed it out.")
]


@app.command("list")
def list_(
    session_id: OfSession = None,
    *,
    only: OnlySession = None,
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs that are awaited, the next to expire first; of one session all, and how they ended."""
    from .context import queries
    from .output import note, table, write_json

    given, session_id = settings(), one_session(session_id, only)
    check_limit(limit, most=1_000)
    with queries(given) as views:
        rows = views.ask(_JOBS, tenant=given.tenant, session_id=session_id, limit=limit)
        if session_id is not None and not rows:
            check_session(given, views, session_id)
    if as_json:
        write_json(rows)
        return
    table(
        ("job", "session", "name", "status", "since", "expires", "ended by"),
        [
            (
                row["job_id"],
                row["session_id"],
                row["name"],
                row["status"],
                row["awaited_at"],
                row["expires_at"],
                row["ended_by"] or "-",
            )
            for row in rows
        ],
    )
    if not rows:
        note("no job is awaited" if session_id is None else "no jobs")


_JOBS = """
SELECT * FROM {views}.jobs
WHERE tenant = %(tenant)s AND (session_id = %(session_id)s::text OR %(session_id)s::text IS NULL AND status = 'awaited')
ORDER BY expires_at_ms, session_id, job_id LIMIT %(limit)s
"""


@app.command("complete")
def complete(
    job_id: JobId,
    result: Annotated[
        str, typer.Argument(metavar="JSON", help="Its result; '-' reads it from stdin.")
    ] = "null",
    *,
    command_id: CommandId = None,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Say that a job is done, with its result."""
    from ...events.keys import session_of_job
    from . import typed
    from .asking import ask_and_tell

    value = typed.json_value("the result of the job", result)
    return ask_and_tell(
        session_of_job(job_id),
        lambda client: client.complete_job(job_id, value, command_id=command_id),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        as_json=as_json,
        done=f"completed: {job_id}",
    )


@app.command("fail")
def fail(
    job_id: JobId,
    message: Annotated[str, typer.Argument(metavar="TEXT", help="Why it will not be done.")],
    *,
    kind: Annotated[
        str, typer.Option("--type", help="A word for it, such as an error's class.")
    ] = "",
    command_id: CommandId = None,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Say that a job will not be done, and why."""
    from ...events.keys import session_of_job
    from . import typed
    from .asking import ask_and_tell

    told = typed.text("the reason", message)
    if not told.strip():
        raise Stopped(Exit.USAGE, "the reason is empty: say why the job will not be done")
    return ask_and_tell(
        session_of_job(job_id),
        lambda client: client.fail_job(job_id, told, kind, command_id=command_id),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        as_json=as_json,
        done=f"failed: {job_id}",
    )
