"""Dead letters in pages: what was not let in of one tenant's sessions, and why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from ...events.errors import InvalidKey
from ...events.headers import dead_letter_in
from ...events.keys import split_key
from ...events.log.protocol import Record
from ...projections.pages import CURSOR_LENGTH_MAX, Cursors, WrongCursor
from ..telling.dealing import Mark, id_of
from ..telling.letter_pages import LetterPage, page_of_letters
from .asking import Operator, Shared
from .problems import Problem
from .services import Services
from .viewing import EACH_ONCE, PageAsked, Signing

router = APIRouter(prefix="/v1", tags=["queries"], dependencies=EACH_ONCE)

LISTING = "letters"


class LettersAsked(PageAsked):
    """Which dead letters: those that nobody has dealt with, or all of them."""

    handled: bool = False


@router.get("/letters")
def letters(
    asked: Annotated[LettersAsked, Query()], operator: Operator, shared: Shared, cursors: Signing
) -> dict[str, Any]:
    """Dead letters of this tenant's sessions, the newest first; those that nobody has dealt with, or all of them."""
    found, following = letters_page(
        *(shared, cursors, operator.tenant),
        limit=asked.limit,
        cursor=asked.cursor,
        handled=asked.handled,
    )
    rows = [letter_json(record, found.marks.get(id_of(record))) for record in found.records]
    return {"rows": rows, "next_cursor": following}


def letters_page(
    shared: Services,
    cursors: Cursors,
    tenant: str,
    *,
    limit: int,
    cursor: str | None,
    handled: bool,
) -> tuple[LetterPage, str | None]:
    """One page, and the cursor of the next; `Problem` where the cursor is another's."""
    bound = (tenant, LISTING, {"handled": handled})
    try:
        behind = None if cursor is None else [int(n) for n in cursors.behind(cursor, *bound)]
    except WrongCursor as error:
        raise Problem(422, "wrong_cursor", error.message) from error
    found = page_of_letters(
        *(shared.log, shared.topics, limit),
        mine=lambda record: names(record, tenant),
        below=None if behind is None else dict(zip(behind[::2], behind[1::2], strict=True)),
        all_of_them=handled,
    )
    if found.below is None:
        return found, None
    following = cursors.cursor([n for pair in found.below.items() for n in pair], *bound)
    if len(following) > CURSOR_LENGTH_MAX:
        told = f"letters lie in {len(found.below)} partitions, too many for a cursor: use 'wakeful dlq list'"
        raise Problem(422, "not_offered", told)
    return found, following


def letter_json(record: Record, mark: Mark | None) -> dict[str, Any]:
    """A dead letter without its bytes, which may be anything."""
    cause = dead_letter_in(record.headers)
    key = (record.key or b"").decode("utf-8", "backslashreplace")
    return {
        "id": id_of(record),
        "at_ms": record.timestamp_ms,
        "reason": cause.reason if cause else None,
        "detail": cause.detail if cause else None,
        "key": key,
        "bytes": len(record.value or b""),
        "from": f"{cause.topic} {cause.partition}@{cause.offset}" if cause else None,
        "sha256": cause.sha256 if cause else None,
        "handled": None if mark is None else {"how": mark.how, "by": mark.by, "at_ms": mark.at_ms},
    }


def names(record: Record, tenant: str) -> bool:
    """Whether the letter's key names this tenant: over HTTP what names nobody is nobody's."""
    try:
        return split_key(record.key)[0] == tenant
    except InvalidKey:
        return False
