"""Nobody speaks in the engine's own names: clients are told, and what comes by all the same changes nothing."""

import pytest
from tests.processors.desk import KEY, Hand, kinds

from wakeful.commands import inputs
from wakeful.commands import models as m
from wakeful.events.errors import InvalidKey
from wakeful.events.payloads import json_payload

OWN = ["engine", "workflow:desk", "worker:w1"]


@pytest.mark.parametrize("actor", [*OWN, "", " ", "sue ", "sue\u202e"])
def test_what_is_no_name_of_somebody_is_refused_before_anything_is_sent(actor: str) -> None:
    with pytest.raises(InvalidKey, match=r"actor .* is not allowed"):
        inputs.actor(actor)


@pytest.mark.parametrize("actor", ["sue", "engineer", "worker", "hook:stripe", "Zoë"])
def test_people_and_machines_have_the_other_names(actor: str) -> None:
    assert inputs.actor(actor) == actor


@pytest.mark.parametrize("actor", OWN)
def test_a_command_in_a_name_of_the_engines_is_refused_and_leaves_no_event(actor: str) -> None:
    hand = Hand()
    hand.open()
    before = len(hand.log)
    facts, refusal = hand.attempt(m.CancelSession("no more"), actor=actor)
    assert facts == []
    assert refusal is not None
    assert (refusal.check, refusal.reason) == ("identity", "forged_actor")
    assert len(hand.log) == before


def test_nobody_sets_an_agent_to_work_for_somebody_else() -> None:
    """Given a bot that posts for ann, when ann may not approve her own request, then the bot is no way around it."""
    hand = Hand()
    hand.give(m.OpenSession("desk"))
    body = m.SendMessage(json_payload({"text": "a" * 200}, KEY))
    facts, refusal = hand.attempt(body, actor="bot", on_behalf_of="ann")
    assert facts == []
    assert refusal is not None
    assert (refusal.check, refusal.reason) == ("identity", "acts_for_another")
    assert "let that one be its actor" in refusal.detail
    assert kinds(hand.give(body, actor="ann"))[0] == "MessageReceived"
