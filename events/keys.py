"""Keys and where they lie: every record of a session has one key, and so one partition.

Default partitioners disagree between clients, so ours is fixed: the Java client's murmur2. The key is
`<tenant>/<session_id>`, both from an alphabet without `/`, `#` and `@`, so that no key can be read two ways.
"""

from __future__ import annotations

import re
from struct import unpack_from

from .errors import InvalidKey
from .keyed import keyed_hash

ID_LENGTH_MAX = 128

ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
"""What a tenant or a session id may be. Upper and lower case differ."""

JOB_TAG_BYTES = 8

JOB_PLACE = re.compile(r"[1-9][0-9]{0,14}\.[1-9][0-9]{0,14}-[0-9a-f]{16}", re.ASCII)
"""What stands behind the session in the id of a job: turn, step, and what nobody can guess."""

CHILD_TAG_BYTES = 12
"""Of the digest in a child's id: it alone tells children apart whose parents' ids are cut."""

MASK = 0xFFFFFFFF
M = 0x5BD1E995
SEED = 0x9747B28C


def check_id(what: str, value: str) -> str:
    """The value where it can be a tenant or session id; `InvalidKey` says what is allowed."""
    if ID.fullmatch(value) is None:
        shown = ascii(value) if len(value) <= ID_LENGTH_MAX else f"{len(value)} characters"
        raise InvalidKey(
            f"{what} {shown} is not allowed: use 1 to {ID_LENGTH_MAX} of A-Z a-z 0-9 . _ : -"
        )
    return value


def why_unreachable(session_id: str) -> str:
    """Why no new session may have this id, in words; nothing where it may. What a log has under it stays as it is."""
    if session_id not in (".", ".."):
        return ""
    return f"session id {session_id!r} is not allowed: no address can have it as a part, so take another"


def session_key(tenant: str, session_id: str) -> bytes:
    """The key of everything that belongs to a session."""
    return f"{check_id('tenant', tenant)}/{check_id('session id', session_id)}".encode("ascii")


def split_key(key: bytes | None) -> tuple[str, str]:
    """Tenant and session id of a key; `InvalidKey` where it is not one."""
    try:
        tenant, session_id = (key or b"").decode("ascii").split("/")
    except ValueError as error:
        raise InvalidKey(f"key {(key or b'')[:64]!r} is not <tenant>/<session_id>") from error
    return check_id("tenant", tenant), check_id("session id", session_id)


def effect_key(tenant: str, session_id: str, activity_id: str) -> str:
    """The idempotency key of an activity, `tenant/session/turn/step`; its id is `turn.step`."""
    return f"{tenant}/{session_id}/{activity_id.replace('.', '/')}"


def job_id_of(tenant: str, session_id: str, place: str, digest_key: bytes) -> str:
    """The id of a job that is awaited at this `turn.step`: it names its session, and nobody without the key can guess it."""
    named = f"job/{session_key(tenant, session_id).decode()}/{place}"
    return f"{session_id}:{place}-{keyed_hash(digest_key, named.encode())[:JOB_TAG_BYTES].hex()}"


def session_of_job(job_id: str) -> str:
    """The session that awaits it; `InvalidKey` where no job has such an id."""
    session_id, colon, rest = job_id.rpartition(":")
    if not colon or ID.fullmatch(session_id) is None or JOB_PLACE.fullmatch(rest) is None:
        raise InvalidKey(
            f"job id {job_id[:ID_LENGTH_MAX]!a} is not one: pass it as the session handed it out, "
            "such as order-7:1.2-0123456789abcdef"
        )
    return session_id


def child_id_of(tenant: str, session_id: str, place: str, digest_key: bytes) -> str:
    """The session id of the child that is opened at this `turn.step`: nobody without the key can take it beforehand.

    It begins with its parent's, as far as that fits, and is told from all others by the digest at its end.
    """
    named = f"child/{session_key(tenant, session_id).decode()}/{place}"
    tag = f":{place}-{keyed_hash(digest_key, named.encode())[:CHILD_TAG_BYTES].hex()}"
    return session_id[: ID_LENGTH_MAX - len(tag)] + tag


def attempt_id(idempotency_key: str, attempt: int) -> str:
    """The name of one attempt: the key of its task, and the command id of its result."""
    return f"{idempotency_key}#{attempt}"


def task_key(idempotency_key: str, attempt: int) -> bytes:
    """The key of one attempt of an activity; `InvalidKey` where a stranger's task has one that cannot be."""
    if not idempotency_key.isascii():
        raise InvalidKey(f"idempotency key {idempotency_key[:64]!a} is not ASCII")
    return attempt_id(idempotency_key, attempt).encode("ascii")


def mark_key(partition: int) -> bytes:
    """The key of a partition's mark among the snapshots; no session's key starts so."""
    return f"@{partition}".encode("ascii")


def chunk_key(key: bytes, chunk: int) -> bytes:
    """The key of one part of a session's open journal among the snapshots, from the session's own."""
    return b"%b#%d" % (key, chunk)


def session_of(key: bytes | None) -> bytes | None:
    """The session's key in a key among the snapshots; none where it is no session's."""
    own = (key or b"").partition(b"#")[0]
    try:
        split_key(own)
    except InvalidKey:
        return None
    return own


def session_part(key: bytes | None) -> bytes:
    """The session's key in a key of any topic, unchecked: those of tasks, chunks and attempts begin with it."""
    return b"/".join((key or b"").partition(b"#")[0].split(b"/", 2)[:2])


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as the Java client and `murmur2_random` place it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, unsigned (Java's is the same number, signed)."""
    length = len(data)
    words = length >> 2
    h = SEED ^ length
    for word in unpack_from(f"<{words}I", data):
        k = word * M & MASK
        h = (h * M & MASK) ^ ((k ^ k >> 24) * M & MASK)
    tail = data[words << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * M & MASK
    h = (h ^ h >> 13) * M & MASK
    return h ^ h >> 15
