"""The head of each session's hash chain, so that an event which does not continue it is not taken for the next one."""

from __future__ import annotations

from itertools import islice

from ..events.envelopes import stored_bytes
from ..events.errors import Undecodable
from ..events.hashing import HASH_SIZE, event_hash
from ..events.log.protocol import Record
from ..events.records import Envelope
from ..events.state import NO_HASH
from .rows import Key


class Chains:
    """Bounded and in memory alone: a session whose head is not known is taken on trust, and known from then on."""

    def __init__(self) -> None:
        self._heads: dict[Key, tuple[int, bytes]] = {}

    def fits(self, key: Key, envelope: Envelope) -> bool:
        """Whether the event continues what was seen; one behind a hole, or of a session not seen, may."""
        if len(envelope.prev_hash) != HASH_SIZE:
            return False
        seq, head = self._heads.get(key, (0, NO_HASH))
        return envelope.seq != seq + 1 or envelope.prev_hash == head

    def advance(self, key: Key, envelope: Envelope, record: Record) -> None:
        """The event is the session's newest now."""
        self._heads.pop(key, None)  # to the end: `trim` lets the quiet ones go
        try:
            fingerprint, body = stored_bytes(record)
        except Undecodable:
            return  # without our header: nothing is known of what follows it
        self._heads[key] = (envelope.seq, event_hash(fingerprint, body, envelope.prev_hash))

    def forget(self) -> None:
        """Drops all: what was seen may not be stored."""
        self._heads.clear()

    def trim(self, most: int) -> None:
        """Keeps the sessions that moved last."""
        for key in list(islice(self._heads, max(0, len(self._heads) - most))):
            del self._heads[key]
