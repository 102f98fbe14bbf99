"""What the demo takes as input, and what it says of what it does not take."""

import json

import pytest

from wakeful.deploy.demo.messages import (
    MESSAGES_MAX,
    TEXT_BYTES_MAX,
    InputRefused,
    own_messages,
    parse,
    read_messages,
)


def test_sixty_messages_come_with_the_package() -> None:
    messages = own_messages()
    assert len(messages) == 60
    assert any(not message.text for message in messages)
    assert any(not message.text.isascii() for message in messages)
    assert len({message.session_id for message in messages}) == 53
    assert len({message.message_id for message in messages}) == 60


def test_a_message_needs_a_text_and_nothing_else(tmp_path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(
        '\ufeff{"text": "a", "intent": "b"}\r\n\n{"text": "", "customer": null}', "utf-8"
    )
    first, second = read_messages(path)
    assert (first.line, first.text, first.customer) == (1, "a", "")
    assert (second.line, second.text, second.session_id) == (3, "", "s00003")


def test_all_messages_of_a_customer_go_to_one_session() -> None:
    lines = [
        b'{"text": "a", "customer": "ann"}',
        b'{"text": "b"}',
        b'{"text": "c"}',
        b'{"text": "d", "customer": "ann"}',
    ]
    sessions = [message.session_id for message in parse(lines, "in.jsonl")]
    assert sessions == ["s00001", "s00002", "s00003", "s00001"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not json"),
        (b"[1]", "got a list"),
        (b"7", "got a number"),
        (b"{}", "no 'text'"),
        (b'{"text": null}', "got null"),
        (b'{"text": 5}', "got a number"),
        (b'{"text": "a", "customer": 5}', "'customer' must be a text"),
        (b'{"text": "\xff"}', "not utf-8"),
        (b"[" * 100_000, "nested too deep"),
        (json.dumps({"text": "x" * (TEXT_BYTES_MAX + 1)}).encode(), "limit"),
    ],
)
def test_a_line_that_is_no_message_is_named(line: bytes, said: str) -> None:
    with pytest.raises(InputRefused, match=said) as refused:
        parse([b'{"text": "fine"}', line], "in.jsonl")
    assert str(refused.value).startswith("in.jsonl:2: ")


def test_an_input_without_a_message_is_refused() -> None:
    with pytest.raises(InputRefused, match="holds no message"):
        parse([b"", b"  "], "in.jsonl")


def test_an_input_without_an_end_is_refused() -> None:
    with pytest.raises(InputRefused, match=f":{MESSAGES_MAX + 1}: more than"):
        parse(iter([b'{"text": "a"}'] * (MESSAGES_MAX + 1)), "in.jsonl")


def test_a_file_that_cannot_be_read_is_named(tmp_path) -> None:
    with pytest.raises(InputRefused, match="no such file"):
        read_messages(tmp_path / "none.jsonl")
    with pytest.raises(InputRefused, match="is a directory"):
        read_messages(tmp_path)
