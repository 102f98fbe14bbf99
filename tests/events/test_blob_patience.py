"""A store that is slow, silent or away costs its callers a bounded time, and what was read is not fetched again."""

import threading

import pytest

from wakeful.events.blob_patience import LEFT_BEHIND_MAX, PatientBlobs
from wakeful.events.blobs import MemoryBlobs, fetch, put_payload
from wakeful.events.errors import BlobDamaged, BlobMissing, BlobUnavailable

DEADLINE_S = 40.0
KEY = b"a digest key"
REFS = ["acme/" + f"{n:064x}" for n in range(10)]


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.s = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.s

    def sleep(self, s: float) -> None:
        self.slept.append(s)
        self.s += s


class Shaky(MemoryBlobs):
    """Fails so many times before it answers, and counts."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        super().__init__()
        self.failures = failures
        self.error = error or BlobUnavailable("away")
        self.gets = 0
        self.puts = 0

    def get(self, ref: str) -> bytes:
        self.gets += 1
        self._fail()
        return super().get(ref)

    def put(self, ref: str, data: bytes) -> None:
        self.puts += 1
        self._fail()
        super().put(ref, data)

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error


def patient(store: MemoryBlobs, clock: Clock, **bounds: int) -> PatientBlobs:
    return PatientBlobs(
        store, limit_ms=1_500, monotonic=clock.monotonic, sleep=clock.sleep, **bounds
    )


def test_what_passes_by_itself_is_tried_again_with_growing_pauses() -> None:
    clock, store = Clock(), Shaky(failures=3)
    patient(store, clock).put(REFS[0], b"x")
    assert (store.puts, clock.slept) == (4, [0.05, 0.1, 0.2])
    assert store.held == {REFS[0]: b"x"}


@pytest.mark.parametrize("error", [BlobMissing("gone"), BlobDamaged("bad")])
def test_what_does_not_pass_is_told_at_once(error: Exception) -> None:
    clock, store = Clock(), Shaky(failures=1, error=error)
    with pytest.raises(type(error)):
        patient(store, clock).get(REFS[0])
    assert (store.gets, clock.slept) == (1, [])


def test_a_store_that_is_away_costs_its_limit_once_and_then_nothing_for_a_while() -> None:
    clock, store = Clock(), Shaky(failures=100)
    blobs = patient(store, clock, rest_ms=5_000)
    with pytest.raises(BlobUnavailable, match="away"):
        blobs.get(REFS[0])
    assert clock.s <= 1.5
    tried, told = store.gets, clock.s
    for ref in REFS:
        with pytest.raises(BlobUnavailable, match="did not answer a moment ago"):
            blobs.put(ref, b"x")
    assert (store.gets, store.puts, clock.s) == (tried, 0, told)
    clock.s += 5
    store.failures = 0
    blobs.put(REFS[0], b"x")
    assert blobs.get(REFS[0]) == b"x"


def test_a_call_that_never_comes_back_is_left_behind_and_their_number_is_bounded() -> None:
    release = threading.Event()

    class Hanging(MemoryBlobs):
        def get(self, ref: str) -> bytes:
            release.wait(DEADLINE_S)  # longer than it is waited for: `BlobMissing` would be told
            return super().get(ref)

    blobs = PatientBlobs(Hanging(), limit_ms=20, rest_ms=0)
    try:
        for _ in range(LEFT_BEHIND_MAX):
            with pytest.raises(BlobUnavailable, match=r"no answer of the store within 0\.02 s"):
                blobs.get(REFS[0])
        with pytest.raises(BlobUnavailable, match=f"{LEFT_BEHIND_MAX} calls"):
            blobs.get(REFS[0])
    finally:
        release.set()


def test_what_was_read_or_put_is_not_fetched_again() -> None:
    store = Shaky()
    blobs = patient(store, Clock())
    blobs.put(REFS[0], b"x")
    store.held[REFS[1]] = b"y"
    assert [blobs.get(ref) for ref in (REFS[0], REFS[1], REFS[1])] == [b"x", b"y", b"y"]
    assert store.gets == 1
    blobs.forget()
    assert blobs.get(REFS[0]) == b"x"
    assert store.gets == 2


def test_a_put_asks_the_store_even_for_what_is_kept() -> None:
    store = Shaky()
    blobs = patient(store, Clock())
    blobs.put(REFS[0], b"x")
    store.held.clear()
    blobs.put(REFS[0], b"x")
    assert store.held == {REFS[0]: b"x"}


def test_the_memory_is_bounded_in_bytes_and_keeps_what_was_used_last() -> None:
    store = Shaky()
    blobs = patient(store, Clock(), kept_bytes_max=30)
    for ref in REFS[:3]:
        blobs.put(ref, b"x" * 10)
    blobs.get(REFS[0])
    blobs.put(REFS[3], b"x" * 10)
    for ref in (REFS[0], REFS[2], REFS[3]):
        blobs.get(ref)
    assert store.gets == 0
    blobs.get(REFS[1])
    assert store.gets == 1
    blobs.put(REFS[4], b"x" * 31)
    blobs.get(REFS[4])
    assert store.gets == 2


def test_bytes_that_were_wrong_are_read_anew_once_they_are_restored() -> None:
    """What was read damaged is not kept: a release after the restore must find the right bytes."""
    store = MemoryBlobs()
    blobs = PatientBlobs(store)
    payload = put_payload({"text": "x" * 300_000}, "acme", KEY, store)
    assert payload.ref is not None
    right = store.held[payload.ref]
    for wrong in (b"cut off", right[:-1] + b"?"):
        store.held[payload.ref] = wrong
        with pytest.raises(BlobDamaged, match="restore it"):
            fetch(payload, "acme", KEY, blobs)
        store.held[payload.ref] = right
        assert fetch(payload, "acme", KEY, blobs) == right
        blobs.forget()


def test_what_was_read_before_the_restore_by_somebody_else_is_read_anew() -> None:
    store = MemoryBlobs()
    blobs = PatientBlobs(store)
    payload = put_payload({"text": "x" * 300_000}, "acme", KEY, store)
    assert payload.ref is not None
    right = store.held[payload.ref]
    store.held[payload.ref] = b"cut off"
    blobs.get(payload.ref)  # kept, and not proved
    store.held[payload.ref] = right
    assert fetch(payload, "acme", KEY, blobs) == right
