"""Templates: how values are shown, and what each page is told besides its own."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from ...telling.text import bare, shown_text, span, when
from .assets import version_of
from .visits import PATH, Visit

TONES = {
    **dict.fromkeys(("Running", "requested", "running"), "run"),
    **dict.fromkeys(("Waiting", "Compensating", "withheld", "retrying", "voted"), "wait"),
    **dict.fromkeys(("Recovering", "uncertain", "held", "Failed", "failed", "refused"), "bad"),
    **dict.fromkeys(("Completed", "completed", "granted", "accepted", "applied"), "good"),
}
"""Which of the five colours a status has; its word always stands beside it."""

WORDS = {
    "Recovering": "Held",
    "Compensating": "Taking back",
    "Suspended": "Resting",
    "requested": "open",
}
"""What people call a status that the views call otherwise."""

TEXT_MAX = 20_000
"""Characters of one value on a page; of more, the rest is said to be cut."""


def render(request: Request, visit: Visit | None, page: str, /, **values: Any) -> HTMLResponse:
    """A page, whole; every value in it is escaped."""
    status = values.pop("status_code", 200)
    told = {"visit": visit, "here": request.url.path, "path": PATH, **values}
    return HTMLResponse(_PAGES.get_template(page).render(told), status)


def url(*parts: object, **query: object) -> str:
    """A path below the console's, each part quoted; empty parts of the query are left out."""
    path = "/".join([PATH, *(quote(str(part), safe="@:") for part in parts)])
    asked = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(asked)}" if asked else path


def pretty(value: Any) -> str:
    """JSON as people read it; a text as it is. What is too long is cut, and says so."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    text = text.encode("utf-8", "backslashreplace").decode()
    return (
        text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}\n… cut after {TEXT_MAX} characters"
    )


def arguments(value: Any, limit: int) -> str:
    """What a tool is called with in one line: names and values, the shortest first, so that most of them are seen."""
    if not isinstance(value, dict) or not value:
        return shown_text(value, limit)
    parts = [f"{name} {shown_text(one, limit)}" for name, one in value.items()]
    return shown_text(" · ".join(sorted(parts, key=len)), limit)


def ms_of(value: Any) -> int | None:
    """A time of a row, or one in milliseconds."""
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    return value if isinstance(value, int) else None


def iso(value: Any) -> str:
    """A time for machines."""
    at_ms = ms_of(value)
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def ago(value: Any, now_ms: int) -> str:
    """How long ago, or until then."""
    at_ms = ms_of(value)
    if at_ms is None:
        return "-"
    apart = now_ms - at_ms
    if abs(apart) < 1_000:
        return "just now"
    return f"{brief(apart)} ago" if apart > 0 else f"in {brief(-apart)}"


def brief(ms: int) -> str:
    """A length of time in its largest unit, or two."""
    return f"{ms // 1000} s" if 1_000 <= ms < 60_000 else span(ms)


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["url"] = url
    made.globals["fresh"] = lambda: secrets.token_hex(12)
    made.globals["file"] = lambda name: url("static", version_of(name), name)
    filters: Mapping[str, Any] = {
        "pretty": pretty,
        "short": shown_text,
        "args": arguments,
        "word": lambda status: WORDS.get(status, status),
        "json": bare,
        "when": lambda value: when(ms_of(value)) or "-",
        "iso": iso,
        "ago": ago,
        "brief": brief,
        "tone": lambda status: TONES.get(status, "calm"),
    }
    made.filters.update(filters)
    return made


_PAGES = _environment()
