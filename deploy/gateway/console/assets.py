"""The files that pages load: a stylesheet, htmx, small scripts of ours, the sign."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources

from fastapi import APIRouter
from fastapi.responses import Response

from ..problems import Problem

router = APIRouter()

TYPES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "in_flight.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "sign.svg": "image/svg+xml",
}

FOR_A_YEAR = "public, max-age=31536000, immutable"


@router.get("/static/{version}/{name}")
def asset(version: str, name: str) -> Response:
    """One file; its version is in its path, so browsers keep it for good."""
    if name not in TYPES:
        raise Problem(404, "unknown_file", "there is no such file")
    kept = {"Cache-Control": FOR_A_YEAR} if version == version_of(name) else {}
    return Response(_bytes(name), media_type=TYPES[name], headers=kept)


@cache
def version_of(name: str) -> str:
    """Of this file's bytes."""
    return sha256(_bytes(name)).hexdigest()[:12]


@cache
def _bytes(name: str) -> bytes:
    return resources.files(__package__ or "").joinpath("static", name).read_bytes()
