"""Random programs under random facts: live, always replayed and restarted are one history, and every prefix replays."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processors.workflow.hands import Hand, is_rebuilt, replayed
from tests.processors.workflow.programs import code_of, drawn, hand_for, move

from wakeful.events import records as r
from wakeful.processors.workflow.asking import Asking
from wakeful.processors.workflow.facts import ASKED, RESOLVES, STARTS


def stored(hand: Hand) -> list[bytes]:
    return [s.encoded.body for s in hand.log]


@pytest.mark.case("U7")
@pytest.mark.case("L29")
@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_signals_messages_doubts_and_stretches_in_any_order_give_one_history(seed: int) -> None:
    chance = random.Random(seed)
    program = drawn(chance, guards=True)
    code = code_of(program, guarded=True)
    live, replaying, restarted = (hand_for(code, always_replay=n == 1) for n in range(3))
    for _ in range(chance.randint(4, 24)):
        if chance.random() < 0.5:
            restarted.session.drop()
            restarted.session = restarted.refold()
        move([live, replaying, restarted], chance)
    assert stored(live) == stored(replaying) == stored(restarted), program
    refused = [h.detail for h in live.bodies(r.SessionHeld) if h.reason != "verification_failed"]
    assert refused + live.bodies(r.NondeterminismFound) == [], program
    assert live.refold().state == live.session.state
    assert undos_cut_off(live) == [], program


def undos_cut_off(hand: Hand) -> list[str]:
    undos = {
        asked.activity_id for asked in hand.bodies(r.ActivityRequested) if asked.name == "recall"
    }
    return [c.activity_id for c in hand.bodies(r.ActivityCancelled) if c.activity_id in undos]


def test_random_programs_come_to_what_they_are_for() -> None:
    chance, met = random.Random(7), set()
    for _ in range(60):
        program = drawn(chance, guards=True)
        hand = hand_for(code_of(program, guarded=True))
        for _ in range(20):
            move([hand], chance)
        met |= {asked.name for asked in hand.bodies(r.ActivityRequested)}
        met |= {relied.version for relied in hand.bodies(r.ArtifactRecorded)}
    assert met >= {"recall", "lost True", "lost False"}


def test_an_engine_that_cuts_an_undo_off_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asking, "is_undo", lambda *_: False)
    chance = random.Random(7)
    for _ in range(400):
        hand = hand_for(code_of(drawn(chance, guards=True), guarded=True))
        for _ in range(20):
            move([hand], chance)
        if undos_cut_off(hand):
            return
    pytest.fail("it lives through 400 programs")


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_prefix_of_a_journal_leads_to_what_the_history_holds_next(seed: int) -> None:
    chance = random.Random(seed)
    program = drawn(chance, guards=True)
    code = code_of(program, guarded=True)
    hand = hand_for(code)
    for _ in range(chance.randint(2, 16)):
        move([hand], chance)
    journal: list[r.Event] = hand.session.journal
    for end in range(1, len(journal) + 1):
        resumes = isinstance(journal[end - 1].body, RESOLVES | STARTS)
        rebuilt: Any = replayed(hand, code, journal[:end])
        assert is_rebuilt(rebuilt), (program, end)
        if resumes:
            assert _kinds(rebuilt.leftover) == _kinds(_asked_next(journal, end)), (program, end)


def _asked_next(journal: list[r.Event], end: int) -> list[r.EventBody]:
    """What the history holds between this fact and the next that resumes."""
    found: list[r.EventBody] = []
    for event in journal[end:]:
        if isinstance(event.body, RESOLVES):
            break
        if isinstance(event.body, ASKED | r.SessionHeld):
            found.append(event.body)
        if isinstance(event.body, r.SessionHeld):
            break
    return found


def _kinds(bodies: list[r.EventBody]) -> list[str]:
    return [type(body).__name__ for body in bodies]
