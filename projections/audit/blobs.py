"""Check of what lies beside the log: every payload that a fact refers to is in the store, and is what the fact says."""

from __future__ import annotations

from collections.abc import Iterator

from ...events.blobs import Blobs, fetch, payloads_in
from ...events.errors import BlobDamaged, BlobMissing
from .evidence import Violation
from .history import History, of
from .invariants import BLOBS


def stored(history: History, blobs: Blobs, digest_key: bytes) -> Iterator[Violation]:
    """Each blob once, at the first fact that refers to it. `BlobUnavailable` where the store does not answer."""
    seen: set[str] = set()
    for fact in history.facts:
        for payload in payloads_in(fact.event.body):
            if payload.ref is None or payload.ref in seen:
                continue
            seen.add(payload.ref)
            try:
                fetch(payload, fact.event.envelope.tenant, digest_key, blobs)
            except (BlobMissing, BlobDamaged) as fault:
                kind = type(fact.event.body).__name__
                yield of(fact, BLOBS, f"{kind}: {fault.message}")
