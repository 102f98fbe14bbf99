"""What the simulation found: a command that is kept while its session is held must run once when it is let go."""

from tests.processors.desk import KEY, Hand, desk, find_order, kinds, refund
from wakeful.commands.models import SendMessage
from wakeful.events import records as r
from wakeful.events.payloads import json_payload
from wakeful.events.state import DEDUPE_MS
from wakeful.processors.app import App
from wakeful.processors.simulation.workload import Broken

MESSAGE = SendMessage(json_payload({"text": "hello"}, KEY))


def deploy(hand: Hand, app: App) -> None:
    hand.app = app
    hand.handler = hand._handler()
    hand.session.drop()


def received(hand: Hand) -> list[str]:
    return [
        s.event.body.message_id for s in hand.log if isinstance(s.event.body, r.MessageReceived)
    ]


def held() -> tuple[Hand, App]:
    """A session that is held because the engine cannot look its workflow up, and the app that would mend it."""
    hand = Hand(desk, find_order, refund)
    good = hand.app
    hand.open()
    deploy(hand, Broken("broken", good.workflows, good.activities))
    assert kinds(hand.result("1.1", 5)) == ["SessionHeld", "CommandParked"]
    return hand, good


def test_a_release_that_meets_an_engine_fault_keeps_each_message_once() -> None:
    hand, good = held()
    hand.give(MESSAGE, command_id="m1")
    assert kinds(hand.release()) == ["CommandParked"]
    deploy(hand, good)
    hand.release()
    assert received(hand).count("m1") == 1
    assert not hand.session.state.parked


def test_a_command_of_unknown_age_is_refused_though_the_session_is_held() -> None:
    hand, good = held()
    long_ago = hand.now_ms - DEDUPE_MS - 1
    for _ in range(2):
        bodies = hand.give(MESSAGE, command_id="old", issued_ms=long_ago)
        assert [body.reason for body in bodies] == ["too_old"]
    deploy(hand, good)
    hand.release()
    assert "old" not in received(hand)


def test_a_repeat_that_meets_an_engine_fault_is_not_kept() -> None:
    hand = Hand(desk, find_order, refund)
    good = hand.app
    hand.open()
    hand.give(MESSAGE, command_id="m1")
    deploy(hand, Broken("broken", good.workflows, good.activities))
    hand.now_ms += 300_001  # the activity's time is over, so the repeat meets the fault
    assert kinds(hand.give(MESSAGE, command_id="m1", issued_ms=hand.now_ms)) == ["SessionHeld"]
    deploy(hand, good)
    hand.release()
    assert received(hand).count("m1") == 1


def test_a_repeat_to_a_session_that_does_not_fold_is_kept_once() -> None:
    hand = Hand(desk, find_order, refund)
    hand.open()
    hand.session.broken = "an event cannot be read"
    assert kinds(hand.give(MESSAGE, command_id="m1")) == ["SessionHeld", "CommandParked"]
    assert kinds(hand.give(MESSAGE, command_id="m1")) == []
