"""Who vouches for a command, a policy set or a rollout: signs those that leave, judges those that come, with the keys of that time.

Everything that writes to the commands topic or publishes to control is given an `Identity`, and so is the processor that
reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol

from ..events.avro import FRAME, Encoded
from ..events.errors import Undecodable
from ..events.headers import Header, Headers, find, fingerprint_in
from ..events.log.protocol import Record
from ..events.records import PolicyPublished, RolloutSet
from ..schemas import bundled
from .check import Refusal
from .keyring import ALL_TENANTS, UNKNOWN_KEY, Evidence, Keyring, NoKey
from .models import INTERNAL, Command
from .signatures import KEY_HEADER, SIGNATURE_HEADER, SIGNED, signed_bytes
from .wire import decode_command

Published = PolicyPublished | RolloutSet
"""What a publisher vouches for, and lays into the control topic."""


class Identity(Protocol):
    """See the module."""

    def sign(self, command: Command, topic: str, key: bytes, value: bytes) -> tuple[Header, ...]:
        """The headers that vouch for it; `NoKey` where nothing here may."""

    def may_sign(self, kind: str, actor: str, at_ms: int, tenant: str | None = None) -> bool:
        """Whether commands of this kind can leave now, in this name, for some tenant at least."""

    def is_believed(self, kid: str, at_ms: int) -> bool:
        """Whether what the key of this id signed counts, if it comes at that moment."""

    def check(self, command: Command, stored: Encoded, record: Record) -> Evidence | Refusal:
        """Whether the command in this record is vouched for; asked before anything is made of it."""

    def sign_published(
        self, published: Published, topic: str, key: bytes, value: bytes
    ) -> tuple[Header, ...]:
        """The headers that vouch for it in the name of whoever publishes it; `NoKey` where nothing here may."""

    def check_published(
        self, published: Published | None, record: Record, kind: str
    ) -> Evidence | Refusal:
        """Whether a publisher vouches for what is in this record, of this kind; null where it is none, or cannot be read."""


class Insecure:
    """Nothing is signed and everybody is believed: for one process in memory, and where `WAKEFUL_INSECURE=1` says so."""

    def sign(self, command: Command, topic: str, key: bytes, value: bytes) -> tuple[Header, ...]:
        """No headers."""
        del command, topic, key, value
        return ()

    def may_sign(self, kind: str, actor: str, at_ms: int, tenant: str | None = None) -> bool:
        """They can."""
        del kind, actor, at_ms, tenant
        return True

    def is_believed(self, kid: str, at_ms: int) -> bool:
        """It does, whoever signed."""
        del kid, at_ms
        return True

    def check(self, command: Command, stored: Encoded, record: Record) -> Evidence | Refusal:
        """No evidence, and no refusal."""
        del command, stored, record
        return Evidence(None)

    def sign_published(
        self, published: Published, topic: str, key: bytes, value: bytes
    ) -> tuple[Header, ...]:
        """No headers."""
        del published, topic, key, value
        return ()

    def check_published(
        self, published: Published | None, record: Record, kind: str
    ) -> Evidence | Refusal:
        """No evidence, and no refusal."""
        del published, record, kind
        return Evidence(None)


INSECURE = Insecure()


class Signed:
    """Signs and judges with the keys that `keys` gives at that moment, for the commands of one cluster.

    `newest` is asked where a key is unknown: whoever gives keys may look for new ones only now and then otherwise.
    """

    def __init__(
        self,
        keys: Callable[[], Keyring],
        cluster_id: str,
        *,
        newest: Callable[[], Keyring] | None = None,
    ) -> None:
        self._keys = keys
        self._newest = newest or keys
        self._cluster_id = cluster_id

    def sign(self, command: Command, topic: str, key: bytes, value: bytes) -> tuple[Header, ...]:
        """See `Identity`."""
        header, kind = command.header, type(command.body).__name__
        said = (header.tenant, kind, header.actor, header.issued_at_ms)
        return self._mark(topic, key, value, *said)

    def may_sign(self, kind: str, actor: str, at_ms: int, tenant: str | None = None) -> bool:
        """See `Identity`."""
        return self._keys().may_sign(kind, actor, at_ms, tenant)

    def is_believed(self, kid: str, at_ms: int) -> bool:
        """See `Identity`."""
        return self._keys().is_believed(kid, at_ms)

    def check(self, command: Command, stored: Encoded, record: Record) -> Evidence | Refusal:
        """See `Identity`.

        The fingerprint's header is not signed, and another schema may fit the same bytes (a release is a
        cancellation then), so the signed value must name its schema itself, by the id in its frame.
        """
        header, kind = command.header, type(command.body).__name__
        named = _named_in(stored.value[1:FRAME]) == stored.fingerprint
        return self._judged(record, header.tenant, kind, header.actor, named=named)

    def sign_published(
        self, published: Published, topic: str, key: bytes, value: bytes
    ) -> tuple[Header, ...]:
        """See `Identity`."""
        actor, at_ms = _author(published)
        kind = type(published).__name__
        return self._mark(topic, key, value, ALL_TENANTS, kind, actor, at_ms)

    def check_published(
        self, published: Published | None, record: Record, kind: str
    ) -> Evidence | Refusal:
        """See `Identity`. That something is taken back has no number, so it could be played again: nobody signs it."""
        if record.value is None:
            told = "that it is taken back is never signed: publish what shall hold instead"
            return Refusal("identity", "unsigned", told)
        framed = _named_in(record.value[1:FRAME])
        try:
            named = fingerprint_in(record.headers) in (None, framed)
        except Undecodable as error:
            return Refusal("identity", error.reason, str(error))
        actor = _author(published)[0] if published is not None else ""
        return self._judged(record, ALL_TENANTS, kind, actor, named=named)

    def _mark(
        self, topic: str, key: bytes, value: bytes, tenant: str, kind: str, actor: str, at_ms: int
    ) -> tuple[Header, ...]:
        message = signed_bytes(self._cluster_id, topic, key, value)
        kid, signature = self._keys().sign(message, tenant, kind, actor, at_ms)
        return (KEY_HEADER, kid.encode()), (SIGNATURE_HEADER, signature)

    def _judged(
        self, record: Record, tenant: str, kind: str, actor: str, *, named: bool
    ) -> Evidence | Refusal:
        """`named` is whether the signed value itself names the schema that it is read with."""
        try:
            mark = _mark(record.headers)
        except Undecodable as error:
            return Refusal("identity", error.reason, str(error))
        if mark is not None and not named:
            told = "the id in the signed value's frame is not that of the schema it is read with: write the id of schemas/ids.lock"
            return Refusal("identity", "other_schema", told)
        message = signed_bytes(self._cluster_id, record.topic, record.key, record.value)
        said = (message, mark, tenant, kind, actor, record.timestamp_ms)
        found = self._keys().verify(*said)
        if isinstance(found, Refusal) and found.reason == UNKNOWN_KEY:
            found = self._newest().verify(*said)
        return found


class Unchecked(Signed):
    """Signs where it can, and believes everybody: what is on while signatures are being introduced."""

    def sign(self, command: Command, topic: str, key: bytes, value: bytes) -> tuple[Header, ...]:
        """The headers, or none."""
        try:
            return super().sign(command, topic, key, value)
        except NoKey:
            return ()

    def may_sign(self, kind: str, actor: str, at_ms: int, tenant: str | None = None) -> bool:
        """They can, signed or not."""
        return INSECURE.may_sign(kind, actor, at_ms, tenant)

    def is_believed(self, kid: str, at_ms: int) -> bool:
        """It does, whoever signed."""
        return INSECURE.is_believed(kid, at_ms)

    def check(self, command: Command, stored: Encoded, record: Record) -> Evidence | Refusal:
        """No evidence, since nothing was looked at, and no refusal."""
        return INSECURE.check(command, stored, record)

    def sign_published(
        self, published: Published, topic: str, key: bytes, value: bytes
    ) -> tuple[Header, ...]:
        """The headers, or none."""
        try:
            return super().sign_published(published, topic, key, value)
        except NoKey:
            return ()

    def check_published(
        self, published: Published | None, record: Record, kind: str
    ) -> Evidence | Refusal:
        """No evidence, since nothing was looked at, and no refusal."""
        return INSECURE.check_published(published, record, kind)


def disowned(
    identity: Identity, command: Command, vouched_by: str | None, at_ms: int
) -> Refusal | None:
    """Why a command that was kept at that moment counts no more: the key that vouched for it has been revoked since.

    Not a worker's result: its worker may be gone, and nobody else knows what came of the call.
    """
    if isinstance(command.body, INTERNAL) or vouched_by is None:
        return None
    if identity.is_believed(vouched_by, at_ms):
        return None
    told = (
        f"key {vouched_by!r} vouched for it when it was kept, and is revoked or not known here any more: "
        "look at the session and ask again, signed with another"
    )
    return Refusal("identity", "revoked_key", told)


def signed_anew(
    identity: Identity, topic: str, key: bytes | None, value: bytes | None, headers: Headers
) -> list[Header]:
    """The headers of a command that was written before, with a signature of now in place of its own.

    `NoKey` where nothing here may say that; `Undecodable` where it is no command.
    """
    command = decode_command(value, headers)
    kept = [(name, content) for name, content in headers or () if name not in SIGNED]
    return [*kept, *identity.sign(command, topic, key or b"", value or b"")]


def _author(published: Published) -> tuple[str, int]:
    """Who says that he publishes it, and when."""
    if isinstance(published, PolicyPublished):
        return published.published_by, published.published_at_ms
    return published.set_by, published.set_at_ms


def _mark(headers: Headers) -> tuple[str, bytes] | None:
    """Key id and signature; half of it is none. `Undecodable` where one of them is given twice."""
    kid, signature = find(headers, KEY_HEADER), find(headers, SIGNATURE_HEADER)
    if kid is None or signature is None:
        return None
    return kid.decode("utf-8", "replace"), signature


def _named_in(frame_id: bytes) -> bytes | None:
    """The fingerprint of the schema with this id, where there is one."""
    return _fingerprints().get(frame_id)


@cache
def _fingerprints() -> dict[bytes, bytes]:
    return {v.id.to_bytes(4, "big"): v.fingerprint for v in bundled().lock.versions}
