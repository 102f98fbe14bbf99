"""Commands that were handed over and not asked about: the end of a `with` block waits for them, and tells what did not arrive."""

import pytest

from wakeful.commands.client import Client
from wakeful.commands.sending import Unconfirmed
from wakeful.events.errors import Transient
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.protocol import Isolation, LogFault, Place
from wakeful.events.topics import Topics

TOPICS = Topics("desk")
OPTIONS = {"tenant": "acme", "actor": "ann", "channel": "web", "digest_key": b"k"}


class Slow(NoFaults):
    """A record waits in the producer until somebody polls or flushes."""

    def on_deliver(self, topic):
        return Fate.DELAYED


def client_of(log):
    return Client(log, TOPICS, now_ms=lambda: 5_000, **OPTIONS)


@pytest.fixture
def log():
    made = MemoryLog(now_ms=lambda: 1_000)
    made.create_topics(TOPICS.specs(["default"], 4))
    return made


def test_the_end_of_a_block_waits_for_what_nobody_has_asked_about():
    log = MemoryLog(now_ms=lambda: 1_000, faults=Slow())
    log.create_topics(TOPICS.specs(["default"], 4))
    with client_of(log) as client:
        pending = [client.post("s1", client.message(str(n))) for n in range(3)]
        assert not any(each.decided for each in pending)
    assert all(each.confirmed for each in pending)


@pytest.mark.parametrize("heard", [False, True])
def test_what_did_not_arrive_and_was_not_asked_about_is_told_at_the_end_of_the_block(log, heard):
    client = client_of(log)
    pending = client.post("s1", client.message("x"), "m1")
    pending.delivered(None, -1, LogFault("gone"))
    if heard:
        with pytest.raises(Unconfirmed):
            pending.receipt()
        client.__exit__(None, None, None)
        return
    told = r"did not confirm 1 commands \('m1'\): send them again under the same ids"
    with pytest.raises(Transient, match=told):
        client.__exit__(None, None, None)


def test_a_block_that_raises_waits_for_nothing(log):
    client = client_of(log)
    client.post("s1", client.message("x")).delivered(None, -1, LogFault("gone"))
    client.__exit__(KeyError, KeyError("the caller's own"), None)
    assert client._outlets.unheard


def test_the_first_commands_after_topics_were_made_all_arrive(kafka, namespace):
    """Twenty times: fresh topics, a fresh client, and a batch at once."""
    made, sent = [], 20
    with KafkaLog(kafka, client_id="test") as log:
        for n in range(20):
            topics = Topics(f"{namespace}-{n}")
            spec = next(s for s in topics.specs([], 4) if s.name == topics.commands)
            assert log.create_topics([spec]) == [spec.name]
            made.append(spec.name)
            with (
                KafkaLog(kafka, client_id="fresh") as fresh,
                Client(fresh, topics, now_ms=lambda: 5_000, **OPTIONS) as client,
            ):
                for each in range(sent):
                    client.post(f"s{each}", client.message("first"))
            places = [Place(topics.commands, number) for number in range(4)]
            ends = log.ends(places, Isolation.COMMITTED)
            assert sum(end for _, end in ends.values()) == sent, f"round {n}"
        log.delete_topics(made)
