"""The first page: what runs, waits and is held, how far behind its readers are, and three charts of the last hour."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ....events.errors import Transient
from ....events.log.protocol import LogFault
from ....projections.counts import AGES_MS, BUCKET_MS, BUCKETS, COUNTED_MAX, Counts, counts
from ....projections.listings import APPROVALS, SESSIONS
from ....projections.tools import tools
from ...telling.stalled import silence_told
from ...telling.text import span
from ..measured import Measured
from ..viewing import page_of
from . import charts
from .pages import render
from .visits import Looking, Visit

router = APIRouter()

CACHED_MS = 2_000
"""How long one look at the numbers serves all who ask for the same tenant."""

SHOWN = 8
"""Rows of each short list."""

FOR_PEOPLE = ("approval", "uncertain", "signal", "inbox")
"""Waits that somebody outside ends; the others end by themselves."""


@router.get("/")
def page(request: Request, visit: Looking) -> Response:
    """The page."""
    return render(request, visit, "overview.html", **_looked(visit))


@router.get("/live/overview")
def live(request: Request, visit: Looking) -> Response:
    """Its part that changes."""
    return render(request, visit, "overview_part.html", **_looked(visit))


def _looked(visit: Visit) -> dict[str, Any]:
    """What the page shows; of the last two seconds, so that many open pages cost no more than one."""
    now_ms = visit.console.now_ms
    seen, tenant = visit.console.numbers, visit.principal.tenant
    at_ms, told = seen.get(tenant, (0, {}))
    if now_ms - at_ms > CACHED_MS:
        told = _look(visit, now_ms)
        seen[tenant] = now_ms, told
    return told


def _look(visit: Visit, now_ms: int) -> dict[str, Any]:
    cursors = visit.console.cursors
    with visit.services.queries(visit.principal) as views:
        found = counts(views, now_ms)
        projected = bool(views.positions())
        told = {
            "held": page_of(views, cursors, SESSIONS, {"held": 1}, limit=SHOWN, cursor=None).rows,
            "doubts": views.ledger(tenant=visit.principal.tenant, in_doubt=True, limit=SHOWN),
            "approvals": page_of(
                views, cursors, APPROVALS, {"open": 1}, limit=SHOWN, cursor=None
            ).rows,
            "newest": page_of(views, cursors, SESSIONS, {}, limit=SHOWN, cursor=None).rows,
            "tools": tools(views, now_ms - BUCKET_MS * BUCKETS),
        }
    undecided_ms, undecided = _behind(visit.services.backlog.lag)
    behind_ms, behind_records = _behind(visit.services.views_lag)
    return {
        **told,
        **_watched(visit, now_ms),
        "now_ms": now_ms,
        "found": found,
        "in_doubt": sum(found.waits["uncertain"]),
        "most": COUNTED_MAX,
        "throughput": throughput(found),
        "ages": wait_ages(found),
        "failures": failures(found),
        "behind_records": behind_records,
        "behind_ms": behind_ms,
        "undecided": undecided,
        "undecided_ms": undecided_ms,
        "projected": projected,
    }


def _behind(lag: Measured[list[dict[str, Any]]]) -> tuple[int | None, int]:
    """How old the oldest record is that a reader has not had, and how many there are; null where nobody can tell."""
    try:
        found = lag.get()
    except (LogFault, Transient):
        return None, 0
    oldest = max((row["seconds"] for row in found), default=0)
    return int(1000 * oldest), sum(row["records"] for row in found)


def _watched(visit: Visit, now_ms: int) -> dict[str, Any]:
    """What watchers propose for this tenant's sessions, and since when they are silent, if they are."""
    watched = visit.services.watched
    try:
        board = watched.look()
    except (LogFault, Transient):
        return {"stalled": [], "stalled_more": 0, "silence": "nobody can tell what watchers say"}
    stalled = board.proposals(visit.principal.tenant)
    return {
        "stalled": stalled[:SHOWN],
        "stalled_more": max(0, len(stalled) - SHOWN),
        "silence": silence_told(board.silence(watched.partitions, now_ms), now_ms),
    }


def throughput(found: Counts) -> charts.Chart:
    """Steps that were asked for, per slice: those that ended badly by now on top."""
    slots = []
    for label, one in zip(_labels(found), found.slices, strict=True):
        bad = one.counts["failed"] + one.counts["uncertain"]
        slots.append((label, (("steps", one.counts["steps"] - bad), ("failed", bad))))
    steps = sum(one.counts["steps"] for one in found.slices)
    opened = sum(one.counts["opened"] for one in found.slices)
    words = f"In the last hour {steps} steps were asked for, and {opened} sessions opened."
    return charts.bars("Steps", slots, words=words, labels=_some(len(slots)))


def failures(found: Counts) -> charts.Chart:
    """The share of the steps of each slice that failed or came into doubt, in percent."""
    slots = []
    for label, one in zip(_labels(found), found.slices, strict=True):
        steps, bad = one.counts["steps"], one.counts["failed"] + one.counts["uncertain"]
        slots.append((label, (("failed", round(100 * bad / steps) if steps else 0),)))
    steps = sum(one.counts["steps"] for one in found.slices)
    bad = sum(one.counts["failed"] + one.counts["uncertain"] for one in found.slices)
    refused = sum(one.counts["refused"] for one in found.slices)
    share = f"{100 * bad / steps:.1f} %" if steps else "none"
    words = f"Of {steps} steps {share} failed or came into doubt; {refused} commands were refused."
    return charts.bars("Failure rate, %", slots, words=words, labels=_some(len(slots)))


def wait_ages(found: Counts) -> charts.Chart:
    """How long sessions have waited: for somebody outside, and on top for what ends by itself."""
    slots = []
    for number, label in enumerate(_ages()):
        people = sum(found.waits[kind][number] for kind in FOR_PEOPLE)
        itself = sum(ages[number] for kind, ages in found.waits.items() if kind not in FOR_PEOPLE)
        slots.append((label, (("waiting", people), ("steps", itself))))
    told = ", ".join(f"{sum(ages)} for {kind}" for kind, ages in found.waits.items() if sum(ages))
    words = f"Sessions wait: {told}." if told else "No session waits."
    return charts.bars("Waits by age", slots, words=words, labels=range(len(slots)))


def _ages() -> list[str]:
    names = [f"< {_round(end)}" for end in AGES_MS[:-1]]
    return [*names, f"> {_round(AGES_MS[-2])}"]


def _round(ms: int) -> str:
    return span(ms).replace(".0", "")


def _labels(found: Counts) -> list[str]:
    return [
        datetime.fromtimestamp(one.since_ms / 1000, UTC).strftime("%H:%M") for one in found.slices
    ]


def _some(count: int) -> list[int]:
    step = max(1, count // 4)
    return list(range(step // 2, count, step))
