"""The keyring as a file: JSON, for its owner's eyes only, written whole or not at all, and read again when it changes.

```json
{"keys": [{"kid": "client-1f0c9a2b", "algorithm": "hmac-sha256", "role": "client", "tenants": null, "actor": null,
           "status": "active", "not_after_ms": null, "secret": "64 hex digits", "public": null}]}
```

`tenants` is null for all. A key has the kinds of its role, or those that `kinds` lists instead. Ed25519 keys have a
`public` half; without `secret` they only verify. The oldest key stands first.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

import structlog

from ..commands.keyring import ROLES, Key, Keyring
from ..commands.signatures import ED25519, HMAC_SHA256, new_secret, public_half
from .exits import Exit, Stopped

OWNER_ONLY = 0o600

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""Rights that nobody but the owner may have."""

KID_BYTES = 4

LOOK_S = 0.05
"""How soon a changed file is noticed; a key that is not known makes look at once."""

LOCAL_ROLES = ("client", "worker", "processor", "publisher")
"""One key each is what one machine needs, with everything on it."""

logger = structlog.get_logger("wakeful.keys")


class KeyFile:
    """The keys in a file, as they are now."""

    def __init__(
        self,
        path: Path,
        *,
        look_s: float = LOOK_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads it; `Stopped` says what is wrong with it. `look_s` is how old an answer of `ring` may be."""
        self.path = path
        self._look_s, self._monotonic = look_s, monotonic
        self._seen = self._look()
        self._ring = read_keys(path)
        self._looked_s = monotonic()

    def ring(self) -> Keyring:
        """The keys as they were a moment ago: looking costs as much as a signature."""
        return self._ring if self._monotonic() - self._looked_s < self._look_s else self.newest()

    def newest(self) -> Keyring:
        """The keys; read again where the file has changed since.

        One that has become unreadable changes nothing: the log says so, and the keys that were there stay in force.
        """
        self._looked_s = self._monotonic()
        seen = self._look()
        if seen == self._seen:
            return self._ring
        self._seen = seen
        try:
            self._ring = read_keys(self.path)
        except Stopped as stopped:
            logger.error("the keys that were read before stay in force", why=stopped.message)  # noqa: TRY400
        else:
            logger.info("keys read again", keys=len(self._ring.keys))
        return self._ring

    def _look(self) -> tuple[int, int, int] | None:
        """What changes whenever the file does; null where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def read_keys(path: Path) -> Keyring:
    """The keys in this file; `Stopped` where there is none, where others may read it, or where it is damaged."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except FileNotFoundError:
        raise Stopped(
            Exit.USAGE,
            f"there is no keyring at {path}: make one with 'wakeful keys new', or set WAKEFUL_KEYS",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Stopped(Exit.USAGE, f"the keyring {path} cannot be read ({error}): mend it") from None
    if mode & OTHERS:
        raise Stopped(
            Exit.USAGE,
            f"the keyring {path} may be used by others (its mode is {mode:04o}): 'chmod 600 {path}', and make new "
            "keys if somebody has read it",
        )
    try:
        return Keyring(_key(row) for row in json.loads(text)["keys"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        told = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise Stopped(
            Exit.USAGE,
            f"the keyring {path} is damaged ({told}): bring it back from a copy, or make another with 'wakeful keys new'",
        ) from None


def write_keys(path: Path, keys: Sequence[Key]) -> None:
    """Replaces the file by one with these keys; whatever happens, the old or the new one is there."""
    text = json.dumps({"keys": [_row(key) for key in keys]}, indent=1) + "\n"
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


@contextmanager
def changing(path: Path) -> Iterator[list[Key]]:
    """The keys in this file (none where there is no file), to be changed; written when the block ends without an error.

    Two who change it at once do so one after the other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        flock(lock, LOCK_EX)
        keys = list(read_keys(path).keys) if path.exists() else []
        yield keys
        write_keys(path, Keyring(keys).keys)
    finally:
        os.close(lock)


def ensure_local_keys(path: Path) -> bool:
    """Makes a keyring for one machine where there is none; whether it did."""
    if path.exists():
        return False
    with changing(path) as keys:
        if not keys:
            keys.extend(new_key(role) for role in LOCAL_ROLES)
    return True


def new_key(
    role: str,
    *,
    algorithm: str = HMAC_SHA256,
    tenants: Sequence[str] = (),
    actor: str | None = None,
    not_after_ms: int | None = None,
    kid: str | None = None,
) -> Key:
    """A fresh key of a role, for these tenants, or for all where none is named; ValueError where it cannot be one."""
    secret = new_secret()
    return Key(
        kid=kid or f"{role}-{secrets.token_hex(KID_BYTES)}",
        algorithm=algorithm,
        secret=secret,
        public=public_half(secret) if algorithm == ED25519 else None,
        tenants=frozenset(tenants) if tenants else None,
        kinds=ROLES[role],
        actor=actor,
        not_after_ms=not_after_ms,
        role=role,
    )


def public_key(key: Key) -> Key:
    """What verifies and does not sign; `Stopped` for an HMAC key, which has no such half."""
    if key.algorithm != ED25519:
        raise Stopped(
            Exit.USAGE,
            f"key {key.kid} is for {key.algorithm}, which has no public half: whoever verifies needs the secret itself "
            "(--secret), or make a key with --algorithm ed25519",
        )
    return replace(key, secret=None)


def _key(row: dict[str, Any]) -> Key:
    role, tenants, kinds = row.get("role") or "", row.get("tenants"), row.get("kinds")
    if kinds is None and role not in ROLES:
        raise ValueError(f"role {role!r} is not one of {', '.join(ROLES)}")
    secret, public = row.get("secret"), row.get("public")
    return Key(
        kid=str(row["kid"]),
        algorithm=row["algorithm"],
        secret=None if secret is None else _bytes(secret),
        public=None if public is None else _bytes(public),
        tenants=None if tenants is None else frozenset(map(str, tenants)),
        kinds=ROLES[role] if kinds is None else frozenset(map(str, kinds)),
        actor=row.get("actor"),
        status=row["status"],
        not_after_ms=row.get("not_after_ms"),
        role=role,
    )


def _row(key: Key) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kid": key.kid,
        "algorithm": key.algorithm,
        "role": key.role,
        "tenants": None if key.tenants is None else sorted(key.tenants),
        "actor": key.actor,
        "status": key.status,
        "not_after_ms": key.not_after_ms,
        "secret": None if key.secret is None else key.secret.hex(),
        "public": None if key.public is None else key.public.hex(),
    }
    if key.kinds != ROLES.get(key.role):
        row["kinds"] = sorted(key.kinds)
    return row


def _bytes(text: str) -> bytes:
    """Hex digits; the error does not repeat them, for they may be a secret with a slip in it."""
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError):
        raise ValueError("a secret or public half is not hex") from None
