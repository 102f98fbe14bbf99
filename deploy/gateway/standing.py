"""How things stand: lag, numbers for an overview, dead letters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from ...events.errors import InvalidKey
from ...events.headers import dead_letter_in
from ...events.keys import split_key
from ...events.log.protocol import Record
from ...projections.counts import AGES_MS, BUCKET_MAX, BUCKET_MS, COUNTED_MAX, WAITS_MAX, counts
from ..telling.dealing import Mark, id_of, newest_letters
from .asking import Operator, Shared, Viewer
from .viewing import Asked, Plain, Views

router = APIRouter(prefix="/v1", tags=["queries"])


class LettersAsked(Asked):
    """Which dead letters: the newest so many."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    handled: bool = False


@router.get("/lag")
def lags(asked: Plain, views: Views, viewer: Viewer, shared: Shared) -> dict[str, Any]:
    """Per partition how far the processors are behind the commands, and the views behind the events."""
    del asked, viewer
    projector = [
        {
            "partition": row["partition"],
            "records": row["records_behind"],
            "seconds": None if row["seconds_behind"] is None else float(row["seconds_behind"]),
        }
        for row in views.lag()
    ]
    return {"processors": shared.backlog.lag.get(), "projector": projector}


@router.get("/overview")
def overview(asked: Plain, views: Views, viewer: Viewer, shared: Shared) -> dict[str, Any]:
    """Sessions by status, held ones, waits by kind and age, and the last hour in slices, each up to a limit."""
    del asked, viewer
    found = asdict(counts(views, shared.clock.now_ms()))
    limits = {"counted_max": COUNTED_MAX, "waits_max": WAITS_MAX, "slice_max": BUCKET_MAX}
    return {**found, "ages_ms": AGES_MS[:-1], "slice_ms": BUCKET_MS, **limits}


@router.get("/letters")
def letters(
    asked: Annotated[LettersAsked, Query()], operator: Operator, shared: Shared
) -> dict[str, Any]:
    """Dead letters of this tenant's sessions that nobody has dealt with, the oldest first of the newest so many."""
    found = newest_letters(
        shared.log, shared.topics, asked.limit, all_of_them=asked.handled, tenant=operator.tenant
    )
    rows = [
        letter_json(record, found.marks.get(id_of(record)))
        for record in found.records
        if _names(record, operator.tenant)
    ]
    return {"rows": rows}


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


def _names(record: Record, tenant: str) -> bool:
    """Whether the letter's key names this tenant: over HTTP what names nobody is nobody's."""
    try:
        return split_key(record.key)[0] == tenant
    except InvalidKey:
        return False
