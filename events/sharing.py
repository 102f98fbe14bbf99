"""What a request, or the state that a stretch leaves, has in common with the state before is recorded once.

An agent gives its whole conversation to each call of a model, and keeps it in its state: recorded as it is, a history would
grow with the square of the calls. Such a payload is recorded as *parts*: what is new, and where the rest lies in the
canonical JSON of the state that the stretch began with. Size and digest are those of the whole, so a replay, an approval
and a task are what they would be without it, and workers are given the whole.

Only facts that always have that state at hand are shortened: `ActivityRequested.arguments`, and the `state` of `TurnCompleted`
and `TurnContinued`. `shortened` and `expanded` are pure; equal values give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypeVar

from . import records as r
from .errors import InvalidPayload
from .payloads import JSON, canonical_json
from .records import Payload
from .replacing import replace

PARTS = "json-parts"
"""The encoding: inline is `{"of": digest of the state, "parts": [text, [start, length], …]}`, ranges in characters of that state."""

SHARED_MIN = 1024
"""Payloads of fewer bytes are recorded as they are."""

RANGE_MIN = 256
"""Characters that are worth a range."""

PROBE = 64
"""So many characters in a row are looked for; what is common and shorter may be missed."""

PROBES_EACH, WIDER_MAX = 8, 6
"""After so many misses probes are twice as far apart, up to 64 times."""

RANGES_MAX = 64

WORTH = 0.75
"""What parts may take of the whole; with more it is recorded whole."""

B = TypeVar("B", bound=r.EventBody)


def shortened(payload: Payload, state: Payload | None) -> Payload:
    """The payload as parts, where that takes a quarter less; else as it is. What lies in a store stays there."""
    if state is None or min(payload.size, state.size) < SHARED_MIN:
        return payload
    if not (_is_plain(payload) and _is_plain(state)):
        return payload
    try:
        text, known = _text(payload), _text(state)
    except (
        UnicodeDecodeError
    ):  # a state that came with a reset may be of any encoding that JSON allows
        return payload
    parts = _parts(text, known)
    if all(isinstance(part, str) for part in parts):
        return payload
    inline = canonical_json({"of": state.digest.hex(), "parts": parts})
    if len(inline) > WORTH * payload.size:
        return payload
    return Payload(PARTS, inline, None, payload.digest, payload.size, payload.key_id)


def expanded(payload: Payload, state: Payload | None) -> Payload:
    """The whole; the same where it is no parts. `InvalidPayload` where they are not of this state, or do not fit it."""
    if payload.encoding != PARTS:
        return payload
    try:
        told = json.loads(payload.inline or b"")
        of, parts = told["of"], told["parts"]
        if state is None or of != state.digest.hex():
            held = "there is none" if state is None else f"this one is {state.digest.hex()[:12]}"
            raise InvalidPayload(f"the payload shares with the state {str(of)[:12]}, and {held}")
        known = _text(state)
        whole = "".join(p if isinstance(p, str) else _range(known, *p) for p in parts)
        data = whole.encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidPayload(f"the payload's parts cannot be put together: {error}") from error
    if len(data) != payload.size:
        raise InvalidPayload(
            f"the payload is said to have {payload.size} bytes, and its parts have {len(data)}"
        )
    return Payload(JSON, data, None, payload.digest, payload.size, payload.key_id)


def recorded(body: r.EventBody, state: Payload | None) -> r.EventBody:
    """The fact as it is recorded: what it shares with the state that its stretch began with is left out."""
    match body:
        case r.ActivityRequested():
            arguments = shortened(body.arguments, state)
            return body if arguments is body.arguments else replace(body, arguments=arguments)
        case r.TurnContinued() | r.TurnCompleted():
            left = shortened(body.state, state)
            return body if left is body.state else replace(body, state=left)
        case _:
            return body


def whole(body: B, state: Payload | None) -> B:
    """The fact with all that it says; `state` is what its stretch began with."""
    match body:
        case r.ActivityRequested() if body.arguments.encoding == PARTS:
            return replace(body, arguments=expanded(body.arguments, state))
        case r.TurnContinued() | r.TurnCompleted() if body.state.encoding == PARTS:
            return replace(body, state=expanded(body.state, state))
        case _:
            return body


def wholes(events: Iterable[r.Event]) -> Iterator[r.Event]:
    """Facts of one session in order, each with all that it says.

    From its first event on, that is everything; from a later one, what needs a state before it stays in parts.
    """
    state: Payload | None = None
    for event in events:
        body = event.body
        if state is not None and state.encoding != PARTS:
            body = whole(body, state)
        yield event if body is event.body else r.Event(event.envelope, body)
        if isinstance(body, r.TurnContinued | r.TurnCompleted | r.SessionReset):
            state = body.state


def shown_parts(payload: Payload) -> list[str]:
    """What is new in it, for people who have no state at hand; ranges by their lengths."""
    try:
        parts = json.loads(payload.inline or b"")["parts"]
        return [
            p if isinstance(p, str) else f"… {p[1]} characters as in the state before …"
            for p in parts
        ]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise InvalidPayload(f"the payload's parts cannot be read: {error}") from error


def _is_plain(payload: Payload) -> bool:
    return payload.encoding == JSON and payload.inline is not None and payload.key_id is None


def _text(payload: Payload) -> str:
    return (payload.inline or b"").decode()


def _range(known: str, start: int, length: int) -> str:
    if not 0 <= start < start + length <= len(known):
        raise InvalidPayload(
            f"range {start}+{length} is not within the state, which has {len(known)} characters"
        )
    return known[start : start + length]


def _parts(text: str, known: str) -> list[str | list[int]]:
    """What is new as text, what is known as ranges; the longer nothing is found, the less is looked for."""
    parts: list[str | list[int]] = []
    at = done = missed = ranges = 0
    while at + PROBE <= len(text) and ranges < RANGES_MAX:
        found = known.find(text[at : at + PROBE])
        before = _common(text, known, at, found, done - at) if found >= 0 else 0
        after = _common(text, known, at, found, len(text) - at) if found >= 0 else 0
        if before + after < RANGE_MIN:
            at += PROBE << min(missed // PROBES_EACH, WIDER_MAX)
            missed += 1
            continue
        if at - before > done:
            parts.append(text[done : at - before])
        parts.append([found - before, before + after])
        at = done = at + after
        ranges, missed = ranges + 1, 0
    if done < len(text):
        parts.append(text[done:])
    return parts


def _common(text: str, known: str, at: int, found: int, most: int) -> int:
    """How many characters from these places on are the same, or before them, where `most` is negative."""
    step = 1 if most >= 0 else -1
    low, high = 0, min(most, len(known) - found) if most >= 0 else min(-most, found)
    while low < high:
        middle = (low + high + 1) // 2
        one, other = sorted((low * step, middle * step))
        if text[at + one : at + other] == known[found + one : found + other]:
            low = middle
        else:
            high = middle - 1
    return low
