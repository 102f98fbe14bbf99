"""Retries in the audit: as the recorded policy says, fenced by attempt, and each attempt told to the workers once."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r
from wakeful.events.codec import decode_task, encode_task

from .conftest import DIGEST
from .tampering import on

POLICY = r.RetryPolicy(3, 1_000, 2_000, 60_000, ("KeyError",))
DOWN = r.Failure("raised", "IOError", "down", "")


@pytest.fixture
def told(begin):
    """A session whose activity succeeds at its third attempt, or whatever a tampered fact makes of it."""

    def tell(tamper=lambda body: [body], *, kept=False):
        chronicle = begin(tamper)
        say, scribe = chronicle.scribe.payload, chronicle.scribe
        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        chronicle.fact(
            chronicle.ask(m.SendMessage(say("hi")), command_id="m1"),
            r.MessageReceived("m1", say("hi")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            chronicle.activity("1.1", retry=POLICY),
        )
        for attempt, rest_ms in ((1, 900), (2, 1_800)):
            cause = chronicle.ask(m.FailActivity("1.1", attempt, DOWN, "w1"), actor="w1")
            due_ms = scribe.now_ms + rest_ms
            chronicle.fact(cause, r.ActivityRetryScheduled("1.1", attempt + 1, due_ms, DOWN, "w1"))
            chronicle.ask(m.FailActivity("1.1", attempt, DOWN, "w1"), actor="w1")  # told twice
            scribe.now_ms = due_ms
            cause = chronicle.ask(m.FireTimer("1.1", due_ms), actor="engine")
            chronicle.fact(cause, r.ActivityRetried("1.1", attempt + 1))
        cause = chronicle.ask(m.CompleteActivity("1.1", 2, say(1), "w1"), actor="w1")
        chronicle.fact(cause, r.LateResultRecorded("1.1", 2, "completed", say(1), None, "w1"))
        cause = chronicle.ask(m.CompleteActivity("1.1", 3, say(2), "w1"), actor="w1")
        chronicle.fact(
            cause,
            r.ActivityCompleted("1.1", 3, say(2), "w1"),
            r.TurnCompleted(1, 1, say(0), (), ()),
        )
        return chronicle

    return tell


def second(kind, change):
    """Changes the facts of a kind that are about attempt 2."""

    def tamper(body):
        return change(body) if isinstance(body, kind) and body.attempt == 2 else [body]

    return tamper


def test_a_clean_history_with_retries_breaks_nothing(told, found):
    assert found(told().evidence()) == set()


def test_13_an_attempt_without_its_task_or_with_two_is_found(told, found):
    chronicle = told()
    assert 13 in found(chronicle.evidence(activities=chronicle.tasks[:1]))
    assert 13 in found(chronicle.evidence(activities=[*chronicle.tasks, chronicle.tasks[1]]))


def test_18_an_attempt_after_the_outcome_is_found(told, found):
    def again(body):
        return [body, r.ActivityRetried("1.1", 4)]

    assert 18 in found(told(on(r.ActivityCompleted, again)).evidence())


def test_15_the_result_of_an_older_attempt_that_was_applied_is_found(told, found):
    def applied(body):
        return [r.ActivityCompleted(body.activity_id, body.attempt, body.result, body.worker)]

    assert 15 in found(told(on(r.LateResultRecorded, applied)).evidence())


def test_15_a_result_of_an_attempt_that_had_failed_is_found(told, found):
    def undone(body):
        return [
            body,
            r.ActivityCompleted("1.1", 1, r.Payload("json", b"1", None, b"", 1, None), "w"),
        ]

    assert 15 in found(told(second(r.ActivityRetryScheduled, undone)).evidence())


def test_15_an_attempt_that_is_left_out_is_found(told, found):
    skipped = second(r.ActivityRetried, lambda body: [replace(body, attempt=3)])
    assert 15 in found(told(skipped).evidence())


def test_16_a_task_with_another_key_or_other_arguments_is_found(told, found):
    chronicle = told(
        on(r.ActivityRequested, lambda body: [replace(body, idempotency_key="acme/s1/1/9")])
    )
    assert 16 in found(chronicle.evidence())
    chronicle = told()
    again = chronicle.tasks[1]
    task = decode_task(again.value, again.headers)
    other = encode_task(replace(task, arguments=replace(task.arguments, digest=DIGEST)))
    swapped = [chronicle.tasks[0], replace(again, value=other.value), chronicle.tasks[2]]
    assert found(chronicle.evidence(activities=swapped)) == {16}


def test_21_an_attempt_before_its_back_off_is_over_is_found(told, found):
    hasty = second(r.ActivityRetryScheduled, lambda body: [replace(body, due_ms=body.due_ms - 300)])
    assert found(told(hasty).evidence()) == {21}
    early = second(r.ActivityRetryScheduled, lambda body: [replace(body, due_ms=body.due_ms + 50)])
    assert found(told(early).evidence()) == {21}
    unscheduled = second(r.ActivityRetryScheduled, lambda _: [])
    assert 21 in found(told(unscheduled).evidence())


def test_21_an_attempt_that_undercuts_what_the_tool_asked_for_is_found(told, found):
    asked = replace(DOWN, retry_after_ms=5_000)
    hasty = second(r.ActivityRetryScheduled, lambda body: [replace(body, failure=asked)])
    assert found(told(hasty).evidence()) == {21}


@pytest.mark.parametrize(
    "policy",
    [None, replace(POLICY, attempts_max=2), replace(POLICY, never=("IOError",))],
    ids=["none", "exhausted", "never"],
)
def test_21_an_attempt_that_the_recorded_policy_does_not_have_is_found(told, found, policy):
    chronicle = told(on(r.ActivityRequested, lambda body: [replace(body, retry=policy)]))
    assert found(chronicle.evidence()) == {21}


def test_21_an_attempt_past_the_deadline_is_found(told, found):
    chronicle = told(
        on(r.ActivityRequested, lambda body: [replace(body, deadline_ms=body.deadline_ms - 29_500)])
    )
    assert found(chronicle.evidence()) == {21}


def given_up(failure):
    """The first failure ends it, and what the story holds of later attempts comes in vain."""

    def tamper(body):
        match body:
            case r.ActivityRetryScheduled(attempt=2):
                return [r.ActivityFailed("1.1", 1, failure, "w1")]
            case r.ActivityRetryScheduled() | r.ActivityRetried():
                return []
            case r.ActivityCompleted():
                return [r.LateResultRecorded("1.1", 3, "completed", body.result, None, "w1")]
            case _:
                return [body]

    return tamper


def test_21_an_activity_given_up_with_attempts_left_is_found(told, found):
    assert found(told(given_up(DOWN)).evidence()) == {21}
    assert found(told(given_up(replace(DOWN, type="KeyError"))).evidence()) == set()
    assert found(told(given_up(replace(DOWN, retry_after_ms=30_000))).evidence()) == set()


@pytest.mark.parametrize(("late_ms", "broken"), [(0, set()), (5_000, {21})])
def test_21_a_failure_that_was_kept_rests_from_when_it_came(begin, found, late_ms, broken):
    chronicle = begin()
    say, scribe = chronicle.scribe.payload, chronicle.scribe
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    chronicle.fact(
        chronicle.ask(m.SendMessage(say("hi")), command_id="m1"),
        r.MessageReceived("m1", say("hi")),
        r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
        chronicle.activity("1.1", retry=POLICY),
        r.SessionHeld("why", "because"),
    )
    kept = chronicle.ask(m.FailActivity("1.1", 1, DOWN, "w1"), actor="w1")
    chronicle.fact(kept, r.CommandParked("FailActivity", b"f" * 8, b"c"))
    due_ms = scribe.now_ms + late_ms + 900
    scribe.now_ms += 5_000
    release = chronicle.ask(m.ReleaseSession("mended"))
    chronicle.fact(release, r.SessionReleased("mended"))
    chronicle.fact(kept, r.ActivityRetryScheduled("1.1", 2, due_ms, DOWN, "w1"))
    scribe.now_ms = max(scribe.now_ms, due_ms)
    chronicle.fact(release, r.ActivityRetried("1.1", 2))
    done = chronicle.ask(m.CompleteActivity("1.1", 2, say(1), "w1"), actor="w1")
    chronicle.fact(done, r.ActivityCompleted("1.1", 2, say(1), "w1"))
    chronicle.fact(done, r.TurnCompleted(1, 1, say(0), (), ()))
    assert found(chronicle.evidence()) == broken
