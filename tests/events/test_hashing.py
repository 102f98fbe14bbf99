"""The chain's hash covers every byte it says it covers."""

from hashlib import sha256

import pytest

from wakeful.events.hashing import event_hash

FINGERPRINT, BODY, PREV = b"f" * 8, b"body", b"p" * 32


def test_the_hash_is_that_of_the_parts_one_after_another() -> None:
    plain = sha256(b"wakeful1" + FINGERPRINT + BODY + PREV).digest()
    assert event_hash(FINGERPRINT, BODY, PREV) == plain


def test_another_bit_anywhere_gives_another_hash() -> None:
    hashes = {event_hash(FINGERPRINT, BODY, PREV)}
    for position in range(8):
        other = bytearray(FINGERPRINT)
        other[position] ^= 1
        hashes.add(event_hash(bytes(other), BODY, PREV))
    for position in range(len(BODY)):
        other = bytearray(BODY)
        other[position] ^= 1
        hashes.add(event_hash(FINGERPRINT, bytes(other), PREV))
    hashes.add(event_hash(FINGERPRINT, BODY + b"\0", PREV))
    hashes.add(event_hash(FINGERPRINT, BODY, b"q" + PREV[1:]))
    assert len(hashes) == 1 + 8 + 4 + 2


@pytest.mark.parametrize(
    ("fingerprint", "prev_hash"),
    [(b"", PREV), (b"f" * 9, PREV), (FINGERPRINT, b""), (FINGERPRINT, b"p" * 31)],
)
def test_parts_of_another_length_are_refused(fingerprint: bytes, prev_hash: bytes) -> None:
    with pytest.raises(ValueError, match="expected a fingerprint of 8 bytes and a hash of 32"):
        event_hash(fingerprint, BODY, prev_hash)
