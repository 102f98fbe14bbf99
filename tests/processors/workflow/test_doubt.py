"""When nobody knows whether an activity was carried out: a person says, the workflow decides, or it is undone."""

from typing import Any

import pytest
from tests.processors.workflow.hands import (
    ACTIVITIES,
    Desk,
    Hand,
    Message,
    Turn,
    book,
    desk_of,
    hand_of,
    kinds,
    no_doubt_left,
    says,
    wire,
)

from wakeful import ActivityError, Uncertain
from wakeful.events import records as r
from wakeful.events.state import Status


async def waits(turn: Turn, desk: Desk, message: Message) -> Desk:
    try:
        await turn.say(await turn.run(wire.call(5)))
    except ActivityError as error:
        await turn.say(f"{error.failure.kind}: {error.failure.message}")
    return desk


async def decides(turn: Turn, desk: Desk, message: Message) -> Desk:
    try:
        await turn.run(wire.call(5), on_uncertain="raise")
    except Uncertain as error:
        await turn.say(f"{error.failure.kind} {error.reason.kind} {error.key}")
    return desk


async def books(turn: Turn, desk: Desk, message: Message) -> Desk:
    try:
        await turn.run(book.call(5))
    except ActivityError as error:
        await turn.say(f"{type(error).__name__} {error.failure.kind}")
        await turn.say(error.failure.message)
    return desk


async def books_and_decides(turn: Turn, desk: Desk, message: Message) -> Desk:
    try:
        await turn.run(book.call(5), on_uncertain="raise")
    except Uncertain as error:
        await turn.say(error.name)
    return desk


def lost(function: Any, *, replay: bool = False) -> tuple[Hand, list[r.EventBody]]:
    """A session whose first activity's worker died."""
    hand = hand_of(function, always_replay=replay)
    hand.open()
    return hand, hand.lose("1.1")


REPLAY = pytest.mark.parametrize("replay", [False, True])


@REPLAY
def test_in_doubt_it_waits_for_a_person_who_knows_the_result(replay: bool) -> None:
    hand, out = lost(waits, replay=replay)
    assert kinds(out) == ["ActivityUncertain", "SessionWaiting"]
    assert hand.last(r.ActivityRequested).on_uncertain == "wait"
    out = hand.resolve("1.1", "completed", "wired 5, says the bank")
    assert kinds(out) == ["ActivityResolved", "ReplySent", "TurnCompleted"]
    assert hand.replies == says("wired 5, says the bank")
    no_doubt_left(hand)


@REPLAY
def test_what_a_person_finds_not_done_is_a_failure_of_that_kind(replay: bool) -> None:
    hand, _ = lost(waits, replay=replay)
    hand.resolve("1.1", "failed")
    assert hand.replies == says("not_done: looked")
    no_doubt_left(hand)


@pytest.mark.case("U17")
@pytest.mark.case("L32")
@REPLAY
def test_its_own_late_result_ends_the_doubt(replay: bool) -> None:
    hand, _ = lost(waits, replay=replay)
    hand.say("and the other one")
    assert kinds(hand.result("1.1", "wired after all")) == [
        "ActivityCompleted",
        "ReplySent",
        "TurnCompleted",
        "TurnStarted",
        "ActivityRequested",
    ]
    assert hand.replies == says("wired after all")
    no_doubt_left(hand)


@REPLAY
def test_a_workflow_that_asked_to_decide_sees_the_doubt_at_once(replay: bool) -> None:
    hand, out = lost(decides, replay=replay)
    assert kinds(out) == ["ActivityUncertain", "ReplySent", "TurnCompleted"]
    assert hand.last(r.ActivityRequested).on_uncertain == "raise"
    assert hand.replies == says("uncertain cut_off acme/s1/1/1")
    no_doubt_left(hand)


def test_a_doubt_that_nobody_catches_fails_the_session_by_that_name() -> None:
    async def careless(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(wire.call(5), on_uncertain="raise")
        return desk

    _, out = lost(careless)
    assert kinds(out) == ["ActivityUncertain", "SessionFailed"]
    assert out[1].failure.kind == "uncertain"
    assert "may have been carried out or not (cut_off: no word)" in out[1].failure.message


@REPLAY
def test_what_has_an_undo_is_undone_as_a_step_of_its_own(replay: bool) -> None:
    hand, out = lost(books, replay=replay)
    assert kinds(out) == ["ActivityUncertain", "ActivityRequested"]
    assert (out[1].name, out[1].step) == ("recall", 2)
    assert out[1].arguments.inline == b'{"cents":5,"done_key":"acme/s1/1/1"}'
    assert hand.bodies(r.ActivityRequested)[0].on_uncertain == "raise"
    hand.result("1.2", "recalled")
    assert hand.replies[0] == '{"text":"ActivityError undone"}'
    assert "so it was undone by recall" in hand.replies[1]
    no_doubt_left(hand)


@REPLAY
def test_an_undo_that_fails_leaves_the_doubt_and_both_names(replay: bool) -> None:
    hand, _ = lost(books, replay=replay)
    hand.failure("1.2")
    assert hand.replies[0] == '{"text":"Uncertain uncertain"}'
    assert "its undo recall ended without a result (raised: no such order)" in hand.replies[1]
    no_doubt_left(hand)


def test_a_workflow_that_decides_by_itself_has_nothing_undone() -> None:
    hand, out = lost(books_and_decides)
    assert kinds(out) == ["ActivityUncertain", "ReplySent", "TurnCompleted"]
    assert hand.replies == says("book")


def test_what_was_recorded_with_the_request_is_kept_whatever_later_code_says() -> None:
    hand = hand_of(waits)
    hand.open()
    hand.lose("1.1")
    hand.redeploy(desk_of(decides), *ACTIVITIES)
    hand.say("more")
    hand.redeploy(desk_of(waits), *ACTIVITIES)
    hand.resolve("1.1", "completed", "found")
    assert hand.replies == says("found")

    hand = hand_of(waits)
    hand.open()
    hand.lose("1.1")
    hand.redeploy(desk_of(decides), *ACTIVITIES)
    assert kinds(hand.resolve("1.1", "completed", "found")) == ["ActivityResolved", "TurnCompleted"]
    assert not hand.bodies(r.NondeterminismFound)


def test_a_doubt_that_lost_is_cancelled_with_its_attempt_and_one_at_the_end_too() -> None:
    def code(*, cancel: bool) -> Any:
        async def hurried(turn: Turn, desk: Desk, message: Message) -> Desk:
            await turn.first(turn.run(wire.call(5)), turn.signal("go"), cancel=cancel)
            await turn.say("on")
            return desk

        return hurried

    for cancel in (True, False):
        hand, out = lost(code(cancel=cancel))
        assert kinds(out) == ["ActivityUncertain", "SessionWaiting"]
        out = hand.signal("go")
        ends = [body for body in out if isinstance(body, r.ActivityCancelled)]
        assert [(end.activity_id, end.attempt) for end in ends] == [("1.1", 1)]
        assert ends[0].reason == ("another wait was over first" if cancel else "the turn ended")
        assert hand.session.state.uncertain == ()
        assert hand.session.state.status == Status.SUSPENDED
        no_doubt_left(hand)


def test_a_choice_that_is_none_is_held_and_explained() -> None:
    async def shrugs(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(wire.call(5), on_uncertain="retry")  # type: ignore[arg-type]
        return desk

    out = hand_of(shrugs).open()
    assert out[-1].reason == "workflow_misuse"
    assert "on_uncertain='retry'" in out[-1].detail


def test_time_limits_of_the_activity_travel_with_the_request() -> None:
    hand = hand_of(waits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "settle_ms", 5_000, raising=False)
        patch.setattr(wire, "heartbeat_ms", 700, raising=False)
        hand.open()
    asked = hand.last(r.ActivityRequested)
    assert (asked.settle_ms, asked.heartbeat_ms) == (5_000, 700)
