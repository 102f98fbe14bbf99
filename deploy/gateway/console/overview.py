"""The first page: what runs, waits and is held, how far behind the views are, and three charts of the last hour."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ....projections.overview import BUCKET_MS, COUNTED_MAX, WINDOW_MS, Overview, overview
from . import charts
from .pages import render
from .visits import Looking, Visit

router = APIRouter()

CACHED_MS = 2_000
"""How long one look at the numbers serves all who ask for the same tenant."""

SHOWN = 8
"""Rows of each short list."""

TOOLS_MAX = 12

_seen: dict[tuple[int, str], tuple[int, dict[str, Any]]] = {}


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
    key = id(visit.services), visit.principal.tenant
    at_ms, told = _seen.get(key, (0, {}))
    if now_ms - at_ms > CACHED_MS:
        told = _look(visit, now_ms)
        _seen[key] = now_ms, told
    return told


def _look(visit: Visit, now_ms: int) -> dict[str, Any]:
    with visit.services.queries(visit.principal) as views:
        found = overview(views, now_ms)
        lag = views.lag()
        held = views.sessions(status="Recovering", limit=SHOWN)
        doubts = views.ledger(in_doubt=True, limit=SHOWN)
        approvals = views.approvals(limit=SHOWN)
        newest = views.sessions(limit=SHOWN)
    return {
        "now_ms": now_ms,
        "found": found,
        "most": COUNTED_MAX,
        "throughput": throughput(found),
        "ages": wait_ages(found),
        "failures": failures(found),
        "tools": tools(found.steps),
        "behind_records": sum(row["records_behind"] or 0 for row in lag),
        "behind_ms": int(1000 * max((row["seconds_behind"] or 0 for row in lag), default=0)),
        "projected": bool(lag),
        "held": held,
        "doubts": doubts,
        "approvals": approvals,
        "newest": newest,
    }


def throughput(found: Overview) -> charts.Chart:
    """Steps that ended, per slice of the window: completed, and not."""
    done, bad = _by_bucket(found)
    slots = [
        (label, (("completed", done[n]), ("failed", bad[n])))
        for n, label in enumerate(_labels(found))
    ]
    steps, minutes = sum(done.values()) + sum(bad.values()), WINDOW_MS // 60_000
    words = f"{steps} steps ended in the last {minutes} minutes, {sum(bad.values())} of them without a result."
    return charts.bars("Throughput", slots, words=words, labels=_some(len(slots)))


def failures(found: Overview) -> charts.Chart:
    """The share of steps that ended without a result, per slice, in percent."""
    done, bad = _by_bucket(found)
    slots = []
    for n, label in enumerate(_labels(found)):
        total = done[n] + bad[n]
        slots.append((label, (("failed", round(100 * bad[n] / total) if total else 0),)))
    total, failed = sum(done.values()) + sum(bad.values()), sum(bad.values())
    share = f"{100 * failed / total:.1f} %" if total else "none"
    words = f"Of {total} steps in the last hour {share} failed or came into doubt."
    return charts.bars("Failure rate, %", slots, words=words, labels=_some(len(slots)))


def wait_ages(found: Overview) -> charts.Chart:
    """How long the sessions that wait have waited."""
    slots = [(name, (("waiting", count),)) for name, count in found.ages]
    told = ", ".join(f"{count} for {name}" for name, count in found.ages if count)
    words = f"Sessions that wait: {told}." if told else "No session waits."
    return charts.bars("Wait ages", slots, words=words, labels=range(len(slots)))


def tools(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per tool how many steps ended, failed, were tried again, and how long one took; the busiest first."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in steps:
        tool = found[row["action"]]
        tool["ended"] += row["count"]
        tool["again"] += int(row["again"] or 0)
        tool["took_ms"] += int(row["took_ms"] or 0)
        if row["status"] != "completed":
            tool[row["status"]] += row["count"]
    told: list[dict[str, Any]] = [
        {
            "name": name,
            "ended": tool["ended"],
            "failed": tool["failed"],
            "uncertain": tool["uncertain"],
            "again": tool["again"],
            "mean_ms": tool["took_ms"] // max(1, tool["ended"]),
        }
        for name, tool in found.items()
    ]
    return sorted(told, key=lambda tool: -found[tool["name"]]["ended"])[:TOOLS_MAX]


def _by_bucket(found: Overview) -> tuple[Counter[int], Counter[int]]:
    done: Counter[int] = Counter()
    bad: Counter[int] = Counter()
    for row in found.steps:
        (bad if row["status"] in ("failed", "uncertain") else done)[row["bucket"]] += row["count"]
    return done, bad


def _labels(found: Overview) -> list[str]:
    starts = range(found.since_ms, found.since_ms + WINDOW_MS, BUCKET_MS)
    return [datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M") for at in starts]


def _some(count: int) -> list[int]:
    step = max(1, count // 4)
    return list(range(step // 2, count, step))
