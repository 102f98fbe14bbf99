"""Keys, and the partition they lie in for every client."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.events.errors import InvalidKey
from wakeful.events.keys import (
    check_id,
    chunk_key,
    mark_key,
    murmur2,
    partition_of,
    session_key,
    session_part,
    split_key,
    task_key,
)

VECTORS = Path(__file__).parent / "vectors" / "murmur2.txt"

IDS = st.text("ABCxyz019._:-", min_size=1, max_size=128)


def vectors() -> list[tuple[bytes, int, int, int, int]]:
    """Made with the Java client, whose hash is signed; the empty key's line starts with a space."""
    found = []
    for line in VECTORS.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            key, *numbers = line.split(" ")
            signed, four, twelve, many = map(int, numbers)
            found.append((bytes.fromhex(key), signed, four, twelve, many))
    return found


def test_every_key_lies_where_the_java_client_puts_it() -> None:
    found = vectors()
    assert len(found) > 1_100
    assert {len(key) % 4 for key, *_ in found} == {0, 1, 2, 3}
    assert min(len(key) for key, *_ in found) == 0
    for key, signed, four, twelve, many in found:
        assert murmur2(key) == signed % 2**32
        assert partition_of(key, 4) == four
        assert partition_of(key, 12) == twelve
        assert partition_of(key, 1_000_003) == many


@given(IDS, IDS)
def test_a_key_comes_apart_into_what_it_was_made_of(tenant: str, session_id: str) -> None:
    assert split_key(session_key(tenant, session_id)) == (tenant, session_id)


@pytest.mark.parametrize(
    "value",
    ["", "a/b", "a b", "a#b", "a@b", "ä", "a\n", "a\0", "x" * 129, "../etc", "a%2fb", "'--"],
)
def test_an_id_that_could_be_read_two_ways_is_refused(value: str) -> None:
    with pytest.raises(InvalidKey, match="use 1 to 128 of"):
        check_id("tenant", value)
    with pytest.raises(InvalidKey, match=r"^tenant "):
        session_key(value, "s")
    with pytest.raises(InvalidKey, match=r"^session id "):
        session_key("t", value)


@pytest.mark.parametrize(
    "key",
    [None, b"", b"a", b"/", b"a/", b"/b", b"a/b/c", b"\xff/b", "ä/b".encode(), b"@3", b"a/b#1"],
)
def test_bytes_that_are_no_key_are_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidKey):
        split_key(key)


def test_a_strangers_idempotency_key_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(InvalidKey, match="not ASCII"):
        task_key("äcme/s-1/1/2", 1)


def test_keys_of_tasks_chunks_and_attempts_begin_with_their_session() -> None:
    key = session_key("acme", "s-1")
    for one in (key, task_key("acme/s-1/1/2", 3), chunk_key(key, 4)):
        assert session_part(one) == key
    assert session_part(mark_key(7)) == mark_key(7)
    assert session_part(None) == b""


def test_other_keys_never_look_like_a_session() -> None:
    assert task_key("acme/s-1/1/2", 3) == b"acme/s-1/1/2#3"
    assert mark_key(7) == b"@7"
    for key in (task_key("acme/s-1/1/2", 3), mark_key(7)):
        with pytest.raises(InvalidKey):
            split_key(key)
