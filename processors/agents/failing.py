"""Errors of the client libraries by the port's names.

Both libraries are generated from one template: a response carries `status_code`, `body` and `response.headers`;
whatever never became a response has none of them. No time of this machine is asked for: a date in `Retry-After` is
taken relative to the `Date` beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from .errors import (
    EndpointFailed,
    ModelFailed,
    RateLimited,
    RequestRejected,
    StreamCut,
    Unreachable,
)

TOLD_CHARACTERS_MAX = 500

PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT})
"""Answers that sound like the caller's fault, and pass by themselves."""

RETRY_AFTER_MS_MAX = 24 * 3_600_000
"""An endpoint that asks for more is taken to mean a day."""

KEY_CHARACTERS_MIN = 8
"""Shorter keys are placeholders of local endpoints; masking them would tear words apart."""

UNREACHED = "APIConnectionError"
"""The base of what both libraries raise where no response came, time-outs included."""

LIMITED = frozenset({"rate_limit_error", "rate_limit_exceeded", "tokens", "requests"})
SPENT = frozenset({"insufficient_quota", "billing_error"})
CALLERS = frozenset({"invalid_request_error", "authentication_error", "permission_error"})


def failure_of(error: Exception, model: str, *, begun: bool = False) -> ModelFailed:
    """The name for it. `begun`: the endpoint had said yes, and this came in the middle of its stream."""
    status = getattr(error, "status_code", None)
    words = _words(getattr(error, "body", None))
    told = _told(error)[:TOLD_CHARACTERS_MAX]
    if isinstance(status, int) and not begun:
        return _of_status(status, words, f"{model}: {told}", _headers(error))
    if words:
        return _of_words(words, f"{model}: {told}")
    kind = type(error).__name__
    if begun:
        return StreamCut(f"the stream of {model} broke: {kind}: {told}")
    if isinstance(error, OSError) or UNREACHED in {base.__name__ for base in type(error).__mro__}:
        return Unreachable(f"{model} cannot be reached: {kind}: {told}")
    return RequestRejected(f"{model} cannot be asked: {kind}: {told}")


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long the endpoint wants to be left alone; null where it does not say, or nothing that can be read."""
    for name, unit_ms in (("retry-after-ms", 1), ("retry-after", 1_000)):
        ms = _number(headers.get(name, "")) * unit_ms
        if math.isfinite(ms):
            return round(min(max(ms, 0), RETRY_AFTER_MS_MAX))
    try:
        until = parsedate_to_datetime(headers["retry-after"])
        wait = until - parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError, TypeError):
        return None
    return round(min(max(wait.total_seconds() * 1_000, 0), RETRY_AFTER_MS_MAX))


def masked(error: ModelFailed, key: object) -> ModelFailed:
    """The same without the key: some endpoints repeat what they were sent."""
    if isinstance(key, str) and len(key) >= KEY_CHARACTERS_MIN and key in error.message:
        return type(error)(error.message.replace(key, "***"), retry_after_ms=error.retry_after_ms)
    return error


def _of_status(
    status: int, words: frozenset[str], told: str, headers: Mapping[str, str]
) -> ModelFailed:
    after_ms = retry_after_ms(headers)
    if status == HTTPStatus.TOO_MANY_REQUESTS and not words & SPENT:
        wait = "" if after_ms is None else f" (try again after {after_ms} ms)"
        return RateLimited(f"{told}{wait}", retry_after_ms=after_ms)
    if 400 <= status < 500 and status not in PASSING:
        return RequestRejected(told)
    return EndpointFailed(told, retry_after_ms=after_ms)


def _of_words(words: frozenset[str], told: str) -> ModelFailed:
    """An error that came as an event: the status was 200 long before."""
    if words & LIMITED:
        return RateLimited(told)
    if words & (SPENT | CALLERS):
        return RequestRejected(told)
    return EndpointFailed(told)


def _words(body: Any) -> frozenset[str]:
    """The words that classify an error's body: type and code, of itself and of the error inside."""
    if not isinstance(body, Mapping):
        return frozenset()
    inner = body.get("error")
    found = [body.get("type"), body.get("code"), *(_words(inner) if inner is not body else ())]
    return frozenset(word for word in found if isinstance(word, str))


def _told(error: Exception) -> str:
    """What it says, and what it says was the cause: 'Connection error.' alone helps nobody."""
    cause = error.__cause__
    return f"{error}" if cause is None else f"{error} ({type(cause).__name__}: {cause})"


def _headers(error: Exception) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", {})
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
