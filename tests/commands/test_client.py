"""The light client: checks before it sends, answers once the log has it, and repeats without harm."""

import inspect
import itertools
import json
import os
import socket
import threading
import time
import uuid

import pytest

from wakeful.commands.client import Client, random_id
from wakeful.commands.models import DecideApproval, OpenSession, SendMessage
from wakeful.commands.sending import CONFIRM_MS, RETIRED_MAX, Unconfirmed
from wakeful.commands.wire import command_hash, decode_command, encode_command
from wakeful.events.errors import InvalidKey, InvalidPayload, PayloadTooLarge, Rejected, Transient
from wakeful.events.keys import partition_of
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import KafkaLimits
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.protocol import LogFault, Place, Record
from wakeful.events.topics import Topics

TOPICS = Topics("desk")
DIGEST = bytes(range(32))


class Unreachable(NoFaults):
    """The first `failures` records are not acknowledged; where `arrived`, the log has them all the same."""

    def __init__(self, failures, *, arrived=False):
        self.left, self.fate = failures, Fate.LOST_ANSWER if arrived else Fate.FAILED

    def on_deliver(self, topic):
        self.left -= 1
        return self.fate if self.left >= 0 else Fate.OK


def new_log(faults=None):
    log = MemoryLog(now_ms=lambda: 1_000, faults=faults)
    log.create_topics(TOPICS.specs(["default"], 4))
    return log


def client_of(log, **options):
    ids = itertools.count(1)
    options = {"tenant": "acme", "actor": "ann@acme", "channel": "web", **options}
    options.setdefault("now_ms", lambda: 5_000)
    return Client(log, TOPICS, digest_key=b"k", new_id=lambda: f"id-{next(ids)}", **options)


def commands_in(log):
    return [decode_command(record.value, record.headers) for record in log.dump(TOPICS.commands)]


@pytest.fixture
def log():
    return new_log()


@pytest.fixture
def client(log):
    return client_of(log)


def test_threads_that_begin_together_share_one_producer(monkeypatch):
    log, made, together = new_log(), [], threading.Barrier(4)
    producer = log.producer

    def slow():
        made.append(producer())
        pause.wait(0.05)  # long enough for the others to come in, were the door open
        return made[-1]

    pause = threading.Event()
    monkeypatch.setattr(log, "producer", slow)
    client = client_of(log)

    def speak():
        together.wait(5)
        client.post("s1", client.message("hello"))

    threads = [threading.Thread(target=speak) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(made) == 1


def test_a_receipt_says_where_the_command_lies(log, client):
    receipt = client.send("s1", "hello")
    (record,) = log.dump(TOPICS.commands)
    assert (record.topic, record.partition, record.offset) == (
        receipt.topic,
        receipt.partition,
        receipt.offset,
    )
    assert record.key == b"acme/s1"
    assert receipt.partition == partition_of(b"acme/s1", 4)


def test_a_text_is_sent_as_an_object_and_other_json_as_it_is(log, client):
    client.send("s1", "héllo")
    client.send("s1", {"order": [1, None]})
    sent = [json.loads(command.body.message.inline) for command in commands_in(log)]
    assert sent == [{"text": "héllo"}, {"order": [1, None]}]


def test_a_command_names_its_actor_channel_and_time(log, client):
    client.cancel("s1", "enough")
    (command,) = commands_in(log)
    header = command.header
    assert (header.tenant, header.session_id, header.actor, header.channel) == (
        "acme",
        "s1",
        "ann@acme",
        "web",
    )
    assert (header.issued_at_ms, header.on_behalf_of, header.expected_seq) == (5_000, None, None)


def test_the_same_message_id_is_the_same_command_at_any_time(log):
    client_of(log, now_ms=lambda: 5_000).send("s1", "hello", "m1")
    client_of(log, now_ms=lambda: 9_000).send("s1", "hello", "m1")
    first, second = (command_hash(encode_command(command)) for command in commands_in(log))
    assert first == second


def test_without_a_message_id_each_message_is_another(log, client):
    first, second = client.send("s1", "hello"), client.send("s1", "hello")
    assert first.command_id != second.command_id


def test_a_session_id_follows_from_tenant_and_idempotency_key(log):
    opened = [
        client_of(log, tenant=tenant).open("desk", idempotency_key=key)
        for tenant, key in (("acme", "k1"), ("acme", "k1"), ("acme", "k2"), ("other", "k1"))
    ]
    ids = [receipt.session_id for receipt in opened]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_opening_again_by_the_same_actor_repeats_the_same_command(log):
    for now_ms in (5_000, 9_000):
        client_of(log, now_ms=lambda now_ms=now_ms: now_ms).open("desk", "s1")
    first, second = commands_in(log)
    assert first.header.command_id == second.header.command_id
    assert command_hash(encode_command(first)) == command_hash(encode_command(second))


def test_opening_by_another_actor_is_another_command(log):
    client_of(log).open("desk", "s1")
    client_of(log, actor="bob@acme").open("desk", "s1")
    first, second = commands_in(log)
    assert first.header.command_id != second.header.command_id


def test_a_session_id_nobody_gives_cannot_be_guessed(log):
    client = Client(
        log, TOPICS, tenant="a", actor="b", channel="c", digest_key=b"k", now_ms=lambda: 0
    )
    ids = {client.open("desk").session_id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(id_) == 36 for id_ in ids)
    assert commands_in(log)[0].body == OpenSession("desk")


@pytest.mark.parametrize("digest", [DIGEST, DIGEST.hex()])
def test_a_decision_names_the_proposal_and_the_digest_shown(log, client, digest):
    client.decide("s1", "1.2", digest, "approve", "fine")
    assert commands_in(log)[0].body == DecideApproval("1.2", DIGEST, "approve", "fine")


@pytest.mark.parametrize(
    ("error", "told", "ask"),
    [
        (InvalidKey, "session id 'a/b' is not allowed", lambda c: c.send("a/b", "x")),
        (InvalidKey, r"session id '\.\.' is not allowed", lambda c: c.open("desk", "..")),
        (InvalidKey, "session id '' is not allowed", lambda c: c.send("", "x")),
        (InvalidKey, r"session id 's\\xe9' is not allowed", lambda c: c.send("sé", "x")),
        (InvalidKey, "command id '' is not allowed", lambda c: c.send("s", "x", "")),
        (InvalidKey, r"command id 'a\\nb' is not allowed", lambda c: c.send("s", "x", "a\nb")),
        (InvalidKey, "command id of 201 characters", lambda c: c.send("s", "x", "m" * 201)),
        (InvalidKey, "workflow '' is not allowed", lambda c: c.open("")),
        (
            InvalidKey,
            "idempotency key '' is not allowed",
            lambda c: c.open("w", idempotency_key=""),
        ),
        (Rejected, "not both", lambda c: c.open("w", "s", idempotency_key="k")),
        (Rejected, "decision 'maybe' is not one", lambda c: c.decide("s", "p", DIGEST, "maybe")),
        (
            Rejected,
            "the digest has 3 bytes, expected 32",
            lambda c: c.decide("s", "p", b"abc", "approve"),
        ),
        (Rejected, "digest 'xyz' is not hex", lambda c: c.decide("s", "p", "xyz", "approve")),
        (
            InvalidKey,
            "proposal id '' is not allowed",
            lambda c: c.decide("s", "", DIGEST, "approve"),
        ),
        (
            InvalidPayload,
            "the comment has 16385 characters",
            lambda c: c.decide("s", "p", DIGEST, "reject", "x" * 16_385),
        ),
        (InvalidPayload, "the reason is not text", lambda c: c.cancel("s", "\ud800")),
        (InvalidPayload, "no json form", lambda c: c.send("s", {"x": float("nan")})),
        (InvalidPayload, "json keys are text", lambda c: c.send("s", {1: "x"})),
        (InvalidPayload, "no json form", lambda c: c.send("s", object())),
        (
            PayloadTooLarge,
            "the message is 262155 bytes and the limit is 262144",
            lambda c: c.send("s", "x" * 262_144),
        ),
        (Rejected, "expected_seq is -1", lambda c: c.send("s", "x", expected_seq=-1)),
        (
            Rejected,
            "is 9223372036854775808: give the number",
            lambda c: c.send("s", "x", expected_seq=2**63),
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(log, client, error, told, ask):
    with pytest.raises(error, match=told):
        ask(client)
    assert log.dump(TOPICS.commands) == []


@pytest.mark.parametrize("options", [{"tenant": "a/b"}, {"actor": ""}, {"channel": "a\x00"}])
def test_a_client_that_could_never_ask_is_not_made(log, options):
    with pytest.raises(InvalidKey):
        client_of(log, **options)


def test_the_largest_message_is_sent(log, client):
    client.send("s1", "x" * (262_144 - len('{"text":""}')))
    assert isinstance(commands_in(log)[0].body, SendMessage)


def test_an_unconfirmed_command_is_transient_and_names_the_id_to_ask_again_with():
    client = client_of(new_log(Unreachable(1)))
    with pytest.raises(Unconfirmed, match="ask again with command_id='m1'") as raised:
        client.send("s1", "hello", "m1")
    assert isinstance(raised.value, Transient)
    assert (raised.value.command_id, raised.value.session_id) == ("m1", "s1")


@pytest.mark.parametrize("arrived", [False, True])
def test_asking_again_under_the_same_id_is_the_same_command(arrived):
    log = new_log(Unreachable(1, arrived=arrived))
    client = client_of(log)
    with pytest.raises(Unconfirmed) as raised:
        client.send("s1", "hello")
    receipt = client.send("s1", "hello", raised.value.command_id)
    hashes = {command_hash(encode_command(command)) for command in commands_in(log)}
    assert receipt.command_id == raised.value.command_id
    assert len(commands_in(log)) == 1 + arrived
    assert len(hashes) == 1


def test_many_commands_are_waited_for_at_once(log, client):
    pending = [client.post("s1", client.message(str(n))) for n in range(10)]
    client.flush()
    assert [p.receipt().command_id for p in pending] == [f"id-{n}" for n in range(1, 11)]


def test_one_lost_command_among_many_is_told_by_its_own_receipt():
    client = client_of(new_log(Unreachable(1)))
    lost, kept = client.post("s1", client.message("a")), client.post("s1", client.message("b"))
    with pytest.raises(Transient):
        client.flush()
    assert kept.receipt().command_id == "id-2"
    with pytest.raises(Unconfirmed):
        lost.receipt()


class Producers:
    """A log's producers under the test's eyes: which are closed, and answers held back until told."""

    def __init__(self, monkeypatch, log):
        self.made, self.closed = [], []
        make = log.producer

        def watched():
            producer = make()
            close = producer.close
            self.made.append(producer)
            monkeypatch.setattr(producer, "close", lambda: (self.closed.append(producer), close()))
            return producer

        monkeypatch.setattr(log, "producer", watched)


def test_one_commands_fault_does_not_end_the_others(monkeypatch):
    """Another thread's receipt is waited for on the producer that has the command, whatever that one met."""
    log = new_log(Unreachable(1))
    producers, client = Producers(monkeypatch, log), client_of(log)
    lost, kept = client.post("s1", client.message("a")), client.post("s1", client.message("b"))
    with monkeypatch.context() as held:
        held.setattr(
            producers.made[0], "flush", lambda _ms: lost.delivered(None, -1, LogFault("gone"))
        )
        with pytest.raises(Unconfirmed, match="gone"):
            lost.receipt()
    assert producers.closed == []
    later = client.post("s1", client.message("c"))
    assert len(producers.made) == 2
    assert kept.receipt().command_id == "id-2"
    assert producers.closed == producers.made[:1]
    assert later.receipt().command_id == "id-3"
    client.close()
    assert producers.closed == producers.made


def test_producers_that_met_faults_do_not_gather(monkeypatch):
    log = new_log()
    producers, client = Producers(monkeypatch, log), client_of(log)
    for number in range(20):
        client.post("s1", client.message(str(number)))  # nobody asks what became of it
        failed = client.post("s1", client.message("x"))
        failed.delivered(None, -1, LogFault("gone"))
        with pytest.raises(Unconfirmed):
            failed.receipt()
    assert len(producers.made) == 20
    assert len(producers.closed) == 20 - RETIRED_MAX
    client.flush()
    client.close()
    assert len(producers.closed) == 20


def test_a_broker_that_cannot_be_reached_is_told_in_time_and_transient():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{nobody.getsockname()[1]}"
    with (
        KafkaLog(bootstrap, client_id="test") as log,
        client_of(log, confirm_ms=300) as client,
        pytest.raises(Unconfirmed, match="ask again with command_id='m1'") as told,
    ):
        client.send("s1", "hello", "m1")
    assert "no answer within 300 ms" in str(told.value)


def test_an_acknowledgement_is_waited_for_until_the_producer_has_given_up():
    limits = KafkaLimits()
    assert limits.plain_timeout_ms + limits.plain_linger_ms < CONFIRM_MS


def test_a_command_lies_on_a_broker_where_its_receipt_says(kafka):
    topics = Topics(f"client-{os.getpid()}")
    with KafkaLog(kafka, client_id="test") as log:
        log.create_topics(topics.specs(["default"], 4))
        options = {"tenant": "acme", "actor": "ann", "channel": "web", "digest_key": b"k"}
        with Client(log, topics, now_ms=lambda: 5_000, **options) as client:
            receipt = client.open("desk", idempotency_key="k1")
            pending = [client.post(receipt.session_id, client.message(str(n))) for n in range(100)]
            client.flush()
            last = [each.receipt() for each in pending][-1]
        reader = log.reader()
        reader.assign({Place(last.topic, last.partition): last.offset})
        found = []
        give_up = time.monotonic() + 20
        while not found and time.monotonic() < give_up:
            found = [item for item in reader.poll(10, 100) if isinstance(item, Record)]
        reader.close()
        log.delete_topics([spec.name for spec in topics.specs(["default"], 4)])
    command = decode_command(found[0].value, found[0].headers)
    assert (command.header.command_id, command.header.session_id) == (
        last.command_id,
        receipt.session_id,
    )


def test_ids_that_nobody_gave_are_chance_alone() -> None:
    """122 bits of it, from the system's own source: nobody guesses a session."""
    assert inspect.signature(Client).parameters["new_id"].default is random_id
    ids = {random_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert {uuid.UUID(one).version for one in ids} == {4}
