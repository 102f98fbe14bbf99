"""The ledger: what was done in the world's eyes, with filters, and as a file for whoever counts it elsewhere."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from ....events.keys import ID
from ...telling.text import plain
from ..problems import Problem
from .pages import ms_of, render
from .visits import Looking, Visit

router = APIRouter()

STATUSES = ("requested", "retrying", "withheld", "completed", "failed", "uncertain", "cancelled")

SINCE = {"15m": 900_000, "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000, "all": None}

PAGE = 100

FILE_MAX = 1_000
"""Rows of one file."""

COLUMNS = (
    *("requested_at", "session_id", "activity_id", "turn", "step", "action", "contract", "status"),
    *("attempts", "asked_by", "on_behalf_of", "approved_by", "proposal_id", "settled_at"),
    *(
        "idempotency_key",
        "digest",
        "result_digest",
        "worker",
        "recovered",
        "resolved_by",
        "comment",
    ),
)

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell must not begin with: a spreadsheet would run it."""


@router.get("/ledger")
def page(
    request: Request, visit: Looking, session: str = "", status: str = "", since: str = "24h"
) -> Response:
    """The newest steps that fit."""
    rows = list(reversed(_rows(visit, session.strip(), status, since, PAGE)))
    now_ms = visit.console.now_ms
    for row in rows:
        ended = ms_of(row["settled_at"])
        row["took_ms"] = max(
            0, (now_ms if ended is None else ended) - (ms_of(row["requested_at"]) or 0)
        )
    told: dict[str, Any] = {
        "session": session.strip(),
        "status": status,
        "since": since,
        "rows": rows,
    }
    told |= {"statuses": STATUSES, "sinces": tuple(SINCE), "most": PAGE, "now_ms": now_ms}
    return render(request, visit, "ledger.html", **told)


@router.get("/ledger.{form}")
def download(
    visit: Looking,
    form: Literal["csv", "ndjson"],
    session: str = "",
    status: str = "",
    since: str = "24h",
) -> Response:
    """The same as a file, the oldest first."""
    rows = _rows(visit, session.strip(), status, since, FILE_MAX)
    write, kind = (_csv, "text/csv") if form == "csv" else (_ndjson, "application/x-ndjson")
    name = f"ledger-{datetime.fromtimestamp(visit.console.now_ms / 1000, UTC):%Y%m%dT%H%M%S}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write(rows), media_type=f"{kind}; charset=utf-8", headers=headers)


def _rows(visit: Visit, session: str, status: str, since: str, limit: int) -> list[dict[str, Any]]:
    if status and status not in STATUSES:
        raise Problem(422, "unknown_status", f"status {status!r} is none: {', '.join(STATUSES)}")
    if since not in SINCE:
        raise Problem(422, "unknown_span", f"since {since!r} is none: {', '.join(SINCE)}")
    if session and ID.fullmatch(session) is None:
        return []
    back = SINCE[since]
    at = None
    if back is not None:
        at = datetime.fromtimestamp((visit.console.now_ms - back) / 1000, UTC)
    with visit.services.queries(visit.principal) as views:
        return views.newest_steps(
            session_id=session or None, status=status or None, since=at, limit=limit
        )


def _csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A heading, then a line each."""
    beside = io.StringIO()
    writer = csv.writer(beside)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in COLUMNS])
        yield beside.getvalue()
        beside.seek(0)
        beside.truncate()
    yield beside.getvalue()


def _cell(value: Any) -> str:
    """A value as a spreadsheet may read it, and never as something to carry out."""
    if value is None:
        return ""
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    text = text.encode("utf-8", "backslashreplace").decode()
    return f"'{text}" if text.startswith(FORMULA) else text


def _ndjson(rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        text = json.dumps(row, default=plain, ensure_ascii=False)
        yield text.encode("utf-8", "backslashreplace") + b"\n"
