"""Bytes of every version of every record that was ever written; they stay readable for ever.

`python tests/schemas/test_golden.py` writes what is missing (and, while the lock is a draft, what has changed).
"""

import dataclasses
import json
import types
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from fastavro import parse_schema, schemaless_reader

from wakeful.commands.models import Command, CommandBody, CommandHeader
from wakeful.commands.wire import COMMANDS
from wakeful.events.codec import (
    ATTEMPTS,
    CONTROL,
    EVENTS,
    OUTCOMES,
    SNAPSHOTS,
    STATES,
    TASKS,
    Codec,
    encode_event,
)
from wakeful.events.hashing import event_hash
from wakeful.events.records import (
    ActivityTask,
    AttemptOver,
    Envelope,
    Event,
    EventBody,
    JournalChunk,
    MessageReceived,
    Outcome,
    PartitionMark,
    PolicyPublished,
    PolicySeen,
    RolloutSeen,
    RolloutSet,
    SessionOpened,
    Snapshot,
    TurnStarted,
)
from wakeful.events.state import NO_HASH, SessionState
from wakeful.schemas import SchemaVersion, bundled

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = bundled().lock.versions

SINGLE: dict[type, Codec] = {
    ActivityTask: TASKS,
    Outcome: OUTCOMES,
    Snapshot: SNAPSHOTS,
    PartitionMark: SNAPSHOTS,
    JournalChunk: SNAPSHOTS,
    AttemptOver: ATTEMPTS,
    SessionState: STATES,
    PolicyPublished: CONTROL,
    PolicySeen: CONTROL,
    RolloutSet: CONTROL,
    RolloutSeen: CONTROL,
}


def sample(cls: type, *, full: bool, depth: int = 0) -> Any:
    """A record with a different value in each field; `full` fills what may be null or empty."""
    hints = get_type_hints(cls)
    made = {}
    for number, field in enumerate(dataclasses.fields(cls), start=1):
        made[field.name] = value(hints[field.name], f"{field.name}-{depth}", number, full, depth)
    return cls(**made)


def value(hint: Any, text: str, number: int, full: bool, depth: int) -> Any:
    if get_origin(hint) in {types.UnionType, Union}:
        (inner,) = (h for h in get_args(hint) if h is not types.NoneType)
        return value(inner, text, number, full, depth) if full else None
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        return tuple(value(inner, f"{text}.{i}", i, full, depth) for i in range(2 * full))
    leaves = {
        str: f"{text} ü\0😀" if full else "",
        int: (-1) ** number * (10 ** (number % 19)) if full else 0,
        bytes: bytes(range(number)) if full else b"",
        bool: full,
    }
    return leaves[hint] if hint in leaves else sample(hint, full=full, depth=depth + 1)


def whole(cls: type, *, full: bool) -> tuple[Codec, Any]:
    body = sample(cls, full=full)
    if cls in get_args(EventBody):
        return EVENTS, Event(sample(Envelope, full=full), body)
    if cls in get_args(CommandBody):
        return COMMANDS, Command(sample(CommandHeader, full=full), body)
    return SINGLE[cls], body


def classes() -> dict[str, type]:
    every = (*get_args(EventBody), *get_args(CommandBody), *SINGLE)
    return {f"wakeful.v1.{cls.__name__}": cls for cls in every}


def path(version: SchemaVersion) -> Path:
    return GOLDEN / f"{version.id}.{version.record.rpartition('.')[2]}.json"


def made_today(version: SchemaVersion) -> dict[str, dict[str, str]]:
    made = {}
    for kind in ("full", "bare"):
        codec, record = whole(classes()[version.record], full=kind == "full")
        encoded = codec.encode(record)
        digest = event_hash(encoded.fingerprint, encoded.body, NO_HASH)
        made[kind] = {"value": encoded.value.hex(), "hash": digest.hex()}
    return {"fingerprint": version.fingerprint.hex(), **made}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: f"{v.id}.{v.record}")
def test_every_version_has_bytes_that_still_decode(version: SchemaVersion) -> None:
    golden = json.loads(path(version).read_text("utf-8"))
    assert golden["fingerprint"] == version.fingerprint.hex()
    for kind in ("full", "bare"):
        stored = bytes.fromhex(golden[kind]["value"])
        codec, record = whole(classes()[version.record], full=kind == "full")
        read = codec.decode(stored, version.fingerprint)
        assert type(read) is type(record)
        assert codec.decode(stored, None) == read  # by the frame's id
        hashed = b"wakeful1" + version.fingerprint + stored[5:] + bytes(32)
        assert sha256(hashed).hexdigest() == golden[kind]["hash"]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: f"{v.id}.{v.record}")
def test_fastavro_reads_the_golden_bytes_alike(version: SchemaVersion) -> None:
    golden = json.loads(path(version).read_text("utf-8"))
    for kind in ("full", "bare"):
        stored = bytes.fromhex(golden[kind]["value"])
        source = BytesIO(stored[5:])
        read = schemaless_reader(source, parse_schema(bundled().schema(version)), None)
        assert source.read() == b""
        if bundled().current(version.record) is not version:
            continue  # ours gives today's class, fastavro the record as it was
        codec, _ = whole(classes()[version.record], full=True)
        assert plain(codec.decode(stored, version.fingerprint)) == read


def plain(record: Any) -> Any:
    """A record as fastavro gives it: dicts and lists, an event's or command's body beside its head."""
    if isinstance(record, Event):
        return {"envelope": plain(record.envelope), **plain(record.body)}
    if isinstance(record, Command):
        return {"header": plain(record.header), **plain(record.body)}
    if dataclasses.is_dataclass(record):
        return {f.name: plain(getattr(record, f.name)) for f in dataclasses.fields(record)}
    return [plain(item) for item in record] if isinstance(record, tuple) else record


CURRENT = [version for version in VERSIONS if bundled().current(version.record) is version]


@pytest.mark.parametrize("version", CURRENT, ids=lambda v: f"{v.id}.{v.record}")
def test_encoding_today_gives_the_golden_bytes(version: SchemaVersion) -> None:
    assert made_today(version) == json.loads(path(version).read_text("utf-8"))


def test_no_golden_file_is_left_without_a_version() -> None:
    assert {path(version).name for version in VERSIONS} | {"chain.json"} == {
        file.name for file in GOLDEN.iterdir()
    }


def chain() -> list[dict[str, str]]:
    bodies = [sample(cls, full=True) for cls in (SessionOpened, MessageReceived, TurnStarted)]
    links, prev_hash = [], NO_HASH
    for seq, body in enumerate(bodies, start=1):
        envelope = dataclasses.replace(
            sample(Envelope, full=False),
            seq=seq,
            tenant="acme",
            session_id="s-1",
            prev_hash=prev_hash,
        )
        encoded = encode_event(Event(envelope, body))
        prev_hash = event_hash(encoded.fingerprint, encoded.body, prev_hash)
        links.append(
            {
                "fingerprint": encoded.fingerprint.hex(),
                "value": encoded.value.hex(),
                "hash": prev_hash.hex(),
            }
        )
    return links


def test_a_chain_of_stored_bytes_keeps_its_hashes() -> None:
    stored = json.loads((GOLDEN / "chain.json").read_text("utf-8"))
    prev_hash = NO_HASH
    assert len(stored) == len(chain())
    for link in stored:
        value, fingerprint = bytes.fromhex(link["value"]), bytes.fromhex(link["fingerprint"])
        event = EVENTS.decode(value, fingerprint)
        assert event.envelope.prev_hash == prev_hash
        prev_hash = event_hash(fingerprint, value[5:], prev_hash)
        assert prev_hash.hex() == link["hash"]


def write() -> None:
    """Goldens of versions that have none; all of them, while nothing was released."""
    draft = bundled().lock.draft
    for version in VERSIONS:
        if draft or not path(version).exists():
            path(version).write_text(json.dumps(made_today(version), indent=1) + "\n", "utf-8")
    if draft or not (GOLDEN / "chain.json").exists():
        (GOLDEN / "chain.json").write_text(json.dumps(chain(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write()
