"""Queries: what the views say, as their tenant is shown them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi.encoders import jsonable_encoder

from .asking import Shared, Viewer
from .problems import Problem

router = APIRouter(prefix="/v1", tags=["queries"])


@router.get("/sessions/{session_id}")
def session(session_id: str, shared: Shared, viewer: Viewer, response: Response) -> dict[str, Any]:
    """One session as the views have it; its version, the number of its last event, is the ETag."""
    with shared.queries(viewer) as views:
        found = views.session(session_id)
    if not found:
        raise Problem(404, "unknown_session", f"no session {session_id!r} here")
    response.headers["ETag"] = f'"{found[0]["seq"]}"'
    told: dict[str, Any] = jsonable_encoder(found[0])
    return told
