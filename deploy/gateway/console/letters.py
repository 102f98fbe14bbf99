"""Dead letters: what was not let in and why; an operator sends them back, or puts them away."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from ....commands.wire import decode_command
from ....events.errors import Undecodable
from ....events.headers import dead_letter_in
from ....events.log.protocol import Record
from ...exits import Exit, Stopped
from ...telling.dealing import Mark, deal, find_letter, id_of, why_not_sent_back
from ...telling.words import as_json
from ..letters import letters_page, names
from ..principals import May
from ..problems import Problem
from .pages import render, url
from .visits import Looking, Posting, Visit

router = APIRouter()

PAGE = 100

PREVIEW_BYTES = 2_048

DONE = {"redriven": "sent back", "dropped": "put away"}


@router.get("/dead-letters")
def page(
    request: Request,
    visit: Looking,
    all: str = "",  # noqa: A002 as the query has it
    after: str = "",
) -> Response:
    """One page of those that nobody has dealt with, the newest first; or also of those that somebody has."""
    visit.principal.require(May.OPERATE)
    found, following = letters_page(
        *(visit.services, visit.console.cursors, visit.principal.tenant),
        limit=PAGE,
        cursor=after or None,
        handled=bool(all),
    )
    rows = [_row(record, found.marks.get(id_of(record))) for record in found.records]
    told = {"rows": rows, "all": all, "now_ms": visit.console.now_ms}
    told |= {"after": after, "following": following or ""}
    return render(request, visit, "letters.html", **told)


@router.get("/dead-letters/{letter}")
def one(request: Request, visit: Looking, letter: str, done: str = "") -> Response:
    """One of them, with what its bytes say."""
    visit.principal.require(May.OPERATE)
    record, mark = _find(visit, letter)
    row = _row(record, mark)
    row["command"] = _command(record)
    row["preview"] = repr((record.value or b"")[:PREVIEW_BYTES])[2:-1]
    row["why_not"] = why_not_sent_back(record, visit.services.topics)
    told = {"row": row, "done": DONE.get(done, ""), "now_ms": visit.console.now_ms}
    return render(request, visit, "letter.html", **told)


@router.post("/dead-letters/{letter}/deal")
def deal_with(
    visit: Posting, letter: str, how: Annotated[Literal["redriven", "dropped"], Form()]
) -> Response:
    """Sends it back, byte for byte, or puts it away; a repeat does nothing."""
    visit.principal.require(May.OPERATE)
    record, _ = _find(visit, letter)
    topics = visit.services.topics
    if how == "redriven" and (why := why_not_sent_back(record, topics)):
        raise Problem(422, "not_sent_back", f"letter {letter} cannot be sent back: {why}")
    dealt = deal(visit.services.log, topics, [record], how, visit.principal.actor)
    if mark := dealt.before.get(letter):
        raise Problem(
            409,
            "dealt_with",
            f"letter {letter} was {mark.how} by {mark.by} before: nothing was done",
        )
    return RedirectResponse(url("dead-letters", letter, done=how), 303)


def _find(visit: Visit, letter: str) -> tuple[Record, Mark | None]:
    unknown = Problem(404, "unknown_letter", f"no dead letter {letter!r} here")
    try:
        record, mark = find_letter(
            visit.services.log, visit.services.topics, letter, tenant=visit.principal.tenant
        )
    except Stopped as stopped:
        if stopped.code not in (Exit.NOT_FOUND, Exit.USAGE):
            raise
        raise unknown from None
    if not names(record, visit.principal.tenant):
        raise unknown
    return record, mark


def _row(record: Record, mark: Mark | None) -> dict[str, Any]:
    cause = dead_letter_in(record.headers)
    _, _, session_id = (record.key or b"").decode("utf-8", "backslashreplace").partition("/")
    return {
        "id": id_of(record),
        "at_ms": record.timestamp_ms,
        "reason": cause.reason if cause else "unknown",
        "detail": cause.detail if cause else "",
        "from": f"{cause.topic} {cause.partition}@{cause.offset}" if cause else "",
        "session_id": session_id,
        "bytes": len(record.value or b""),
        "mark": mark,
    }


def _command(record: Record) -> Any:
    try:
        command = decode_command(record.value, record.headers)
    except Undecodable:
        return None
    return {"kind": type(command.body).__name__, **as_json(command)}
