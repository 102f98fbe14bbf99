"""What has stalled, somebody says: an attempt is given up by its contract, a session is driven again, and only so often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.processors.desk import Desk, Hand, desk, find_order, kinds, refund
from tests.processors.test_gate import FREEZE, MINUTE_MS, PATIENT, STOP, granted, policy, refolds
from wakeful import Message, Read, Retry, Turn, Write, activity, workflow
from wakeful.commands import models as m
from wakeful.commands.decide import decide
from wakeful.commands.next_valid import next_valid
from wakeful.events import records as r
from wakeful.events.contracts import LOOKUP
from wakeful.events.failures import FORBIDDEN, STALLED, TIMED_OUT
from wakeful.events.recovering import RECOVERIES_MAX
from wakeful.events.retries import in_doubt
from wakeful.events.state import Head, SessionState, State, Status


@activity(contract=Read(), retry=Retry(attempts=3, initial="1s"))
async def crawl(site: str) -> int:
    """Takes long."""
    return len(site)


@activity(contract=Write(), retry=Retry(attempts=3, initial="1s"))
async def pay(cents: int) -> str:
    """Must not run twice."""
    return "paid"


@workflow("crawler", version=1)
async def crawler(turn: Turn, state: Desk, message: Message) -> Desk:
    """Crawls one site."""
    await turn.say(await turn.run(crawl.call(message.text)))
    return state


@workflow("payer", version=1)
async def payer(turn: Turn, state: Desk, message: Message) -> Desk:
    """Pays."""
    await turn.say(await turn.run(pay.call(5)))
    return state


def stalled(hand: Hand, activity_id: str = "", attempt: int = 0, **how: Any) -> list[r.EventBody]:
    return hand.give(m.RecoverSession(activity_id, attempt, "no news"), **how)


def refusal(out: list[r.EventBody]) -> str:
    (refused,) = out
    assert isinstance(refused, r.CommandRefused)
    assert (refused.command_type, refused.check) == ("RecoverSession", "freshness")
    return f"{refused.reason}: {refused.detail}"


def test_an_attempt_that_stalled_is_superseded_and_its_result_comes_too_late() -> None:
    hand = Hand(crawler, crawl, workflow="crawler")
    hand.open()
    asked, scheduled = stalled(hand, "1.1", 1, actor="sue")
    assert asked == r.RecoveryRequested("1.1", 1, "no news")
    assert isinstance(scheduled, r.ActivityRetryScheduled)
    assert (scheduled.attempt, scheduled.failure.kind, scheduled.failure.type) == (
        2,
        TIMED_OUT,
        STALLED,
    )
    assert scheduled.failure.message == "sue gave attempt 1 of crawl up as stalled: no news"
    hand.now_ms += 2_000
    hand.wake()
    assert kinds(hand.result("1.1", 7)) == ["LateResultRecorded"]
    assert kinds(hand.result("1.1", 7, 2))[0] == "ActivityCompleted"


def test_a_repeat_gives_nothing_and_another_trigger_for_the_same_attempt_is_refused() -> None:
    hand = Hand(crawler, crawl, workflow="crawler")
    hand.open()
    stalled(hand, "1.1", 1, command_id="once")
    assert stalled(hand, "1.1", 1, command_id="once", issued_ms=hand.now_ms) == []
    assert "attempt 2 is scheduled" in refusal(stalled(hand, "1.1", 1))
    hand.now_ms += 2_000
    hand.wake()
    assert "attempt 1 of activity '1.1' does not run (attempt 2 does)" in refusal(
        stalled(hand, "1.1", 1)
    )
    assert "running: 1.1 attempt 2" in refusal(stalled(hand, "9.9", 1))


def test_a_write_that_must_not_run_twice_is_uncertain_then() -> None:
    hand = Hand(payer, pay, workflow="payer")
    hand.open()
    assert kinds(stalled(hand, "1.1", 1))[:2] == ["RecoveryRequested", "ActivityUncertain"]
    assert (
        kinds(hand.result("1.1", "paid"))[0] == "ActivityCompleted"
    )  # its late result ends the doubt


def test_a_write_that_can_be_looked_up_is_looked_up_before_anybody_calls_it_failed() -> None:
    assert in_doubt(LOOKUP, r.Failure(kind=TIMED_OUT, type=STALLED, message="", detail=""))


def test_an_activity_without_another_attempt_fails_and_its_workflow_is_told() -> None:
    hand = Hand(desk, find_order, refund)
    hand.open()
    out = stalled(hand, "1.1", 1)
    assert kinds(out)[:2] == ["RecoveryRequested", "ActivityFailed"]


def test_what_waits_runs_or_rests_has_not_stalled() -> None:
    hand = Hand(desk, find_order, refund)
    hand.open("a" * 200)
    assert "activities are under way (1.1 attempt 1)" in refusal(stalled(hand))
    hand.result("1.1", 200)
    assert "the session is waiting and waits" in refusal(stalled(hand))
    other = Hand(crawler, crawl, workflow="crawler")
    other.give(m.OpenSession("crawler"))
    assert "the session is opened" in refusal(stalled(other))
    assert (
        next(
            one for one in next_valid(other.session.state) if one.command == "RecoverSession"
        ).allowed
        is False
    )


def test_a_held_session_is_released_and_not_recovered() -> None:
    hand = Hand(crawler, crawl, workflow="crawler")
    hand.open()
    hand.redeploy(desk, find_order, refund)
    hand.result("1.1", 7)
    assert hand.session.state.hold is not None
    assert [
        (one.allowed, one.reason.partition(" (")[0])
        for one in next_valid(hand.session.state)
        if one.command == "RecoverSession"
    ] == [(False, "the session is held")]
    assert refusal(stalled(hand, "1.1", 1)).startswith(
        "held: the session is held (workflow_missing)"
    )


def test_a_session_that_lost_its_step_is_driven_again_from_its_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given an engine that forgot to go on, when somebody says so, then the turn goes on as if nothing had been."""
    hand = Hand(crawler, crawl, workflow="crawler")
    with monkeypatch.context() as patched:
        patched.setattr(type(hand.handler), "_advance", lambda *_: [])
        hand.open("abc")
    assert hand.session.state.queue
    out = stalled(hand)
    assert kinds(out) == ["RecoveryRequested", "TurnStarted", "ActivityRequested"]
    with monkeypatch.context() as patched:
        patched.setattr(type(hand.handler), "_advance", lambda *_: [])
        hand.result("1.1", 3)
    assert hand.session.state.status == Status.RUNNING
    assert kinds(stalled(hand))[:2] == ["ReplySent", "TurnCompleted"]  # any command has it go on
    assert hand.refold().state == hand.session.state
    hand.handler = type(hand.handler)(hand.app, hand.handler._facts, always_replay=True)
    assert kinds(hand.say("again")) == ["MessageReceived", "TurnStarted", "ActivityRequested"]


def test_a_session_that_recovery_does_not_help_is_held_with_the_reason() -> None:
    state = State(workflow="desk", status=Status.RUNNING, turn=1, recoveries=RECOVERIES_MAX)
    header = m.CommandHeader("acme", "s1", "c1", 1, "sue", None, "cli", None)
    command = m.Command(header, m.RecoverSession("", 0, "it stands"))
    given = SessionState(Head(), state)
    out = decide(given, command, b"h", (b"", b""), 1, None)  # type: ignore[arg-type]
    assert isinstance(out, list)
    assert kinds(out) == ["RecoveryRequested", "SessionHeld"]
    held = out[1]
    assert isinstance(held, r.SessionHeld)
    assert held.reason == "quarantined"
    assert "(it stands)" in held.detail
    fewer = SessionState(Head(), replace(state, recoveries=RECOVERIES_MAX - 1))
    assert kinds(decide(fewer, command, b"h", (b"", b""), 1, None)) == ["RecoveryRequested"]  # type: ignore[arg-type]


def approved_and_stalled(text: str) -> Hand:
    """A refund that sue approved and a worker sits on; then policy takes the authority away, and somebody gives it up."""
    hand = Hand(*PATIENT, workflow="patient desk")
    granted(hand)
    hand.handler.go_by(policy(text), 8)
    assert kinds(stalled(hand, "1.3", 1, actor="max")) == [
        "RecoveryRequested",
        "ActivityRetryScheduled",
    ]
    hand.now_ms += 2 * MINUTE_MS
    return hand


def test_given_withdrawn_authority_when_a_stalled_attempt_is_given_up_then_the_next_is_withheld() -> (
    None
):
    hand = approved_and_stalled(FREEZE)
    assert kinds(hand.wake())[:3] == ["ActivityRetried", "ApprovalVoided", "ApprovalRequested"]
    assert [task.attempt for task in hand.tasks()] == [1, 1]
    assert "it waits for approval" in refusal(stalled(hand, "1.3", 2))
    hand.decide(actor="sue")  # the policy wants another's word
    assert [task.attempt for task in hand.tasks()] == [1, 1]
    refolds(hand)


def test_given_a_policy_that_stops_it_when_a_stalled_attempt_is_given_up_then_it_is_in_doubt() -> (
    None
):
    hand = approved_and_stalled(STOP)
    doubt = hand.wake()[2]
    assert isinstance(doubt, r.ActivityUncertain)
    assert doubt.failure.kind == FORBIDDEN
    assert [task.attempt for task in hand.tasks()] == [1, 1]
    assert kinds(hand.result("1.3", "paid")) == ["LateResultRecorded"]  # for whoever resolves it
    refolds(hand)
