"""Commands as bytes, and the hash that tells a repeat from another command under the same id."""

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.commands.models import (
    CancelSession,
    Command,
    CommandBody,
    CommandHeader,
    OpenSession,
    ReleaseSession,
    SendMessage,
)
from wakeful.commands.wire import (
    COMMANDS,
    command_hash,
    decode_command,
    encode_command,
    read_command,
)
from wakeful.events.avro import Encoded
from wakeful.events.errors import PayloadTooLarge, Undecodable
from wakeful.events.headers import FINGERPRINT
from wakeful.events.limits import COMMAND_MAX
from wakeful.events.payloads import json_payload
from wakeful.schemas import bundled

HEADER = CommandHeader("acme", "s-1", "c-1", 1_700_000_000_000, "user:ann", None, "http", None)
COMMAND = Command(HEADER, SendMessage(json_payload("hello", b"k")))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def hash_of(command: Command) -> bytes:
    return command_hash(encode_command(command))


def changed(**fields: Any) -> Command:
    return replace(COMMAND, header=replace(HEADER, **fields))


def test_a_command_comes_back_with_its_bytes() -> None:
    encoded = encode_command(COMMAND)
    headers = [(FINGERPRINT, encoded.fingerprint)]
    assert decode_command(encoded.value, headers) == COMMAND
    assert read_command(encoded.value, headers) == (COMMAND, encoded)
    assert decode_command(encoded.value, None) == COMMAND


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    TEXT,
)
def test_asking_again_at_another_time_is_the_same_command(first: int, again: int, id_: str) -> None:
    one = changed(issued_at_ms=first, command_id=id_)
    two = changed(issued_at_ms=again, command_id=id_)
    assert hash_of(one) == hash_of(two)


def test_everything_else_makes_it_another_command() -> None:
    others = [
        changed(tenant="other"),
        changed(session_id="s-2"),
        changed(command_id="c-2"),
        changed(actor="user:bob"),
        changed(on_behalf_of="user:ann"),
        changed(channel="kafka"),
        changed(expected_seq=3),
        replace(COMMAND, body=SendMessage(json_payload("hullo", b"k"))),
        replace(COMMAND, body=OpenSession("desk")),
    ]
    assert len({hash_of(COMMAND), *map(hash_of, others)}) == len(others) + 1


def test_the_kind_is_part_of_the_hash_where_bodies_are_alike() -> None:
    cancel = encode_command(Command(HEADER, CancelSession("stop")))
    release = encode_command(Command(HEADER, ReleaseSession("stop")))
    assert cancel.body == release.body
    assert command_hash(cancel) != command_hash(release)


def test_bytes_cannot_move_from_the_id_into_the_content() -> None:
    one = changed(command_id="c", actor="1")
    two = changed(command_id="c1", actor="")
    assert hash_of(one) != hash_of(two)


def test_every_version_of_a_command_starts_with_the_fields_that_the_hash_counts_on() -> None:
    library = bundled()
    names = {f"wakeful.v1.{kind.__name__}" for kind in get_args(CommandBody)}
    versions = [version for version in library.lock.versions if version.record in names]
    assert {version.record for version in versions} == names
    for version in versions:
        header = library.schema(version)["fields"][0]
        assert header["name"] == "header"
        assert [(field["name"], field["type"]) for field in header["type"]["fields"][:4]] == [
            ("tenant", "string"),
            ("session_id", "string"),
            ("command_id", "string"),
            ("issued_at_ms", "long"),
        ]


@pytest.mark.parametrize("body", [b"", b"\xff" * 40, b"\x02", b"\x01" * 3, b"\xfe\xff\xff\x0f"])
def test_bytes_that_are_no_command_have_no_hash(body: bytes) -> None:
    with pytest.raises(Undecodable):
        command_hash(Encoded(bytes(8), body, body, "wakeful.v1.SendMessage"))


@pytest.mark.case("U12")
def test_a_command_over_the_limit_is_refused_by_writer_and_reader() -> None:
    payload = replace(json_payload("x", b"k"), inline=b"x" * COMMAND_MAX)
    with pytest.raises(PayloadTooLarge):
        encode_command(replace(COMMAND, body=SendMessage(payload)))
    with pytest.raises(Undecodable, match="too_large"):
        decode_command(bytes(2 * 1024 * 1024), None)
    assert COMMANDS.encode(COMMAND).record_name == "wakeful.v1.SendMessage"
