"""Signals, triggers and resolutions: checked before they are sent, and harmless to repeat under an id."""

import itertools
import json

import pytest

from wakeful.commands.client import Client
from wakeful.commands.models import ResolveActivity, SendSignal, StartTurn
from wakeful.commands.wire import command_hash, decode_command, encode_command
from wakeful.events.errors import InvalidKey, InvalidPayload, PayloadTooLarge, Rejected
from wakeful.events.log.memory import MemoryLog
from wakeful.events.topics import Topics

TOPICS = Topics("desk")


@pytest.fixture
def log():
    log = MemoryLog(now_ms=lambda: 1_000)
    log.create_topics(TOPICS.specs(["default"], 4))
    return log


@pytest.fixture
def client(log):
    ids, clock = itertools.count(1), itertools.count(5_000)
    return Client(
        log,
        TOPICS,
        tenant="acme",
        actor="ann",
        channel="web",
        digest_key=b"k",
        now_ms=lambda: next(clock),
        new_id=lambda: f"id-{next(ids)}",
    )


def commands_in(log):
    return [decode_command(record.value, record.headers) for record in log.dump(TOPICS.commands)]


def test_a_signal_has_a_name_and_any_json(log, client):
    client.signal("s1", "paid", {"cents": 5})
    client.signal("s1", "nudge")
    first, second = (command.body for command in commands_in(log))
    assert (type(first), first.name, json.loads(first.data.inline)) == (
        SendSignal,
        "paid",
        {"cents": 5},
    )
    assert second.data.inline == b"null"


def test_a_trigger_says_what_the_occasion_was(log, client):
    client.start_turn("s1", "schedule", "monday, nine o'clock", [1])
    (body,) = (command.body for command in commands_in(log))
    assert (type(body), body.trigger, body.reason) == (
        StartTurn,
        "schedule",
        "monday, nine o'clock",
    )
    assert json.loads(body.data.inline) == [1]


def test_a_completed_activity_has_a_result_and_a_failed_one_has_none(log, client):
    client.resolve("s1", "1.2", "completed", {"receipt": 7}, "seen at the bank")
    client.resolve("s1", "1.3", "completed")
    client.resolve("s1", "1.4", "failed", comment="the bank has nothing")
    first, second, third = (command.body for command in commands_in(log))
    assert isinstance(first, ResolveActivity)
    assert (first.activity_id, first.resolution, first.comment) == (
        "1.2",
        "completed",
        "seen at the bank",
    )
    assert json.loads(first.result.inline) == {"receipt": 7}
    assert second.result.inline == b"null"
    assert (third.resolution, third.result) == ("failed", None)


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.signal("s1", "paid", 1, "x1"),
        lambda c: c.start_turn("s1", "schedule", "why", 1, "x1"),
        lambda c: c.resolve("s1", "1.2", "failed", command_id="x1"),
    ],
    ids=["signal", "start_turn", "resolve"],
)
def test_the_same_id_is_the_same_command_at_any_time(log, client, ask):
    assert ask(client).command_id == ask(client).command_id == "x1"
    first, second = (command_hash(encode_command(command)) for command in commands_in(log))
    assert first == second


@pytest.mark.parametrize(
    ("error", "told", "ask"),
    [
        (InvalidKey, "signal '' is not allowed", lambda c: c.signal("s", "")),
        (InvalidKey, "signal of 201 characters", lambda c: c.signal("s", "n" * 201)),
        (InvalidKey, "session id 'a/b' is not allowed", lambda c: c.signal("a/b", "n")),
        (InvalidKey, "command id '' is not allowed", lambda c: c.signal("s", "n", 1, "")),
        (InvalidPayload, "no json form", lambda c: c.signal("s", "n", object())),
        (
            PayloadTooLarge,
            "the signal's data is 262146 bytes and the limit is 262144",
            lambda c: c.signal("s", "n", "x" * 262_144),
        ),
        (InvalidKey, r"trigger 'a\\nb' is not allowed", lambda c: c.start_turn("s", "a\nb")),
        (Rejected, "trigger 'message' is for messages", lambda c: c.start_turn("s", "message")),
        (
            InvalidPayload,
            "the reason has 16385 characters",
            lambda c: c.start_turn("s", "t", "x" * 16_385),
        ),
        (InvalidPayload, "json keys are text", lambda c: c.start_turn("s", "t", data={1: 2})),
        (
            InvalidKey,
            "activity id 'refund' is not one",
            lambda c: c.resolve("s", "refund", "failed"),
        ),
        (InvalidKey, "activity id '0.1' is not one", lambda c: c.resolve("s", "0.1", "failed")),
        (Rejected, "resolution 'done' is not one", lambda c: c.resolve("s", "1.1", "done")),
        (
            Rejected,
            "a failed activity has no result",
            lambda c: c.resolve("s", "1.1", "failed", {"x": 1}),
        ),
        (
            InvalidPayload,
            "the comment is not text",
            lambda c: c.resolve("s", "1.1", "failed", comment="\ud800"),
        ),
        (
            Rejected,
            "expected_seq is -1",
            lambda c: c.resolve("s", "1.1", "failed", expected_seq=-1),
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(log, client, error, told, ask):
    with pytest.raises(error, match=told):
        ask(client)
    assert log.dump(TOPICS.commands) == []


@pytest.mark.parametrize("attempt", [2**63, -1, True, 1.5])
def test_an_attempt_that_no_record_could_name_is_refused_before_anything_is_sent(
    log, client, attempt
):
    with pytest.raises(Rejected, match="is not one: pass its number, as 'session show' has it"):
        client.recover("s1", activity_id="1.1", attempt=attempt)
    assert commands_in(log) == []
