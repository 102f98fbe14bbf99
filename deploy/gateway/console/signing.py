"""Words that only this installation can have written: cookies, one-time links, links to an approval, form tokens.

`<body>.<seal>`, both base64url; the body is JSON, the seal an HMAC-SHA-256 over its kind and it. A kind is in the seal, so
that a link is never taken for a cookie. The key is a file in the home, made by the first who needs it; all gateways that
share the home believe each other, and removing the file signs everybody out.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from ...exits import Exit, Stopped

Kind = Literal["session", "sign_in", "approval", "oidc", "draft"]

KEY_FILE = "console_key"

KEY_BYTES = 32

TOKEN_MAX = 4_096
"""Characters of a token; longer ones are none of ours."""

OWNER_ONLY = 0o600


class Signer:
    """Seals and opens words; safe to use from several threads."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, kind: Kind, body: dict[str, Any], *, until_ms: int) -> str:
        """The word; it counts up to this time."""
        told = json.dumps({**body, "until_ms": until_ms}, separators=(",", ":")).encode()
        return f"{_text(told)}.{_text(self._seal(kind, told))}"

    def open(self, kind: Kind, word: str, now_ms: int) -> dict[str, Any] | None:
        """What it says; null where it is not of this kind, not ours, or over."""
        body, dot, seal = word.partition(".")
        if not dot or len(word) > TOKEN_MAX or not word.isascii():
            return None
        try:
            told = urlsafe_b64decode(body + "=" * (-len(body) % 4))
            sealed = urlsafe_b64decode(seal + "=" * (-len(seal) % 4))
        except ValueError:
            return None
        if not hmac.compare_digest(sealed, self._seal(kind, told)):
            return None
        said: dict[str, Any] = json.loads(told)
        return said if now_ms <= said["until_ms"] else None

    def form_token(self, sign_in: str) -> str:
        """What every form of this sign-in carries: another site cannot know it."""
        return _text(self._seal("form", sign_in.encode()))

    def _seal(self, kind: str, told: bytes) -> bytes:
        return hmac.new(self._key, kind.encode() + b"\n" + told, sha256).digest()


def signer_in(home: Path) -> Signer:
    """The one of this home; its key is made where there is none. `Stopped` where the file is no key."""
    path = home / KEY_FILE
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{KEY_FILE}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w") as f:
            f.write(secrets.token_hex(KEY_BYTES))
        with suppress(FileExistsError):  # another gateway was first: its key is the one
            os.link(beside, path)
        beside.unlink()
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise Stopped(
            Exit.USAGE, f"the console's key {path} cannot be read ({error}): remove it, or mend it"
        ) from None
    if len(key) != KEY_BYTES:
        raise Stopped(Exit.USAGE, f"the console's key {path} is {len(key)} bytes: remove it")
    return Signer(key)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
