"""The ledger as a file, CSV or NDJSON: streamed page by page, so that its length costs neither memory nor a long transaction."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from ...projections.listings import LEDGER, Wanted
from ...projections.pages import Cursors
from ...projections.queries import Answer, Queries
from .asking import Shared, Viewer
from .principals import Principal
from .reads import LedgerAsked
from .services import Services
from .viewing import EACH_ONCE, POSITION, Signing, Views, page_of

router = APIRouter(prefix="/v1", tags=["queries"], dependencies=EACH_ONCE)

PAGE_ROWS = 200

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula where a cell begins with it."""


class DownloadAsked(LedgerAsked):
    """The filters of the ledger; all rows are sent, from the cursor on where one is given."""


Filters = Annotated[DownloadAsked, Query()]


@router.get("/ledger.csv", response_class=StreamingResponse)
def as_csv(
    asked: Filters, views: Views, shared: Shared, viewer: Viewer, cursors: Signing
) -> StreamingResponse:
    """The ledger as CSV (RFC 4180), with a line of names. A text that a spreadsheet would run begins with a `'`."""
    pages = _pages(shared, viewer, cursors, asked, views)
    return _file(_csv(pages), "text/csv; charset=utf-8", "ledger.csv", views)


@router.get("/ledger.ndjson", response_class=StreamingResponse)
def as_ndjson(
    asked: Filters, views: Views, shared: Shared, viewer: Viewer, cursors: Signing
) -> StreamingResponse:
    """The ledger as one JSON object per line."""
    pages = _pages(shared, viewer, cursors, asked, views)
    return _file(_ndjson(pages), "application/x-ndjson", "ledger.ndjson", views)


def _file(lines: Iterator[str], media: str, name: str, views: Queries) -> StreamingResponse:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        POSITION: views.position(),
    }
    return StreamingResponse(lines, media_type=media, headers=headers)


def _pages(
    shared: Services, viewer: Principal, cursors: Cursors, asked: DownloadAsked, views: Queries
) -> Iterator[list[Answer]]:
    """The first page at once, so that what is wrong with the request is answered as such; the others as they are sent."""
    wanted = asked.wanted()
    first = page_of(views, cursors, LEDGER, wanted, limit=PAGE_ROWS, cursor=asked.cursor)
    return _all(shared, viewer, cursors, wanted, first.rows, first.next_cursor)


def _all(
    shared: Services,
    viewer: Principal,
    cursors: Cursors,
    wanted: Wanted,
    rows: list[Answer],
    cursor: str | None,
) -> Iterator[list[Answer]]:
    yield rows
    while cursor is not None:
        with shared.queries(viewer) as views:
            told = page_of(views, cursors, LEDGER, wanted, limit=PAGE_ROWS, cursor=cursor)
        cursor = told.next_cursor
        yield told.rows


def _ndjson(pages: Iterator[list[Answer]]) -> Iterator[str]:
    for rows in pages:
        yield "".join(json.dumps(row, default=_time, ensure_ascii=False) + "\n" for row in rows)


def _csv(pages: Iterator[list[Answer]]) -> Iterator[str]:
    names = _names()
    yield _lines([names])
    for rows in pages:
        yield _lines([[_cell(row[name]) for name in names] for row in rows])


def _names() -> list[str]:
    return [name.strip() for name in LEDGER.columns.split(",")]


def _lines(rows: list[list[str]]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}" if value.startswith(FORMULA) else value
        case int() | float():
            return str(value)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return _time(value)


def _time(value: Any) -> str:
    """As the lists have times; nothing else is no JSON."""
    told: str = value.isoformat()
    return told.replace("+00:00", "Z")
