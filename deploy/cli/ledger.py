"""`ledger`: what was done in the world's eyes: one row per step, who approved it, how it ended, and what it took."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ...events.verdicts import EXEMPT
from ..exits import Exit, Stopped
from .asking import OfSession, OnlySession, one_session
from .context import AsJson, check_limit, check_session, settings

STATUSES = ("requested", "retrying", "withheld", "completed", "failed", "uncertain", "cancelled")


def ledger(
    session_id: OfSession = None,
    *,
    only: OnlySession = None,
    status: Annotated[str | None, typer.Option(help=f"{', '.join(STATUSES)}.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Asked for in the last 30s, 10m, 2h or 7d.")
    ] = None,
    limit: Annotated[int, typer.Option(help="The newest so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the steps that were taken, the oldest first: contract, attempts, status, who approved, and the time it took.

    The time runs from the request to the end, retries and rests included; of what has not ended, until now.
    """
    from ..clock import SystemClock
    from ..telling.text import span
    from .context import queries
    from .output import note, table, write_json
    from .typed import ago_ms

    given, session_id = settings(), one_session(session_id, only)
    check_limit(limit, most=1_000)
    if status is not None and status.lower() not in STATUSES:
        raise Stopped(Exit.USAGE, f"--status {status!r}: expected one of {', '.join(STATUSES)}")
    now_ms = SystemClock().now_ms()
    since_ms = None if since is None else now_ms - ago_ms("--since", since)
    with queries(given) as views:
        rows = views.newest_steps(
            tenant=given.tenant,
            session_id=session_id,
            status=None if status is None else status.lower(),
            since=None if since_ms is None else datetime.fromtimestamp(since_ms / 1000, UTC),
            limit=limit,
        )
        if session_id is not None and not rows:
            check_session(given, views, session_id)
    for row in rows:
        row["took_ms"] = took_ms(row, now_ms)
    if as_json:
        write_json(rows)
        return
    table(
        (
            *("asked for", "session", "activity", "name", "contract", "attempts", "status"),
            *("approved by", "took"),
        ),
        [
            (
                *(row["requested_at"], row["session_id"], row["activity_id"], row["action"]),
                *(row["contract"], row["attempts"], row["status"], approved(row)),
                f"{span(row['took_ms'])}{'' if row['settled_at'] else ' so far'}",
            )
            for row in rows
        ],
    )
    if not rows:
        note("no such steps" if status or since else "no steps were taken yet")


def took_ms(row: dict[str, Any], now_ms: int) -> int:
    """From the request to the end, or until now; never below 0, whatever the clocks say."""
    asked_ms = int(row["requested_at"].timestamp() * 1000)
    ended = row["settled_at"]
    return max(0, (now_ms if ended is None else int(ended.timestamp() * 1000)) - asked_ms)


def approved(row: dict[str, Any]) -> str | None:
    """Who approved it: a name, or why nobody had to."""
    if row["approved_by"]:
        return str(row["approved_by"])
    return "nobody had to" if row["approval"] == EXEMPT else None
