"""What a tool answered, as a value that can be stored: bounded, and plain where it can be.

| the answer has | the result is |
|---|---|
| structured content | that |
| one text | the text |
| anything else | `{"content": […]}`: texts, and images, sounds and resources with their type, size and, if small, data |
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as NotBase64
from hashlib import sha256
from typing import Any

PARTS_MAX = 100
"""Of the parts of an answer; the rest is counted."""

DATA_BYTES_MAX = 256 * 1024
"""Of an image, a sound or a resource that is kept whole; of a larger one its size and digest are kept."""

RESULT_BYTES_MAX = 4 * 1024 * 1024
"""Of a result; texts beyond it are cut, and say so."""

TOLD_CHARACTERS_MAX = 900
"""Of what an error says; a failure keeps a little more."""


def value_of(answer: Any) -> Any:
    """The result of a `CallToolResult` that is no error."""
    if answer.structured_content is not None:
        return _bounded(_unwrapped(answer))
    parts = [_part(part) for part in answer.content[:PARTS_MAX]]
    if len(answer.content) == 1 and parts[0]["type"] == "text":
        return _cut(str(parts[0]["text"]))
    found: dict[str, Any] = {"content": parts}
    if len(answer.content) > PARTS_MAX:
        found["parts_left_out"] = len(answer.content) - PARTS_MAX
    return _bounded(found)


def text_of(answer: Any) -> str:
    """What an error says."""
    texts = [part.text for part in answer.content if getattr(part, "type", "") == "text"]
    told = "\n".join(texts).strip() or "it does not say why"
    return told if len(told) <= TOLD_CHARACTERS_MAX else f"{told[:TOLD_CHARACTERS_MAX]}…"


def _unwrapped(answer: Any) -> Any:
    """A value that was wrapped as `{"result": …}`, since structured content used to be an object, as the text beside it says."""
    content = answer.structured_content
    if isinstance(content, dict) and list(content) == ["result"]:
        return content["result"]
    return content


def _part(part: Any) -> dict[str, Any]:
    match part.type:
        case "text":
            return {"type": "text", "text": part.text}
        case "image" | "audio":
            return {"type": part.type, "mime_type": part.mime_type, **_data(part.data)}
        case "resource":
            inside = part.resource
            told = {"type": "resource", "uri": str(inside.uri), "mime_type": inside.mime_type}
            text = getattr(inside, "text", None)
            return {**told, **({"text": text} if text is not None else _data(inside.blob))}
        case _:
            return {"type": str(part.type), "uri": str(getattr(part, "uri", "")) or None}


def _data(encoded: str) -> dict[str, Any]:
    try:
        data = b64decode(encoded, validate=True)
    except (NotBase64, ValueError):
        return {"bytes": len(encoded), "unreadable": True}
    told: dict[str, Any] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    return {**told, "base64": encoded} if len(data) <= DATA_BYTES_MAX else told


def _bounded(value: Any) -> Any:
    """The value; the beginning of its JSON where that is too long."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) * 4 <= RESULT_BYTES_MAX:
        return value
    size = len(text.encode("utf-8", "replace"))
    return value if size <= RESULT_BYTES_MAX else {"cut_json": _cut(text), "bytes": size}


def _cut(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= RESULT_BYTES_MAX:
        return text
    kept = data[:RESULT_BYTES_MAX].decode("utf-8", "ignore")
    return f"{kept}… (cut: {len(data)} bytes in all)"
