"""The four answers to an approval: each is a command like any other, and none is sent from a page that is out of date."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from ....events.verdicts import APPROVE, EDIT, REJECT, RESPOND
from ..principals import May
from ..problems import Problem
from .approvals import shown, wrong
from .asking import ask
from .drafts import edit_of, word_of
from .pages import pretty, render, url
from .proposals import Proposal, changes, difference, edited, proposal_of
from .visits import Looking, Posting, Visit

router = APIRouter()

TEXT_MAX = 4_000
ARGUMENTS_MAX = 262_144

Text = Annotated[str, Form(max_length=TEXT_MAX)]
Json = Annotated[str, Form(max_length=ARGUMENTS_MAX)]


@router.post("/approvals/{session_id}/{proposal_id}/review")
def review(
    request: Request,
    visit: Posting,
    session_id: str,
    proposal_id: str,
    arguments: Json,
    was_shown: Json = "",
    comment: Text = "",
) -> Response:
    """Shows what an edit changes, before it is sent."""
    visit.principal.require(May.DECIDE)
    found = proposal_of(visit, session_id, proposal_id)
    if stale := changes(was_shown, found):
        return _stale(request, visit, found, stale)
    place = session_id, proposal_id
    edit = {"arguments": arguments, "was_shown": was_shown, "comment": comment}
    word = word_of(visit, place, edit)
    try:
        value = edited(arguments, found.arguments)
    except Problem as problem:
        if word:
            return RedirectResponse(url("approvals", *place, draft=word), 303)
        page = shown(visit, found, "", **wrong(problem, edit))
        return render(request, visit, "approval.html", status_code=422, **page)
    if word:
        return RedirectResponse(url("approvals", *place, "review", draft=word), 303)
    return _reviewed(request, visit, found, value, comment)


@router.get("/approvals/{session_id}/{proposal_id}/review")
def reviewed(
    request: Request, visit: Looking, session_id: str, proposal_id: str, draft: str = ""
) -> Response:
    """The same by its address, for whoever wrote the edit; the approval itself, where there is nothing to review any more."""
    visit.principal.require(May.DECIDE)
    found = proposal_of(visit, session_id, proposal_id)
    place = session_id, proposal_id
    edit = edit_of(visit, place, draft)
    if edit is None or not found.open:
        return RedirectResponse(url("approvals", *place), 303)
    if stale := changes(edit["was_shown"], found):
        return _stale(request, visit, found, stale)
    try:
        value = edited(edit["arguments"], found.arguments)
    except Problem:
        return RedirectResponse(url("approvals", *place, draft=draft), 303)
    return _reviewed(request, visit, found, value, edit["comment"])


@router.post("/approvals/{session_id}/{proposal_id}/decide")
def decide(
    request: Request,
    visit: Posting,
    session_id: str,
    proposal_id: str,
    decision: Annotated[str, Form(pattern=f"^({APPROVE}|{EDIT}|{RESPOND}|{REJECT})$")],
    was_shown: Json = "",
    comment: Text = "",
    answer: Text = "",
    arguments: Json = "",
    once: Text = "",
) -> Response:
    """Sends the answer, waits a moment for the session's verdict, and shows both on the approval's page."""
    visit.principal.require(May.DECIDE)
    found = proposal_of(visit, session_id, proposal_id)
    if stale := changes(was_shown, found):
        return _stale(request, visit, found, stale)
    data: Any = None
    try:
        if decision == EDIT:
            data = edited(arguments, found.arguments)
        elif decision == RESPOND:
            data = _said(answer)
    except Problem as problem:
        told = wrong(problem, {"arguments": arguments, "comment": comment})
        page = shown(visit, found, "", status_code=422, **told)
        return render(request, visit, "approval.html", **page)
    body = visit.services.client(visit.principal).decision_body(
        proposal_id,
        found.row["digest"],
        decision,  # the form's pattern has these four
        comment if decision != RESPOND else "",
        data,
    )
    asked = ask(visit, request, once, session_id, body)
    to = url("approvals", session_id, proposal_id, command=asked.command_id, at=asked.position)
    return RedirectResponse(to, 303)


def _reviewed(
    request: Request, visit: Visit, found: Proposal, value: dict[str, Any], comment: str
) -> Response:
    page = shown(visit, found, "", edit=pretty(value), comment=comment)
    page["lines"] = difference(found.arguments, value)
    return render(request, visit, "review.html", **page)


def _said(answer: str) -> str:
    if not answer.strip():
        raise Problem(422, "no_answer", "write what the agent is to be told")
    return answer.strip()


def _stale(request: Request, visit: Visit, found: Proposal, stale: list[str]) -> Response:
    page = shown(visit, found, "", stale=stale, status_code=409)
    return render(request, visit, "approval.html", **page)
