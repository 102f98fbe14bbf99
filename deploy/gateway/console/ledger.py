"""The ledger: what was done in the world's eyes, with filters, in pages, and as a file for whoever counts it elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from ....projections.listings import LEDGER
from .. import downloads
from ..downloads import DownloadAsked
from ..problems import Problem
from ..viewing import page_of
from .pages import ms_of, render
from .visits import Looking, Visit

router = APIRouter()

STATUSES = ("requested", "retrying", "withheld", "failed", "uncertain", "cancelled")
"""Nearly all steps are completed: that is no filter."""

SINCE = {
    "": None,
    "15 min": timedelta(minutes=15),
    "1 h": timedelta(hours=1),
    "24 h": timedelta(days=1),
    "7 d": timedelta(days=7),
}

PAGE = 100


@router.get("/ledger")
def page(
    request: Request,
    visit: Looking,
    session: str = "",
    status: str = "",
    action: str = "",
    since: str = "",
    after: str = "",
) -> Response:
    """One page of the steps that fit, the newest first; of one session in the order of its steps."""
    asked = _asked(visit, session, status, action, since)
    with visit.services.queries(visit.principal) as views:
        found = page_of(
            views, visit.console.cursors, LEDGER, asked.wanted(), limit=PAGE, cursor=after or None
        )
    now_ms = visit.console.now_ms
    for row in found.rows:
        ended = ms_of(row["settled_at"])
        until_ms = now_ms if ended is None else ended
        row["took_ms"] = max(0, until_ms - (ms_of(row["requested_at"]) or 0))
    told: dict[str, Any] = {"session": session, "status": status, "action": action, "since": since}
    told |= {"statuses": STATUSES, "sinces": tuple(SINCE), "rows": found.rows, "now_ms": now_ms}
    told |= {"after": after, "following": found.next_cursor or ""}
    return render(request, visit, "ledger.html", **told)


@router.get("/ledger.{form}")
def download(
    visit: Looking,
    form: Literal["csv", "ndjson"],
    session: str = "",
    status: str = "",
    action: str = "",
    since: str = "",
) -> Response:
    """All of it as a file."""
    asked = _asked(visit, session, status, action, since)
    write = downloads.as_csv if form == "csv" else downloads.as_ndjson
    with visit.services.queries(visit.principal) as views:
        return write(asked, views, visit.services, visit.principal, visit.console.cursors)


def _asked(visit: Visit, session: str, status: str, action: str, since: str) -> DownloadAsked:
    """The filters; `Problem` 422 names one that is none."""
    if since not in SINCE:
        raise Problem(422, "unknown_span", f"since {since!r} is none: {', '.join(SINCE)}")
    back = SINCE[since]
    at = None
    if back is not None:
        at = datetime.fromtimestamp(visit.console.now_ms / 1000, UTC) - back
    given = {"session_id": session.strip(), "status": status, "action": action.strip()}
    try:
        return DownloadAsked(
            **{name: value for name, value in given.items() if value},  # type: ignore[arg-type]
            requested_since=at,
        )
    except ValidationError as error:
        found = error.errors()[0]
        told = f"{found['loc'][0]}: {found['msg'].lower()}"
        raise Problem(422, "unknown_filter", told) from None
