"""The broker is killed under open streams, and comes back: each goes on, without a gap and without a repeat. In `make chaos-tests`."""

import signal
from functools import partial

import pytest

from tests.chaos.long_form import whole
from tests.deploy.gateway.live_rig import Client, Gateway, live_rig, until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.chaos,
    whole,
]

SESSIONS = [f"b{n}" for n in range(6)]


def test_streams_go_on_when_the_broker_was_killed_in_the_middle_of_turns(
    private_stack, keys, tmp_path_factory
):
    found = private_stack.up()
    with live_rig(found, found.postgres, keys, tmp_path_factory.mktemp("broker")) as rig:
        gateway = Gateway(rig.settings)
        try:
            gateway.start()
            rig.open(*SESSIONS)
            key = gateway.key("viewer")
            every = Client(gateway, "/v1/stream?after=", key)
            clients = [Client(gateway, f"/v1/sessions/{one}/stream", key) for one in SESSIONS]
            for one in clients:
                one.until("SessionOpened")
            for session in SESSIONS:
                rig.say(session, pause_ms=100)
            clients[0].until("ActivityRequested")
            private_stack.kill("kafka", signal.SIGKILL)
            assert private_stack.start("kafka") == found
            until(partial(all_have_replies, gateway, clients), "replies")
            for session in SESSIONS:
                rig.say(session, "ends")
            for session, one in zip(SESSIONS, clients, strict=True):
                one.until("end").close()
                assert one.seqs() == list(range(1, len(one.seqs()) + 1))
                assert one.kinds().count("ReplySent") == 1
                every.until("SessionCompleted", len(SESSIONS))
                told = [f.data["seq"] for f in every.frames if f.data.get("session_id") == session]
                assert told == one.seqs()[-len(told) :]
            every.close()
        finally:
            gateway.close()


def all_have_replies(gateway, clients):
    """Keeps the gateway up as its supervisor would: the Kafka client may crash where its broker goes away."""
    if not gateway.is_up():
        gateway.start()
    return all(one.has("ReplySent") for one in clients)
