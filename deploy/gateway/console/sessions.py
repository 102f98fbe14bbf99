"""The list of sessions: filters, pages by a cursor, and a form that opens one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from ....events.attributes import InvalidAttribute
from ....events.attributes import wanted as term_of
from ....projections.counts import STATUSES
from ....projections.listings import SESSIONS
from ....projections.sessions import WAITS
from ..principals import May
from ..problems import Problem
from ..viewing import page_of
from .asking import ask
from .pages import render, url
from .visits import Looking, Posting, Visit

router = APIRouter()

PAGE = 50
"""Rows of one page."""

CHOICES = (*STATUSES, "held", *(f"waits for {kind}" for kind in WAITS))
"""What the list may be confined to."""


@router.get("/sessions")
def page(
    request: Request,
    visit: Looking,
    show: str = "",
    workflow: str = "",
    q: str = "",
    attribute: str = "",
    after: str = "",
) -> Response:
    """One page of them, the one with the latest event first; by the start of their ids, or by attributes, where that is asked for."""
    asked = show, workflow.strip(), q.strip(), attribute.strip()
    try:
        told = _listed(visit, *asked, after)
    except InvalidAttribute as error:  # what was typed stays in the form
        told = {**_form(visit, *asked), "wrong": error.message, "status_code": 422}
    return render(request, visit, "sessions.html", **told)


@router.post("/sessions")
def open_one(
    request: Request,
    visit: Posting,
    workflow: Annotated[str, Form(max_length=200)],
    session_id: Annotated[str, Form(max_length=200)] = "",
    once: Annotated[str, Form(max_length=64)] = "",
) -> Response:
    """Opens a session, and goes to it once it is there."""
    visit.principal.require(May.ASK)
    client = visit.services.client(visit.principal)
    id_, body, command_id = client.opening(workflow.strip(), session_id.strip() or None)
    found = ask(visit, request, once, id_, body, command_id)
    if found.state == "refused":
        raise Problem(422, found.reason, found.words)
    return RedirectResponse(url("sessions", id_, command=found.command_id, at=found.position), 303)


def _listed(
    visit: Visit, show: str, workflow: str, start: str, attribute: str, after: str
) -> dict[str, Any]:
    if show and show not in CHOICES:
        raise Problem(422, "unknown_filter", f"show {show!r} is none: {', '.join(CHOICES)}")
    wanted: dict[str, str | int] = {}
    if start:
        wanted = {"id_prefix": start}
    elif attribute:
        wanted = {"attributes": term_of(one.strip() for one in attribute.split("&"))}
    elif show == "held":
        wanted = {"held": 1}
    elif show in STATUSES:
        wanted = {"status": show}
    elif show:
        wanted = {f"waiting_{show.removeprefix('waits for ')}": 1}
    if workflow and not start and not attribute:
        wanted["workflow"] = workflow
    with visit.services.queries(visit.principal) as views:
        found = page_of(
            views, visit.console.cursors, SESSIONS, wanted, limit=PAGE, cursor=after or None
        )
    form = _form(visit, show, workflow, start, attribute)
    return {**form, "rows": found.rows, "after": after, "following": found.next_cursor or ""}


def _form(visit: Visit, show: str, workflow: str, start: str, attribute: str) -> dict[str, Any]:
    """The page with what was asked for, and no rows."""
    asked = {"show": show, "workflow": workflow, "q": start, "attribute": attribute}
    nothing = {"rows": [], "after": "", "following": "", "wrong": ""}
    return {"now_ms": visit.console.now_ms, "choices": CHOICES, **asked, **nothing}
