"""Links that sign a person in once: `wakeful serve --console-link` and the demo print one.

A link names an API key that nobody was shown, made with it: who follows it speaks for that key, and revoking the key ends
it. That it was used, an empty file says, so that of two gateways in one home one believes it.
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

FORGET_MS = 24 * 3_600_000
"""After so long no link can be followed any more, whatever the clocks say."""


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
    """Whether this link was never followed before; from now on it was. What tells of links that are over is removed."""
    folder = home / USED
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another gateway was here, too
            if path.stat().st_mtime * 1000 < now_ms - FORGET_MS:
                path.unlink()
    try:
        (folder / once).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
