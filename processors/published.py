"""Which records of the control topic say who may decide: sets that a publisher vouches for, none older than the one in force. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..commands.check import Refusal
from ..commands.identity import Identity
from ..commands.keyring import PUBLISHED, REVOKED_KEY
from ..events.codec import decode_control
from ..events.errors import Undecodable
from ..events.log.protocol import Record
from ..events.records import PolicyPublished

OLDER_VERSION = "older_version"


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nobody goes by this record: `reason` is why identity refuses it, or `OLDER_VERSION`.

    `version` is that of a set which a publisher did vouch for, with a key that is revoked since: who read it before may
    still go by it.
    """

    reason: str
    told: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Unusable:
    """A publisher vouches for this record, and there is no set in it."""

    told: str


def read_policy(
    record: Record, identity: Identity, version: int | None
) -> PolicyPublished | Ignored | Unusable | None:
    """What a record under the policy's key says, where the set of this version is in force; null: it is taken back.

    An equal version counts: two people may publish at once, and the later record holds.
    """
    published, told = _decoded(record)
    found = identity.check_published(published, record, PUBLISHED)
    if isinstance(found, Refusal):
        revoked = published if found.reason == REVOKED_KEY else None
        version = revoked.version if revoked is not None else None
        return Ignored(found.reason, found.detail, version)
    if record.value is None:
        return None
    if published is None:
        return Unusable(told)
    if version is not None and published.version < version:
        told = (
            f"it is version {published.version}, and {version} is in force: an old record was appended again; to go "
            "back to what it says, publish that as a new set"
        )
        return Ignored(OLDER_VERSION, told)
    return published


def _decoded(record: Record) -> tuple[PolicyPublished | None, str]:
    """The set, or why there is none."""
    try:
        found = decode_control(record.value, record.headers)
    except Undecodable as error:
        return None, str(error)
    if isinstance(found, PolicyPublished):
        return found, ""
    return None, f"it is a {type(found).__name__}"
