"""Edits that are not sent yet, as words in an address: a browser may go back to it, and only who wrote one can open it."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from typing import Any

from .visits import Visit

WORD_MAX = 3_500
"""Characters of an edit in an address; one that is longer has none."""

DRAFT_MS = 3_600_000
"""How long an edit may be come back to."""


def word_of(visit: Visit, place: tuple[str, str], edit: dict[str, str]) -> str:
    """The word, for this sign-in and this approval (session and proposal); empty where it would be too long."""
    packed = b64encode(zlib.compress(json.dumps(edit).encode())).decode()
    body = {"of": [visit.form_token, *place], "edit": packed}
    word = visit.console.signer.seal("draft", body, until_ms=visit.console.now_ms + DRAFT_MS)
    return word if len(word) <= WORD_MAX else ""


def edit_of(visit: Visit, place: tuple[str, str], word: str) -> dict[str, str] | None:
    """What was written; null where the word is another's, of another approval, too old, or none."""
    said = visit.console.signer.open("draft", word, visit.console.now_ms)
    if said is None or said["of"] != [visit.form_token, *place]:
        return None
    found: dict[str, Any] = json.loads(zlib.decompress(b64decode(said["edit"])))
    return found
