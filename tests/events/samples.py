"""One of every record, and strategies that make any of them."""

import dataclasses
import types
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import strategies as st

from wakeful.commands.models import (
    Command,
    CommandBody,
    CommandHeader,
)
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
    Undecodable,
)
from wakeful.events.records import (
    ActivityCompleted,
    ActivityTask,
    AttemptOver,
    Cause,
    Envelope,
    Event,
    EventBody,
    JournalChunk,
    Outcome,
    PartitionMark,
    Payload,
    PolicyPublished,
    PolicySeen,
    RolloutSeen,
    RolloutSet,
    Snapshot,
)
from wakeful.events.state import SessionState
from wakeful.schemas import bundled

FOLDER = Path(__file__).parents[2] / "schemas"

SINGLE: dict[type, Codec] = {
    ActivityTask: TASKS,
    AttemptOver: ATTEMPTS,
    Outcome: OUTCOMES,
    Snapshot: SNAPSHOTS,
    PartitionMark: SNAPSHOTS,
    JournalChunk: SNAPSHOTS,
    SessionState: STATES,
    PolicyPublished: CONTROL,
    PolicySeen: CONTROL,
    RolloutSet: CONTROL,
    RolloutSeen: CONTROL,
}
CLASSES = (*get_args(EventBody), *get_args(CommandBody), *SINGLE)

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
    int: st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70),
    bytes: st.binary(max_size=70),
    bool: st.booleans(),
}

ENVELOPE = Envelope(
    tenant="acme",
    session_id="s-1",
    seq=3,
    at_ms=1_700_000_000_000,
    actor="user:ann",
    on_behalf_of=None,
    channel="http",
    cause=Cause("w.commands.v1", 1, 12_345, "c-1", b"h" * 32, 1_700_000_000_000),
    control_offset=12,
    versions_seq=None,
    prev_hash=b"p" * 32,
)
PAYLOAD = Payload("json", b'"hello"', None, b"d" * 32, 7, None)
EVENT = Event(ENVELOPE, ActivityCompleted("1.2", 1, PAYLOAD, "worker-1"))


# A strategy is checked, and asked what it can make, once; made anew for each example that took half of the time.


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) in {types.UnionType, Union}:
        (inner,) = (h for h in get_args(hint) if h is not types.NoneType)
        return st.none() | values(inner)
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=3).map(tuple)
    return LEAVES[hint] if hint in LEAVES else records(hint)


@cache
def records(cls: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    made = {field.name: values(hints[field.name]) for field in dataclasses.fields(cls)}
    return st.builds(cls, **made)


@cache
def whole(cls: type) -> tuple[Codec, st.SearchStrategy[Any]]:
    """The codec of a class, and records as it takes them."""
    if cls in get_args(EventBody):
        return EVENTS, st.builds(Event, records(Envelope), records(cls))
    if cls in get_args(CommandBody):
        return COMMANDS, st.builds(Command, records(CommandHeader), records(cls))
    return SINGLE[cls], records(cls)


def plain(record: Any) -> Any:
    """A record as other readers give it."""
    if isinstance(record, Event):
        return {"envelope": plain(record.envelope), **plain(record.body)}
    if isinstance(record, Command):
        return {"header": plain(record.header), **plain(record.body)}
    if dataclasses.is_dataclass(record):
        return {f.name: plain(getattr(record, f.name)) for f in dataclasses.fields(record)}
    return [plain(item) for item in record] if isinstance(record, tuple) else record


@cache
def schema_of(cls: type) -> dict[str, Any]:
    return bundled().schema(bundled().current(f"wakeful.v1.{cls.__name__}"))


def reason(codec: Codec, value: bytes | None, fingerprint: bytes | None) -> str:
    with pytest.raises(Undecodable) as refused:
        codec.decode(value, fingerprint)
    return refused.value.reason
