"""The inbox of approvals, and one approval in full; links to one that can be handed around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from ....projections.listings import APPROVALS
from ..principals import May
from ..problems import Problem
from ..viewing import page_of
from .asking import caught_up, verdict_of
from .drafts import edit_of
from .pages import render, url
from .proposals import Proposal, difference, edited, proposal_of
from .visits import Looking, Visit

router = APIRouter()

STATUSES = ("requested", "granted", "rejected", "answered", "voided", "expired", "withdrawn")

PAGE = 50
"""Rows of one page of the inbox."""

SHOWN_MAX = 200
"""Open ones among which the next to be decided is looked for."""

LINK_MS = 30 * 24 * 3_600_000
"""How long a link to an approval leads there."""


@router.get("/approvals")
def inbox(request: Request, visit: Looking, status: str = "requested", after: str = "") -> Response:
    """The open ones, the next to expire first; or those of another status, the newest first."""
    return render(request, visit, "approvals.html", **_listed(visit, status, after))


@router.get("/live/approvals")
def live(request: Request, visit: Looking, status: str = "requested", after: str = "") -> Response:
    """Its part that changes."""
    return render(request, visit, "approvals_part.html", **_listed(visit, status, after))


@router.get("/approvals/{session_id}/{proposal_id}")
def one(
    request: Request,
    visit: Looking,
    session_id: str,
    proposal_id: str,
    command: str = "",
    at: str = "",
    draft: str = "",
) -> Response:
    """One approval; with `command` also what became of the answer that was given here, and `at` where the views show it.

    With `draft` it has an edit in its form, and what is wrong with that.
    """
    caught_up(visit, at)
    found = proposal_of(visit, session_id, proposal_id)
    told: dict[str, Any] = {}
    edit = edit_of(visit, (session_id, proposal_id), draft) if draft else None
    if edit is not None and found.open:
        try:
            edited(edit["arguments"], found.arguments)
        except Problem as problem:
            told = wrong(problem, edit)
    return render(request, visit, "approval.html", **shown(visit, found, command, **told))


@router.get("/live/approvals/{session_id}/{proposal_id}")
def watched(
    request: Request,
    visit: Looking,
    session_id: str,
    proposal_id: str,
    seq: int = -1,
    was: str = "",
) -> Response:
    """What happened since the page was opened, which showed it as it `was`; nothing to be swapped while nothing did."""
    with visit.services.queries(visit.principal) as views:
        rows = views.session(session_id, tenant=visit.principal.tenant)
    if rows and rows[0]["seq"] == seq:
        return Response(status_code=204)
    found = proposal_of(visit, session_id, proposal_id)
    return render(request, visit, "approval_since.html", **shown(visit, found, "", was=was))


@router.get("/a/{word}")
def linked(visit: Looking, word: str) -> Response:
    """Leads whoever is signed in to the approval that a link names; the link itself lets nobody in."""
    said = visit.console.signer.open("approval", word, visit.console.now_ms)
    if said is None or said["tenant"] != visit.principal.tenant:
        told = "this link leads nowhere here: it is cut, too old, or another tenant's"
        raise Problem(404, "unknown_link", told)
    return RedirectResponse(url("approvals", said["session_id"], said["proposal_id"]), 303)


def wrong(problem: Problem, edit: Mapping[str, str]) -> dict[str, Any]:
    """What the page is told of an edit that cannot be sent."""
    return {"draft": edit["arguments"], "wrong": problem.detail, "comment": edit["comment"]}


def link_to(visit: Visit, session_id: str, proposal_id: str) -> str:
    """The path of a link to this approval."""
    body = {
        "tenant": visit.principal.tenant,
        "session_id": session_id,
        "proposal_id": proposal_id,
    }
    word = visit.console.signer.seal("approval", body, until_ms=visit.console.now_ms + LINK_MS)
    return url("a", word)


def shown(visit: Visit, found: Proposal, command: str, **more: Any) -> dict[str, Any]:
    """What the page of one approval is told."""
    row = found.row
    with visit.services.queries(visit.principal) as views:
        queue = page_of(
            views, visit.console.cursors, APPROVALS, {"open": 1}, limit=SHOWN_MAX, cursor=None
        ).rows
    places = [(one["session_id"], one["proposal_id"]) for one in queue]
    here = (row["session_id"], row["proposal_id"])
    at = places.index(here) if here in places else -1
    following = [place for place in places[at + 1 :] + places[: max(at, 0)] if place != here]
    verdict = verdict_of(visit, row["session_id"], command) if command else None
    diff = difference(found.arguments_before, found.arguments) if found.predecessor else []
    return {
        "now_ms": visit.console.now_ms,
        "found": found,
        "row": row,
        "diff": diff,
        "may_decide": visit.may(May.DECIDE) and found.open,
        "own": bool(row["requester"]) and row["requester"] == visit.principal.actor,
        "voted": visit.principal.actor in found.votes,
        "place": at + 1,
        "queue": len(places),
        "following": following[0] if following else None,
        "link": link_to(visit, *here),
        "command": command,
        "verdict": verdict,
        "was": row["status"],
        **more,
    }


def _listed(visit: Visit, status: str, after: str) -> dict[str, Any]:
    if status not in STATUSES:
        raise Problem(422, "unknown_status", f"status {status!r} is none: {', '.join(STATUSES)}")
    wanted: dict[str, str | int] = {"open": 1} if status == "requested" else {"status": status}
    with visit.services.queries(visit.principal) as views:
        position = views.position()  # first: what is shown is of then, or later
        found = page_of(
            views, visit.console.cursors, APPROVALS, wanted, limit=PAGE, cursor=after or None
        )
    return {
        "now_ms": visit.console.now_ms,
        "position": position,
        "rows": found.rows,
        "after": after,
        "following": found.next_cursor or "",
        "status": status,
        "statuses": STATUSES,
    }
