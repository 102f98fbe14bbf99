"""The list of sessions: filters, pages by a cursor, and a form that opens one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from ....projections.overview import STATUSES
from ..principals import May
from ..problems import Problem
from .pages import render, url
from .verdicts import await_verdict
from .visits import Looking, Posting, Visit

router = APIRouter()

PAGE = 50
"""Rows of one page."""


@router.get("/sessions")
def page(
    request: Request, visit: Looking, status: str = "", q: str = "", after: str = ""
) -> Response:
    """One page of them, the one with the latest event first."""
    return render(request, visit, "sessions.html", **_listed(visit, status, q.strip(), after))


@router.post("/sessions")
def open_one(
    visit: Posting,
    workflow: Annotated[str, Form(max_length=200)],
    session_id: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Opens a session, and goes to it once it is there."""
    visit.principal.require(May.ASK)
    client = visit.services.client(visit.principal)
    receipt = client.open(workflow.strip(), session_id.strip() or None)
    found = await_verdict(visit, receipt)
    if found.kind == "refused" and found.reason == "unknown_workflow":
        raise Problem(422, found.reason, found.words)
    return RedirectResponse(url("sessions", receipt.session_id, command=receipt.command_id), 303)


def _listed(visit: Visit, status: str, wanted: str, after: str) -> dict[str, Any]:
    with visit.services.queries(visit.principal) as views:
        if wanted:
            rows = views.session(wanted)
        else:
            rows = views.sessions(status=status or None, limit=1_000)
    start = int(after) if after.isdecimal() else 0
    return {
        "now_ms": visit.console.now_ms,
        "rows": rows[start : start + PAGE],
        "status": status,
        "statuses": STATUSES,
        "q": wanted,
        "after": after,
        "following": str(start + PAGE) if len(rows) > start + PAGE else "",
    }
