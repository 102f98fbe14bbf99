"""API keys of machines, and of people where no OIDC provider is: a file of hashes, read again when it changes.

```json
{"keys": [{"id": "a1b2c3d4", "sha256": "64 hex digits", "tenant": "local", "actor": "ann", "roles": ["operator"],
           "status": "active", "not_after_ms": null}]}
```

A key reads `wk_<id>_<secret>`; it is shown once, when it is made. Its secret has 256 random bits, so a plain SHA-256 of it
gives nothing away and needs no salt.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...commands import inputs
from ...events.errors import InvalidKey
from ...events.keys import check_id
from ..exits import Exit, Stopped
from .principals import ROLES
from .rereading import Reread

ACTIVE, REVOKED = "active", "revoked"

SECRET_BYTES, ID_BYTES = 32, 4

OWNER_ONLY = 0o600

_KEY = re.compile(r"wk_([0-9a-f]{8})_([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is kept of a key: whom it speaks for, and the hash of its secret."""

    id: str
    sha256: str
    tenant: str
    actor: str
    roles: tuple[str, ...]
    status: str = ACTIVE
    not_after_ms: int | None = None

    def __post_init__(self) -> None:
        """ValueError, or `InvalidKey`, where it is none."""
        check_id("tenant", self.tenant)
        inputs.actor(self.actor)
        unknown = [role for role in self.roles if role not in ROLES]
        if unknown or not self.roles:
            raise ValueError(f"roles {unknown}: use some of {', '.join(ROLES)}")
        if self.status not in (ACTIVE, REVOKED):
            raise ValueError(f"status {self.status!r} is neither {ACTIVE} nor {REVOKED}")


class ApiKeys(Reread[dict[str, ApiKey]]):
    """The keys of a file, as they are now; none where there is no file."""

    def __init__(self, path: Path) -> None:
        """`Stopped` says what is wrong with the file."""
        super().__init__(path, _by_id, {})

    def find(self, text: str, now_ms: int) -> ApiKey | None:
        """The key that this is; null where it is none, or one that counts no more."""
        match = _KEY.fullmatch(text)
        if match is None:
            return None
        key = self.now().get(match[1])
        if key is None or not hmac.compare_digest(key.sha256, _hashed(match[2])):
            return None
        return key if _counts(key, now_ms) else None

    def named(self, key_id: str, now_ms: int) -> ApiKey | None:
        """The key of this id as long as it counts: for whoever has proved before that they have it."""
        key = self.now().get(key_id)
        return key if key is not None and _counts(key, now_ms) else None


def new_key(
    tenant: str, actor: str, roles: tuple[str, ...], *, not_after_ms: int | None = None
) -> tuple[str, ApiKey]:
    """A fresh key as its owner is told it, and what is kept of it."""
    key_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    kept = ApiKey(key_id, _hashed(secret), tenant, actor, roles, not_after_ms=not_after_ms)
    return f"wk_{key_id}_{secret}", kept


def read_keys(path: Path) -> list[ApiKey]:
    """The keys in this file, the oldest first; `Stopped` where it is damaged or others may write it."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["keys"]
        return [_key(row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidKey) as error:
        raise Stopped(
            Exit.USAGE, f"the API keys in {path} cannot be read ({error}): mend it, or remove it"
        ) from None


@contextmanager
def changing(path: Path) -> Iterator[list[ApiKey]]:
    """The keys in this file, to be changed; written when the block ends without an error. Two who change it take turns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        flock(lock, LOCK_EX)
        keys = read_keys(path) if path.exists() else []
        yield keys
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        text = json.dumps({"keys": [asdict(key) for key in keys]}, indent=1) + "\n"
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        beside.replace(path)
    finally:
        os.close(lock)


def revoked(key: ApiKey) -> ApiKey:
    """The key, counting no more."""
    return replace(key, status=REVOKED)


def _counts(key: ApiKey, now_ms: int) -> bool:
    over = key.not_after_ms is not None and now_ms > key.not_after_ms
    return key.status == ACTIVE and not over


def _by_id(path: Path) -> dict[str, ApiKey]:
    return {key.id: key for key in read_keys(path)}


def _key(row: dict[str, Any]) -> ApiKey:
    return ApiKey(**{**row, "roles": tuple(row["roles"])})


def _hashed(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
