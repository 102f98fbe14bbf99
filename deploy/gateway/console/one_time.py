"""What counts once: links that sign a person in (`wakeful serve --console-link` and the demo print one), and a provider's answers.

A link names an API key that nobody was shown, made with it: who follows it speaks for that key, and revoking the key ends
it. That a link or an answer was used, an empty file says, so that of two gateways in one home one believes it. Another
says that a sign-in has ended before its time.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from ..api_keys import changing, new_key
from .signing import Signer

LINK_MS = 10 * 60_000
"""How long a link may be followed."""

KEY_MS = 12 * 3_600_000
"""How long whoever followed it is believed, at most."""

USED = "console-links"

ENDED = "console-signed-out"

FORGET_MS = 24 * 3_600_000
"""After so long no link or answer counts any more and no sign-in lasts, whatever the clocks say."""


def new_link(
    signer: Signer,
    api_keys: Path,
    *,
    base_url: str,
    tenant: str,
    actor: str,
    roles: tuple[str, ...],
    now_ms: int,
) -> str:
    """A link for one sign-in as this actor, from now on for ten minutes."""
    _, kept = new_key(tenant, actor, roles, not_after_ms=now_ms + KEY_MS)
    with changing(api_keys) as keys:
        keys.append(kept)
    body = {"key": kept.id, "once": secrets.token_hex(16)}
    word = signer.seal("sign_in", body, until_ms=now_ms + LINK_MS)
    return f"{base_url}/console/enter/{word}"


def first_use(home: Path, once: str, now_ms: int) -> bool:
    """Whether this link, or this answer of a provider, is new; from now on it is not. What tells of old ones is removed."""
    return _mark(home / USED, once, now_ms)


def end_sign_in(home: Path, sign_in: str, now_ms: int) -> None:
    """Ends a sign-in for every gateway of this home; a repeat changes nothing."""
    _mark(home / ENDED, sign_in, now_ms)


def has_ended(home: Path, sign_in: str) -> bool:
    """Whether somebody signed out of it."""
    return (home / ENDED / sign_in).exists()


def _mark(folder: Path, name: str, now_ms: int) -> bool:
    """Leaves a file of this name; false where there was one."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another gateway was here, too
            if path.stat().st_mtime * 1000 < now_ms - FORGET_MS:
                path.unlink()
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
