"""A session goes back to where a turn had ended, or its turns begin on one version: held or not, whatever is open."""

from typing import Any

import pytest
from tests.processors.desk import KEY
from tests.processors.workflow.hands import (
    ACTIVITIES,
    Desk,
    Hand,
    Message,
    Turn,
    desk_of,
    find_order,
    hand_of,
    kinds,
    recall,
    refund,
    says,
    wire,
)

from wakeful.commands import models as m
from wakeful.events import records as r
from wakeful.events.past_turns import PAST_TURNS_MAX
from wakeful.events.payloads import json_payload
from wakeful.events.state import Status


async def counts(turn: Turn, desk: Desk, message: Message) -> Desk:
    """One cent more each turn; words of the message say what else it does."""
    for word in message.text.split():
        match word:
            case "look":
                await turn.run(find_order.call("x"))
            case "ask":
                await turn.approval(refund.call(1_000))
            case "wire":
                await turn.run(wire.call(5))
            case "all":
                await turn.gather(
                    turn.run(find_order.call("x")),
                    turn.approval(refund.call(1_000)),
                    turn.sleep("1h"),
                    turn.signal("go"),
                    turn.job("j", within="1h"),
                )
            case "raise":
                raise ValueError("a bug")
    await turn.say(f"{desk.refunded_cents}")
    return Desk(refunded_cents=desk.refunded_cents + 1)


def counting(*texts: str) -> Hand:
    hand = hand_of(counts)
    hand.give(m.OpenSession("desk"))
    for text in texts:
        hand.say(text)
    return hand


def left(hand: Hand, turn: int) -> r.Payload | None:
    """The state that this turn has left, as its event holds it."""
    found, at = None, 0
    for stamped in hand.log:
        if isinstance(stamped.event.body, r.TurnStarted):
            at = stamped.event.body.turn
        if isinstance(stamped.event.body, r.TurnCompleted) and at == turn:
            found = stamped.event.body.state
    return found


def reset(
    hand: Hand, turn: int, *, again: bool = True, state: r.Payload | None = None, **more: Any
) -> list[r.EventBody]:
    body = m.ResetSession(turn, state or left(hand, turn), again, "mended")
    return hand.give(body, actor="op", **more)


def test_the_next_turn_starts_from_what_the_turn_had_left_and_counts_on() -> None:
    hand = counting("a", "b", "c")
    (fact,) = reset(hand, 1)
    assert (fact.turn, fact.to_turn, fact.workflow_version) == (3, 1, 1)
    assert hand.session.state.status == Status.SUSPENDED
    out = hand.say("d")
    assert out[1].turn == 4
    assert hand.replies == says("0", "1", "2", "1")
    reset(hand, 0)
    hand.say("e")
    assert hand.replies[-1] == says("0")[0]
    assert hand.refold().state == hand.session.state


def test_all_that_is_open_is_withdrawn_before_it_and_the_message_is_answered_again() -> None:
    hand = counting("a", "all")
    hand.say("later")
    assert hand.session.state.status == Status.RUNNING
    out = reset(hand, 1)
    assert kinds(out) == [
        "ApprovalWithdrawn",
        "TimerCancelled",
        "WaitWithdrawn",
        "JobWithdrawn",
        "ActivityCancelled",
        "SessionReset",
        "TurnStarted",
        "JobAwaited",
        "ActivityRequested",
        "ApprovalRequested",
        "TimerSet",
        "SignalAwaited",
    ]
    again = out[5]
    assert (again.message_id, again.uncertain, again.done) == ("c3", ("2.2",), ())
    assert out[6].message_id == again.message_id
    assert [q.message_id for q in hand.session.state.queue] == ["c4"]
    assert hand.refold().state == hand.session.state


def test_what_ran_since_then_is_listed_and_keeps_its_keys() -> None:
    hand = counting("wire", "wire ask")
    hand.result("1.1", "wired")
    hand.result("2.1", "wired")
    out = reset(hand, 0)
    fact = next(body for body in out if isinstance(body, r.SessionReset))
    assert fact.done == ("1.1", "2.1")
    keys = [task.idempotency_key for task in hand.tasks()]
    assert keys == ["acme/s1/1/1", "acme/s1/2/1", "acme/s1/3/1"]
    late = hand.result("2.1", "wired")
    assert kinds(late)[:1] != ["ActivityCompleted"]


def test_without_an_answer_again_the_message_is_over() -> None:
    hand = counting("a", "look")
    out = reset(hand, 1, again=False)
    assert kinds(out) == ["ActivityCancelled", "SessionReset"]
    assert out[-1].message_id is None
    assert hand.session.state.queue == ()
    assert hand.session.at_rest


def test_a_held_session_goes_back_at_once_and_then_decides_what_was_kept() -> None:
    hand = counting("a", "raise")
    assert hand.session.state.hold is not None
    hand.say("kept")
    out = reset(hand, 1, again=False)
    assert kinds(out) == [
        "SessionReset",
        "MessageReceived",
        "TurnStarted",
        "ReplySent",
        "TurnCompleted",
    ]
    assert hand.replies == says("0", "1")
    assert hand.session.state.hold is None


def test_a_turn_that_took_another_path_is_answered_again_by_the_code_of_now() -> None:
    hand = counting("a", "look")

    async def other(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say("other")
        return desk

    hand.redeploy(desk_of(other), *ACTIVITIES)
    assert kinds(hand.result("2.1", 1))[-1] == "NondeterminismFound"
    out = reset(hand, 1)
    assert kinds(out)[-4:] == ["SessionReset", "TurnStarted", "ReplySent", "TurnCompleted"]
    assert hand.replies[-1] == says("other")[0]


def test_what_a_session_did_may_still_be_taken_back_after_a_reset() -> None:
    async def books(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(wire.call(5), compensate=recall)
        await turn.sleep("1h")
        return desk

    hand = hand_of(books)
    hand.give(m.OpenSession("desk"))
    hand.say("a")
    hand.result("1.1", "wired")
    reset(hand, 0, again=False)
    out = hand.cancel()
    started = next(body for body in out if isinstance(body, r.CompensationStarted))
    assert started.compensating == ("1.1",)


@pytest.mark.parametrize(
    ("turn", "state", "reason"),
    [
        (7, None, "unknown_turn"),
        (3, None, "unknown_turn"),
        (1, json_payload({"refunded_cents": 500}, KEY), "wrong_state"),
        (0, json_payload({"refunded_cents": 500}, KEY), "wrong_state"),
        (1, None, "wrong_state"),
    ],
)
def test_what_it_never_left_is_refused(turn: int, state: r.Payload | None, reason: str) -> None:
    hand = counting("a", "b", "look")
    (said,) = hand.give(m.ResetSession(turn, state, True, ""))
    assert (said.reason, hand.session.state.turn) == (reason, 3)
    assert hand.session.state.status == Status.RUNNING


def test_bytes_that_are_not_those_of_the_digest_are_refused() -> None:
    hand = counting("a", "b")
    real = left(hand, 1)
    assert real is not None
    forged = r.Payload("json", b'{"refunded_cents":9}', None, real.digest, 20, None)
    (said,) = reset(hand, 1, state=forged)
    assert (said.reason, "is not what its digest says" in said.detail) == ("wrong_state", True)


def test_a_repeat_changes_nothing_and_a_session_without_a_turn_has_nothing_to_go_back_to() -> None:
    hand = counting("a", "b")
    assert kinds(reset(hand, 1, command_id="r1")) == ["SessionReset"]
    hand.say("c")
    assert reset(hand, 1, command_id="r1") == []
    fresh = counting()
    (said,) = fresh.give(m.ResetSession(0, None, True, ""))
    assert said.reason == "unknown_turn"


def test_the_last_turns_are_remembered_and_no_more() -> None:
    hand = counting(*("a" for _ in range(PAST_TURNS_MAX + 3)))
    assert len(hand.session.state.past_turns) == PAST_TURNS_MAX
    (said,) = reset(hand, 3)
    assert said.reason == "unknown_turn"
    assert kinds(reset(hand, 4)) == ["SessionReset"]


def two(version: int) -> Any:
    async def versioned(turn: Turn, desk: Desk, message: Message) -> Desk:
        if message.text == "raise" and version == 2:
            raise ValueError("a bug of version 2")
        await turn.say(f"version {version}")
        if message.text == "wait":
            await turn.sleep("1h")
        return desk

    return desk_of(versioned, version)


def test_a_pinned_session_begins_its_turns_there_until_the_pin_is_taken_back() -> None:
    hand = Hand(two(1), two(2), *ACTIVITIES)
    hand.open("a")
    assert kinds(hand.give(m.PinSession(1, "as it was"))) == ["SessionPinned"]
    hand.say("b")
    assert kinds(hand.give(m.PinSession(None, ""))) == ["SessionPinned"]
    hand.say("c")
    assert hand.replies == says("version 2", "version 1", "version 2")
    assert [t.workflow_version for t in hand.bodies(r.TurnStarted)] == [2, 1, 2]
    assert hand.refold().state == hand.session.state


def test_a_pin_of_a_held_session_leaves_it_held_and_the_reset_answers_on_that_version() -> None:
    hand = Hand(two(1), two(2), *ACTIVITIES)
    hand.open("raise")
    assert hand.session.state.hold is not None
    assert kinds(hand.give(m.PinSession(1, ""))) == ["SessionPinned"]
    assert hand.session.state.hold is not None
    assert kinds(reset(hand, 0))[-4:] == [
        "SessionReset",
        "TurnStarted",
        "ReplySent",
        "TurnCompleted",
    ]
    assert hand.replies == says("version 1")


def test_a_turn_that_is_open_ends_on_the_version_it_began_with() -> None:
    hand = Hand(two(1), two(2), *ACTIVITIES)
    hand.open("wait")
    hand.give(m.PinSession(1, ""))
    hand.session.drop()
    hand.now_ms += 3_600_000
    assert kinds(hand.wake()) == ["TimerFired", "TurnCompleted"]
    hand.say("next")
    assert hand.replies == says("version 2", "version 1")


def test_a_pin_to_what_is_not_loaded_holds_the_next_turn_and_says_how_to_go_on() -> None:
    hand = Hand(two(1), two(2), *ACTIVITIES)
    hand.open("a")
    hand.give(m.PinSession(7, ""))
    held = hand.say("b")[-1]
    assert held.reason == "workflow_missing"
    assert "pinned to version 7" in held.detail
    assert "loaded here (loaded: 1, 2)" in held.detail
    assert "--unpin" in held.detail
    hand.give(m.PinSession(None, ""))
    assert kinds(hand.release())[:2] == ["SessionReleased", "TurnStarted"]


@pytest.mark.parametrize("version", [0, -1, 2**31])
def test_a_version_that_is_none_is_refused(version: int) -> None:
    hand = counting("a")
    (said,) = hand.give(m.PinSession(version, ""))
    assert said.reason == "wrong_version"


def test_a_session_that_ends_or_has_ended_is_not_repaired() -> None:
    hand = counting("a")
    hand.cancel()
    for body in (m.ResetSession(0, None, True, ""), m.PinSession(1, "")):
        (said,) = hand.give(body)
        assert said.reason == "session_ended"
