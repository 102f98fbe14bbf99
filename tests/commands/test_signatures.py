"""What is signed, byte for byte, and by which algorithms: other languages must come to the same."""

import pytest

from wakeful.commands.signatures import (
    ED25519,
    HMAC_SHA256,
    new_secret,
    public_half,
    sign,
    signed_bytes,
    verifies,
)

SECRET = bytes(range(32))


def test_the_signed_bytes_are_the_domain_and_four_parts_behind_their_lengths() -> None:
    assert signed_bytes("cl", "a.commands.v1", b"t/s", b"\0value") == (
        b"wakeful/1\0\0\0\x02cl\0\0\0\x0da.commands.v1\0\0\0\x03t/s\0\0\0\x06\0value"
    )


def test_no_part_can_lend_a_byte_to_the_next() -> None:
    parts = [("a", "bc", b"d", b"e"), ("ab", "c", b"d", b"e"), ("a", "b", b"cd", b"e")]
    parts += [("a", "bc", b"", b"de"), ("a", "bc", b"de", b""), ("", "abc", b"d", b"e")]
    assert len({signed_bytes(*one) for one in parts}) == len(parts)


def test_a_missing_key_or_value_is_signed_as_an_empty_one() -> None:
    assert signed_bytes("c", "t", None, None) == signed_bytes("c", "t", b"", b"")


def test_the_signatures_are_what_any_library_makes_of_these_bytes() -> None:
    """The first is openssl's, the second that of RFC 8032's own programs."""
    assert sign(HMAC_SHA256, SECRET, b"hello").hex() == (
        "53c40272a70c15ca4ee0af4df1f155fd6c41e00ce2307d8987ecd4bb36a7e990"
    )
    assert public_half(SECRET).hex() == (
        "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
    )


@pytest.mark.parametrize("algorithm", [HMAC_SHA256, ED25519])
def test_a_signature_verifies_and_with_one_bit_changed_it_does_not(algorithm: str) -> None:
    secret = new_secret()
    known = public_half(secret) if algorithm == ED25519 else secret
    message = b"pay 25000"
    made = sign(algorithm, secret, message)
    assert verifies(algorithm, known, message, made)
    assert not verifies(algorithm, known, b"pay 25001", made)
    assert not verifies(algorithm, known, message, bytes([made[0] ^ 1]) + made[1:])
    assert not verifies(algorithm, known, message, made[:-1])
    assert not verifies(algorithm, known, message, b"")


def test_two_secrets_are_never_the_same() -> None:
    assert len({new_secret() for _ in range(100)}) == 100
