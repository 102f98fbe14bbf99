"""One session: its story as a timeline, why it waits, what may happen next, and what may be asked of it from here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from ....commands.client import Client
from ....commands.models import CommandBody
from ....events.keys import session_key
from ....events.records import Payload
from ....events.state import State
from ....projections.queries import Queries
from ...telling.dealing import letters_of
from ...telling.explained import Found, explained, folded
from ...telling.story import tell
from ..principals import May
from ..problems import Problem
from ..reads import session_row
from ..resetting import state_left
from .asking import ask, caught_up, verdict_of
from .mending import attempt_of, mending, turn_of, version_of
from .pages import ms_of, render, url
from .timeline import timeline
from .visits import Looking, Posting, Visit

router = APIRouter()

TURNS_SHOWN = 10
"""The newest turns; the others a link shows."""

TURNS_MAX = 500

SKEW_MS = 1_000
"""The log's clocks differ a little."""

ROWS_MAX = 100

TEXT_MAX = 20_000

Text = Annotated[str, Form(max_length=TEXT_MAX)]


@router.get("/sessions/{session_id}")
def page(
    request: Request,
    visit: Looking,
    session_id: str,
    command: str = "",
    at: str = "",
    turns: int = TURNS_SHOWN,
) -> Response:
    """The page; with `command` also what became of what was asked here, and `at` where the views show it."""
    caught_up(visit, at)
    told, state = _looked(visit, session_id, turns)
    told["verdict"] = verdict_of(visit, session_id, command) if command else None
    if visit.may(May.OPERATE):
        told["mending"] = mending(visit, session_id, state)
    return render(request, visit, "session.html", command=command, **told)


@router.get("/live/sessions/{session_id}")
def live(
    request: Request, visit: Looking, session_id: str, seq: int = -1, turns: int = TURNS_SHOWN
) -> Response:
    """Its part that changes; nothing while nothing did."""
    if _row(visit, session_id)["seq"] == seq:
        return Response(status_code=204)
    told, _ = _looked(visit, session_id, turns)
    return render(request, visit, "session_part.html", verdict=None, command="", **told)


@router.get("/live/verdict/{session_id}/{command_id}")
def verdict(request: Request, visit: Looking, session_id: str, command_id: str) -> Response:
    """What became of a command, once there is something."""
    found = verdict_of(visit, session_id, command_id)
    page = {"verdict": found, "command": command_id, "session_id": session_id}
    return render(request, visit, "verdict_part.html", **page)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a form of the page says; `left` gives the state that a turn has left."""

    text: str
    name: str
    activity_id: str
    left: Callable[[int], Payload | None]


Body = Callable[[Client, Asked], CommandBody]

ASKS: dict[str, tuple[May, Body]] = {
    "message": (May.ASK, lambda client, said: client.message(_needed(said.text))),
    "signal": (May.ASK, lambda client, said: client.signal_body(said.name, _json(said.text))),
    "job-completed": (
        May.DELIVER,
        lambda client, said: client.job_body(said.activity_id, _json(said.text)),
    ),
    "job-failed": (
        May.DELIVER,
        lambda client, said: client.failed_job_body(said.activity_id, _reason(said.text)),
    ),
    "cancel": (May.OPERATE, lambda client, said: client.cancel_body(said.text)),
    "release": (May.OPERATE, lambda client, said: client.release_body(said.text)),
    "recover": (
        May.OPERATE,
        lambda client, said: client.recovery_body(said.text, **attempt_of(said.activity_id)),
    ),
    "reset": (
        May.OPERATE,
        lambda client, said: client.reset_body(
            turn_of(said.name), said.left(turn_of(said.name)), reason=said.text
        ),
    ),
    "pin": (
        May.OPERATE,
        lambda client, said: client.pin_body(version_of(said.name), said.text),
    ),
    "completed": (
        May.OPERATE,
        lambda client, said: client.resolution_body(
            said.activity_id, "completed", _json(said.text), said.name
        ),
    ),
    "failed": (
        May.OPERATE,
        lambda client, said: client.resolution_body(said.activity_id, "failed", None, said.name),
    ),
}
"""What may be asked from the page: the permission, and the command."""


@router.post("/sessions/{session_id}/ask/{what}")
def asked_for(
    request: Request,
    visit: Posting,
    session_id: str,
    what: str,
    text: Text = "",
    name: Text = "",
    activity_id: Text = "",
    once: Text = "",
) -> Response:
    """Sends the command, waits a moment for the verdict, and shows it on the session's page."""
    if what not in ASKS:
        raise Problem(404, "unknown_action", f"nothing is called {what!r} here")
    permission, body_of = ASKS[what]
    visit.principal.require(permission)
    _row(visit, session_id)
    client = visit.services.client(visit.principal)
    left = partial(state_left, visit.services, visit.principal, session_id)
    body = body_of(client, Asked(text, name, activity_id, left))
    found = ask(visit, request, once, session_id, body)
    return RedirectResponse(
        url("sessions", session_id, command=found.command_id, at=found.position), 303
    )


def _found(views: Queries, visit: Visit, session_id: str) -> dict[str, Any]:
    try:
        return session_row(views, session_id, visit.principal.tenant)
    except Problem as unknown:  # in a page's words
        told = f"no session {session_id[:128]!r} here"
        raise Problem(unknown.status, unknown.reason, told) from None


def _row(visit: Visit, session_id: str) -> dict[str, Any]:
    with visit.services.queries(visit.principal) as views:
        return _found(views, visit, session_id)


def _looked(visit: Visit, session_id: str, turns: int) -> tuple[dict[str, Any], State | None]:
    """What the page shows of it, and its state where all of its events are there."""
    with visit.services.queries(visit.principal) as views:
        row = _found(views, visit, session_id)
        mine = {"tenant": visit.principal.tenant, "session_id": session_id}
        approvals = views.approvals(**mine, limit=ROWS_MAX)
        doubts = views.ledger(**mine, in_doubt=True, limit=ROWS_MAX)
    opened_ms = ms_of(row["opened_at"]) or 0
    events = visit.events(session_id, row["seq"])
    state = folded(events)
    told = explained(
        Found(row, approvals, doubts),
        tell(events),
        state,
        _letters(visit, session_id, opened_ms),
    )
    shown = timeline(events)
    turns = max(1, min(turns, TURNS_MAX))
    page = {
        "now_ms": visit.console.now_ms,
        "row": row,
        "session_id": session_id,
        "told": told,
        "turns": list(reversed(shown[-turns:])),
        "earlier": max(0, len(shown) - turns),
        "turns_max": TURNS_MAX,
        "turns_asked": turns,
        "approvals": approvals,
        "ended": row["status"] in ("Completed", "Failed", "Cancelled"),
    }
    return page, state


def _letters(visit: Visit, session_id: str, since_ms: int) -> list[Any]:
    """What was not let in, where the session waits for something: that may be why."""
    services = visit.services
    key = session_key(visit.principal.tenant, session_id)
    return letters_of(services.log, services.topics, key, max(0, since_ms - SKEW_MS))


def _needed(text: str) -> Any:
    if not text.strip():
        raise Problem(422, "empty_message", "write a message first")
    return text


def _reason(text: str) -> str:
    if not text.strip():
        raise Problem(422, "no_reason", "say why it will not be done")
    return text.strip()


def _json(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(
            422, "invalid_json", f"{text[:80]!r} is no JSON ({error}): a text needs quotation marks"
        ) from None
