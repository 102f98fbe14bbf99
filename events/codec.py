"""The codecs of what is stored, one per topic, and the functions that everyone calls."""

from __future__ import annotations

from typing import cast, get_args

from .avro import Codec, Encoded
from .errors import Undecodable
from .headers import Headers, fingerprint_in
from .limits import CONTROL_MAX, EVENT_MAX, OUTCOME_MAX, SNAPSHOT_MAX, TASK_MAX
from .records import (
    ActivityTask,
    AttemptOver,
    Event,
    EventBody,
    JournalChunk,
    Outcome,
    PartitionMark,
    PolicyPublished,
    PolicySeen,
    RolloutSeen,
    RolloutSet,
    Snapshot,
)
from .state import SessionState

__all__ = ["Codec", "Encoded", "Undecodable"]

EVENTS = Codec(get_args(EventBody), wrapper=Event, value_max=EVENT_MAX)
TASKS = Codec((ActivityTask,), value_max=TASK_MAX)
OUTCOMES = Codec((Outcome,), value_max=OUTCOME_MAX)
ATTEMPTS = Codec((AttemptOver,), value_max=TASK_MAX)
SNAPSHOTS = Codec((Snapshot, PartitionMark, JournalChunk), value_max=SNAPSHOT_MAX)
Control = PolicyPublished | PolicySeen | RolloutSet | RolloutSeen
"""What lies in the control topic."""

CONTROL = Codec(get_args(Control), value_max=CONTROL_MAX)
STATES = Codec((SessionState,), value_max=SNAPSHOT_MAX)

SINGLE_OBJECT = b"\xc3\x01"
"""Avro's single-object encoding: this marker, the fingerprint, the body. For bytes without headers."""


def encode_event(event: Event) -> Encoded:
    """An event as bytes; raises TypeError or ValueError naming the field that does not fit."""
    return EVENTS.encode(event)


def decode_event(value: bytes | None, headers: Headers) -> Event:
    """The event in a record; `Undecodable` says why there is none."""
    return cast("Event", EVENTS.decode(value, fingerprint_in(headers)))


def read_event(value: bytes | None, headers: Headers) -> tuple[Event, Encoded]:
    """The event, and its bytes as stored: the chain is hashed over those, never over bytes made again."""
    stored = EVENTS.open(value, fingerprint_in(headers))
    return cast("Event", EVENTS.decode_body(stored.body, stored.fingerprint)), stored


def encode_task(task: ActivityTask) -> Encoded:
    """An activity's attempt as bytes."""
    return TASKS.encode(task)


def decode_task(value: bytes | None, headers: Headers) -> ActivityTask:
    """The attempt in a record of an activities topic."""
    return cast("ActivityTask", TASKS.decode(value, fingerprint_in(headers)))


def encode_outcome(outcome: Outcome) -> Encoded:
    """An outcome as bytes."""
    return OUTCOMES.encode(outcome)


def decode_outcome(value: bytes | None, headers: Headers) -> Outcome:
    """The outcome in a record."""
    return cast("Outcome", OUTCOMES.decode(value, fingerprint_in(headers)))


def encode_snapshot(snapshot: Snapshot | PartitionMark | JournalChunk) -> Encoded:
    """A snapshot, a part of an open journal, or a partition's mark, as bytes."""
    return SNAPSHOTS.encode(snapshot)


def decode_snapshot(
    value: bytes | None, headers: Headers
) -> Snapshot | PartitionMark | JournalChunk:
    """What a record of the snapshots topic holds."""
    return cast(
        "Snapshot | PartitionMark | JournalChunk", SNAPSHOTS.decode(value, fingerprint_in(headers))
    )


def encode_control(record: Control) -> Encoded:
    """A record of the control topic as bytes."""
    return CONTROL.encode(record)


def decode_control(value: bytes | None, headers: Headers) -> Control:
    """What a record of the control topic holds."""
    return cast("Control", CONTROL.decode(value, fingerprint_in(headers)))


def encode_state(state: SessionState) -> bytes:
    """A session's state for a snapshot or a store; equal states give equal bytes."""
    encoded = STATES.encode(state)
    return SINGLE_OBJECT + encoded.fingerprint + encoded.body


def decode_state(data: bytes) -> SessionState:
    """The state in a snapshot; `Undecodable` where this release does not know its schema."""
    if data[:2] != SINGLE_OBJECT or len(data) < 10:
        raise Undecodable(
            "bad_frame", f"expected Avro's single-object marker, got {data[:2].hex()!r}"
        )
    return cast("SessionState", STATES.decode_body(data[10:], data[2:10]))
