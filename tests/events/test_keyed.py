"""The keyed hash is the standard library's HMAC-SHA-256, whatever the key and the message."""

import hmac
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from wakeful.events.keyed import BLOCK, keyed_hash


@given(key=st.binary(max_size=3 * BLOCK), message=st.binary(max_size=500))
def test_it_is_hmac_sha_256_for_keys_of_any_length(key, message):
    assert keyed_hash(key, message) == hmac.digest(key, message, "sha256")
    assert keyed_hash(key, message) == hmac.digest(key, message, "sha256")  # from what was kept


def test_the_example_of_rfc_4231_with_a_key_longer_than_a_block():
    told = b"Test Using Larger Than Block-Size Key - Hash Key First"
    wanted = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    assert keyed_hash(b"\xaa" * 131, told).hex() == wanted


def test_threads_that_share_a_key_do_not_meet():
    messages = [bytes([n]) * 10_000 for n in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda message: keyed_hash(b"shared", message), messages))
    assert found == [hmac.digest(b"shared", message, "sha256") for message in messages]
