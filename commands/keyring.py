"""Keys and what each vouches for; which one signs a command, and whether a signed record is what its key may say. Pure.

A key vouches for some tenants (or all), for some kinds of commands, and maybe for one actor only. Roles are kinds by
name: a gateway asks for things and reports no results, a worker reports results and decides no approvals. Policy sets and
rollouts are signed like commands; only a publisher's key vouches for them, and it is for all tenants, of whom they speak.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import get_args

from ..events import freezing
from ..events.errors import Rejected
from ..events.records import PolicyPublished, RolloutSet
from . import models as m
from .check import Refusal
from .signatures import ALGORITHMS, ED25519, SECRET_BYTES, public_half, sign, verifies

PUBLISHED, ROLLED_OUT = PolicyPublished.__name__, RolloutSet.__name__

ALL_TENANTS = "*"
"""In place of a tenant, for what speaks of every one."""

FOR_EVERY_TENANT = frozenset({PUBLISHED, ROLLED_OUT})
"""Kinds of records that speak of all tenants: policy sets, and on which version of a workflow turns begin."""

KINDS = (*(cls.__name__ for cls in get_args(m.CommandBody)), PUBLISHED, ROLLED_OUT)

_OWN = frozenset(cls.__name__ for cls in (m.FireTimer, *m.BETWEEN_SESSIONS))
_ASKED = frozenset(c.__name__ for c in get_args(m.CommandBody) if c not in m.INTERNAL) - _OWN
_REPORTED = frozenset(cls.__name__ for cls in m.INTERNAL) - _OWN

ROLES = {
    "client": _ASKED,
    "gateway": _ASKED,
    "worker": _REPORTED,
    "processor": _OWN,
    "publisher": FOR_EVERY_TENANT,
}
"""Which kinds of commands, or of other records, a key of this role vouches for."""

FOR_ALL = ("processor", "publisher")
"""Roles whose keys are no use unless they are for all tenants: whose sessions are woken, and of whom a set speaks."""

ACTIVE, RETIRED, REVOKED = "active", "retired", "revoked"
STATUSES = (ACTIVE, RETIRED, REVOKED)
"""Signs and verifies; verifies what it signed before; counts for nothing any more."""

UNKNOWN_KEY = "unknown_key"
"""The one refusal that a look for new keys may cure."""

REVOKED_KEY = "revoked_key"
"""The one that says nothing of what was taken under the key before."""

SHOWN_MAX = 100
"""Characters of a stranger's text in a sentence."""


class NoKey(Rejected):
    """No key that is there may sign this command; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `tenants` is null for all; `actor` is the only one it may name, null for any.

    `secret` is what signs, null in a public half; `public` is an Ed25519 key's other half, null for HMAC, whose
    secret verifies as well. `not_after_ms` is the last moment, by the log's clock, at which a command may come.
    """

    kid: str
    algorithm: str
    secret: bytes | None = field(repr=False)
    public: bytes | None = field(repr=False)
    tenants: frozenset[str] | None
    kinds: frozenset[str]
    actor: str | None = None
    status: str = ACTIVE
    not_after_ms: int | None = None
    role: str = ""

    def __post_init__(self) -> None:
        """ValueError where it is no key, without its secret."""
        if not (self.kid and self.kid.isascii() and self.kid.isprintable()):
            raise ValueError(f"key id {self.kid[:SHOWN_MAX]!a}: give printable ASCII")
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm {self.algorithm!r} is not one of {', '.join(ALGORITHMS)}")
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is not one of {', '.join(STATUSES)}")
        unknown = self.kinds - frozenset(KINDS)
        if unknown or not self.kinds:
            raise ValueError(f"kinds {sorted(unknown)} cannot be signed: use some of {KINDS}")
        if self.kinds & FOR_EVERY_TENANT and self.tenants is not None:
            raise ValueError(
                f"tenants {sorted(self.tenants)}: policy sets and rollouts speak of all, so a publisher's key names none"
            )
        if len(self.known) != SECRET_BYTES or len(self.secret or self.known) != SECRET_BYTES:
            raise ValueError(f"a key's bytes must be {SECRET_BYTES}, for {self.algorithm}")
        if self.algorithm == ED25519 and self.secret and public_half(self.secret) != self.public:
            raise ValueError("the public half is not that of the private key")

    @property
    def signs(self) -> bool:
        """Whether new commands may be signed with it."""
        return self.secret is not None and self.status == ACTIVE

    def signs_at(self, at_ms: int) -> bool:
        """Whether it signs, and has not ended by this moment."""
        return self.signs and not self.has_ended(at_ms)

    def has_ended(self, at_ms: int) -> bool:
        """Whether what it has signed counts no more, where it comes at this moment."""
        return self.not_after_ms is not None and at_ms > self.not_after_ms

    @property
    def known(self) -> bytes:
        """The bytes that verify its signatures."""
        return (self.public if self.algorithm == ED25519 else self.secret) or b""

    def vouches_for(self, tenant: str, kind: str, actor: str) -> bool:
        """Whether such a command is this key's to sign."""
        return (
            kind in self.kinds
            and (self.tenants is None or tenant in self.tenants)
            and self.actor in (None, actor)
        )


@freezing.dataclass(frozen=True, slots=True)
class Evidence:
    """What vouched for a command: a key's id, or null where commands need no signature."""

    kid: str | None


class Keyring:
    """Some keys, the oldest first; immutable."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        """ValueError where two have one id."""
        self.keys = tuple(keys)
        self._by_id = {key.kid: key for key in self.keys}
        if len(self._by_id) != len(self.keys):
            raise ValueError("two keys have one id: each needs its own")

    def signing_key(self, tenant: str, kind: str, actor: str, at_ms: int) -> Key | None:
        """The key for such a command: of those that may sign it the one for fewest, and of these the newest."""
        best: Key | None = None
        for key in self.keys:
            if not key.signs_at(at_ms) or not key.vouches_for(tenant, kind, actor):
                continue
            if best is None or _narrow(key) >= _narrow(best):
                best = key
        return best

    def may_sign(self, kind: str, actor: str, at_ms: int, tenant: str | None = None) -> bool:
        """Whether some key signs such commands for this tenant; without one, be it for some tenants only."""
        return any(
            key.signs_at(at_ms)
            and kind in key.kinds
            and key.actor in (None, actor)
            and (tenant is None or key.tenants is None or tenant in key.tenants)
            for key in self.keys
        )

    def is_believed(self, kid: str, at_ms: int) -> bool:
        """Whether what this key signed counts, if it comes at that moment; one that is not here does not."""
        key = self._by_id.get(kid)
        return key is not None and key.status != REVOKED and not key.has_ended(at_ms)

    def sign(
        self, message: bytes, tenant: str, kind: str, actor: str, at_ms: int
    ) -> tuple[str, bytes]:
        """The key's id and the signature; `NoKey` where nothing here may sign it."""
        key = self.signing_key(tenant, kind, actor, at_ms)
        if key is None or key.secret is None:
            raise NoKey(
                f"no active key here vouches for {kind} of tenant {tenant!r} by {actor!r}: see 'wakeful keys list', "
                f"make one with 'wakeful keys new --role {role_for(kind)}', or name another file with WAKEFUL_KEYS"
            )
        return key.kid, sign(key.algorithm, key.secret, message)

    def verify(
        self,
        message: bytes,
        mark: tuple[str, bytes] | None,
        tenant: str,
        kind: str,
        actor: str,
        at_ms: int,
    ) -> Evidence | Refusal:
        """Whether the key of this mark (its id and the signature, if any) vouches for the command that came at `at_ms`."""
        if mark is None:
            told = f"{kind} has no signature: sign it with a key from 'wakeful keys new --role {role_for(kind)}'"
            return Refusal("identity", "unsigned", told)
        key = self._by_id.get(mark[0])
        if key is None:
            told = f"key {mark[0][:SHOWN_MAX]!a} is not known here: add it to the keyring of the processors"
            return Refusal("identity", UNKNOWN_KEY, told)
        if not verifies(key.algorithm, key.known, message, mark[1]):
            told = f"the signature by key {key.kid!r} is not of this record in this topic of this cluster"
            return Refusal("identity", "bad_signature", told)
        return _beyond(key, tenant, kind, actor, at_ms) or Evidence(key.kid)


def role_for(kind: str) -> str:
    """The first role whose keys vouch for it."""
    return next(role for role, kinds in ROLES.items() if kind in kinds)


def _beyond(key: Key, tenant: str, kind: str, actor: str, at_ms: int) -> Refusal | None:
    """What a key that did sign has no right to say; that its time is over comes last, since whoever goes by that relies on the rest."""
    told = reason = ""
    if key.tenants is not None and tenant not in key.tenants:
        reason, told = "wrong_tenant", f"key {key.kid!r} does not vouch for tenant {tenant!r}"
    elif kind not in key.kinds:
        reason, told = (
            "wrong_kind",
            f"key {key.kid!r} does not vouch for {kind}: it is one for {key.role or 'others'}",
        )
    elif key.actor not in (None, actor):
        reason, told = (
            "forged_actor",
            f"key {key.kid!r} speaks for {key.actor!r} and for nobody else, not for {actor[:SHOWN_MAX]!a}",
        )
    elif key.status == REVOKED:
        reason, told = REVOKED_KEY, f"key {key.kid!r} is revoked: sign with another"
    elif key.has_ended(at_ms):
        reason, told = (
            "expired_key",
            f"key {key.kid!r} ended at {key.not_after_ms} ms and this came at {at_ms} ms: sign with another",
        )
    return Refusal("identity", reason, told) if reason else None


def _narrow(key: Key) -> tuple[bool, bool]:
    """How little it vouches for: what is meant for one actor, or for named tenants, goes before what is for all."""
    return key.actor is not None, key.tenants is not None
