"""Nobody speaks in the engine's own names: clients are told, and what comes by all the same changes nothing."""

import pytest
from tests.processors.desk import Hand

from wakeful.commands import inputs
from wakeful.commands import models as m
from wakeful.events.errors import InvalidKey

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
