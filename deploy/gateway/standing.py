"""How things stand: lag, and numbers for an overview."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from ...projections.counts import AGES_MS, BUCKET_MAX, BUCKET_MS, COUNTED_MAX, WAITS_MAX, counts
from .asking import Shared, Viewer
from .viewing import EACH_ONCE, Plain, Views

router = APIRouter(prefix="/v1", tags=["queries"], dependencies=EACH_ONCE)


@router.get("/lag")
def lags(asked: Plain, views: Views, viewer: Viewer, shared: Shared) -> dict[str, Any]:
    """Per partition how far the processors are behind the commands, and the views behind the events."""
    del asked, views, viewer
    return {"processors": shared.backlog.lag.get(), "projector": shared.views_lag.get()}


@router.get("/overview")
def overview(asked: Plain, views: Views, viewer: Viewer, shared: Shared) -> dict[str, Any]:
    """Sessions by status, held ones, waits by kind and age, and the last hour in slices, each up to a limit."""
    del asked, viewer
    found = asdict(counts(views, shared.clock.now_ms()))
    limits = {"counted_max": COUNTED_MAX, "waits_max": WAITS_MAX, "slice_max": BUCKET_MAX}
    return {**found, "ages_ms": AGES_MS[:-1], "slice_ms": BUCKET_MS, **limits}
