"""From a form to a command, by the same way as over HTTP: once, however often the form is sent, and with its verdict."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from fastapi import Request

from ....commands.models import CommandBody
from ....events.errors import InvalidKey, Transient
from ....projections.tokens import positions_of
from ..delivering import Asked, deliver, keyed_id
from ..fates import fate_of
from ..problems import Problem
from ..terms import Terms
from .visits import Visit

VIEWS_MS = 3_000
"""How long a page waits for the views to show what was asked for from it."""

POSITION_MAX = 4_000

WAIT_S = 8
"""How long a form waits for the verdict; a page that has none shows it as soon as it is there."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a command: its `state` as over HTTP (`applied`, `refused`, `kept`, `held`, `repeat`, `undecided`)."""

    command_id: str
    state: str
    reason: str = ""
    words: str = ""
    position: str = ""


def ask(
    visit: Visit,
    request: Request,
    once: str,
    session_id: str,
    body: CommandBody,
    command_id: str | None = None,
) -> Verdict:
    """Hands the command to the log, and waits a moment for its verdict. A form that is sent again does nothing again.

    `once` is the form's own word; `Problem` says why nothing was sent.
    """
    if not once:
        raise Problem(422, "form_without_id", "this form is not from here: open the page again")
    id_ = command_id or keyed_id(visit.principal, f"{request.method} {request.url.path}", once)
    asked = Asked(session_id, body, Terms(key=once, wait_s=WAIT_S), id_, _reused)
    told = json.loads(bytes(deliver(visit.services, visit.principal, asked).body))
    return Verdict(
        told["command_id"],
        told.get("state", "undecided"),
        told.get("reason", ""),
        told.get("detail", ""),
        told.get("position", ""),
    )


def caught_up(visit: Visit, position: str) -> None:
    """Returns once the views have what a command led to, or after a moment: then they show what they have."""
    if not position:
        return
    with suppress(Transient, InvalidKey), visit.services.queries(visit.principal) as views:
        wanted = positions_of(visit.services.topics.events, position[:POSITION_MAX])
        views.wait_for(wanted, timeout_ms=VIEWS_MS)


def verdict_of(visit: Visit, session_id: str, command_id: str) -> Verdict | None:
    """What became of a command by now; null where there is no trace of one."""
    try:
        found = fate_of(visit.services, visit.principal, session_id, command_id, None)
    except Problem:
        return None
    return Verdict(command_id, found.state, found.reason or "", found.detail or "")


def _reused() -> Problem:
    return Problem(
        409,
        "form_sent_before",
        "this form was sent before, with something else in it: open the page again, and send it from there",
    )
