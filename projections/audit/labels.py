"""Check of what stands around an event's bytes and under no hash: the frame's schema id, and the headers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ...events.avro import FRAME
from ...events.headers import event_headers
from ...schemas import bundled
from .evidence import Violation
from .history import Fact, History, of
from .invariants import LABELS


def labelled(history: History) -> Iterator[Violation]:
    """An event's frame has its schema's id, and its headers are those that its writer gives it."""
    for fact in history.facts:
        told = _wrong(fact)
        if told:
            yield of(fact, LABELS, told)


def _wrong(fact: Fact) -> str:
    record, stored = fact.record, fact.stored
    frame = (record.value or b"")[:FRAME]
    if frame != _frame(stored.fingerprint):
        return f"the frame is {frame.hex()}, its schema has {_frame(stored.fingerprint).hex()}"
    found = dict(record.headers)
    key = record.key or b""
    for name, expected in event_headers(stored, key, fact.event.envelope.seq):
        if found.get(name) != expected:
            return f"the header {name} is {found.get(name)!r}, expected {expected!r}"
    return ""


@cache
def _frame(fingerprint: bytes) -> bytes:
    version = bundled().of_fingerprint(fingerprint)
    return b"" if version is None else b"\0" + version.id.to_bytes(4, "big")
