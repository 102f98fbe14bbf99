"""Threads that meet a class of records for the first time together: none sees what another has half made."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from wakeful.events import shapes
from wakeful.events.avro import Codec
from wakeful.events.codec import STATES
from wakeful.events.limits import SNAPSHOT_MAX
from wakeful.events.state import Head, SessionState, State

THREADS = 4


def test_threads_that_write_and_read_the_first_record_together_all_get_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = SessionState(Head(seq=3), State("desk"))
    known = STATES.encode(state)
    fresh = Codec((SessionState,), value_max=SNAPSHOT_MAX)
    together, hints = threading.Barrier(THREADS), shapes.get_type_hints

    def slow(cls: type) -> dict[str, Any]:
        time.sleep(0.01)  # others go on meanwhile
        return hints(cls)

    def both(_: int) -> tuple[bytes, object]:
        together.wait(5)
        return fresh.encode(state).value, fresh.decode(known.value, known.fingerprint)

    monkeypatch.setattr(shapes, "get_type_hints", slow)
    with ThreadPoolExecutor(THREADS) as threads:
        found: Iterable[tuple[bytes, object]] = threads.map(both, range(THREADS))
        assert list(found) == [(known.value, state)] * THREADS
