"""What a model call says of its tokens: in its result, and in the evidence that a failed one leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...events import records as r

TOKENS_MAX = 2**40
"""More than any call reads or writes: numbers come from tools, and tools may say anything."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of one attempt of one model."""

    model: str
    input_tokens: int
    output_tokens: int


def spent_by(body: r.EventBody) -> Spent | None:
    """What this fact says was spent; null where it says nothing, as all tools that are no models do."""
    match body:
        case r.ActivityCompleted():
            return None if body.recovered else _of_answer(body.result)
        case r.ActivityFailed() | r.ActivityRetryScheduled() | r.ActivityUncertain():
            return _of(_read(body.failure.detail))
        case _:
            return None


def _of_answer(result: r.Payload) -> Spent | None:
    if result.inline is None or result.encoding != "json" or result.key_id is not None:
        return None
    answer = _read(result.inline)
    usage = answer.get("usage") if isinstance(answer, dict) else None
    return _of({**usage, "model": answer.get("model")}) if isinstance(usage, dict) else None


def _of(told: Any) -> Spent | None:
    if not isinstance(told, dict) or not isinstance(told.get("model"), str):
        return None
    tokens = [_count(told.get(name)) for name in ("input_tokens", "output_tokens")]
    if tokens == [None, None]:
        return None
    return Spent(told["model"], tokens[0] or 0, tokens[1] or 0)


def _count(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX
    return value if known else None


def _read(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None  # a tool's own words, of which no tokens can be told
