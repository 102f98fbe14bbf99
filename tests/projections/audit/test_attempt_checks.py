"""Attempts in the audit: doubt ends once, writes that must not run twice do not, and only what runs is heard of."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r
from wakeful.events.codec import decode_task, encode_task

from .tampering import on

POLICY = r.RetryPolicy(5, 1_000, 2_000, 60_000, ())
DIED = r.Failure("raised", "", "the connection was cut in the middle", "")
NOTHING = r.Failure("nothing_done", "Refused", "the bank said no", "")
SILENT = r.Failure("timed_out", "heartbeat", "no heartbeat for 1000 ms", "")


def opened(chronicle, *bodies):
    """A session whose turn does these things first."""
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    chronicle.fact(
        chronicle.ask(m.SendMessage(say("hi")), command_id="m1"),
        r.MessageReceived("m1", say("hi")),
        r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
        *bodies,
    )


def ended(chronicle, cause):
    chronicle.fact(cause, r.TurnCompleted(1, 9, chronicle.scribe.payload(0), (), ()))


@pytest.fixture
def doubt(begin):
    """A write that must not run twice: given back, refused, then in doubt, and resolved by a person."""

    def tell(tamper=lambda body: [body], **more):
        chronicle = begin(tamper)
        say, scribe = chronicle.scribe.payload, chronicle.scribe
        opened(chronicle, chronicle.activity("1.1", retry=POLICY, contract="write_once", **more))
        cause = chronicle.ask(m.ReturnActivity("1.1", 1, "draining", "w1"), actor="w1")
        chronicle.fact(cause, r.ActivityReturned("1.1", 1, "draining", "w1"))
        chronicle.ask(m.ReturnActivity("1.1", 1, "draining", "w1"), actor="w1")  # told twice
        cause = chronicle.ask(m.FailActivity("1.1", 2, NOTHING, "w1"), actor="w1")
        due_ms = scribe.now_ms + 900
        chronicle.fact(cause, r.ActivityRetryScheduled("1.1", 3, due_ms, NOTHING, "w1"))
        scribe.now_ms = due_ms
        cause = chronicle.ask(m.FireTimer("1.1", due_ms), actor="engine")
        chronicle.fact(cause, r.ActivityRetried("1.1", 3))
        cause = chronicle.ask(m.FailActivity("1.1", 3, DIED, "w1"), actor="w1")
        chronicle.fact(
            cause, r.ActivityUncertain("1.1", 3, DIED, "w1"), r.SessionWaiting(1, (), ())
        )
        chronicle.ask(m.FailActivity("1.1", 3, DIED, "w1"), actor="w1")  # told twice
        cause = chronicle.ask(m.ResolveActivity("1.1", "completed", say(7), "seen"), actor="sue")
        chronicle.fact(cause, r.ActivityResolved("1.1", 3, "completed", say(7), "seen"))
        ended(chronicle, cause)
        return chronicle

    return tell


def test_a_clean_history_of_doubt_breaks_nothing(doubt, found):
    assert found(doubt().evidence()) == set()


def instead(*bodies):
    """Changes the resolution into other facts."""
    return on(r.ActivityResolved, lambda _: list(bodies))


ONE = r.Payload("json", b"1", None, b"\7" * 32, 1, None)


@pytest.mark.parametrize(
    "end",
    [
        r.ActivityCompleted("1.1", 3, ONE, "w1"),
        r.ActivityFailed("1.1", 3, NOTHING, "w1"),
        r.ActivityResolved("1.1", 3, "failed", None, ""),
        r.ActivityCancelled("1.1", 3, "the turn ended"),
    ],
    ids=lambda body: type(body).__name__,
)
def test_14_doubt_ends_once_in_one_of_four_ways(doubt, found, end):
    assert found(doubt(instead(end)).evidence()) == set() or isinstance(end, r.ActivityCancelled)
    assert 14 in found(doubt(instead(end, end)).evidence())


def test_14_doubt_that_comes_twice_or_ends_as_a_plain_failure_is_found(doubt, found):
    assert 14 in found(doubt(on(r.ActivityUncertain, lambda body: [body, body])).evidence())
    assert 14 in found(doubt(instead(r.ActivityFailed("1.1", 3, DIED, "w1"))).evidence())


def test_14_a_resolution_of_what_was_in_no_doubt_is_found(doubt, found):
    assert 14 in found(doubt(on(r.ActivityUncertain, lambda _: [])).evidence())


def test_14_an_end_of_doubt_that_its_workflow_decided_is_found(doubt, found):
    assert 14 in found(doubt(on_uncertain="raise").evidence())
    assert 14 not in found(doubt(instead(), on_uncertain="raise").evidence())


def test_14_a_session_that_ends_with_a_doubt_is_found(doubt, found):
    failed = r.SessionFailed(1, DIED, 0)
    assert 14 in found(doubt(instead(failed)).evidence())


def test_18_another_attempt_of_what_is_in_doubt_is_found(doubt, found):
    again = on(r.ActivityUncertain, lambda body: [body, r.ActivityReturned("1.1", 3, "", "w")])
    assert 18 in found(doubt(again).evidence())


def test_15_a_resolution_of_another_attempt_is_found(doubt, found):
    assert 15 in found(
        doubt(on(r.ActivityResolved, lambda body: [replace(body, attempt=2)])).evidence()
    )


def test_15_an_attempt_given_back_that_does_not_run_is_found(doubt, found):
    assert 15 in found(
        doubt(on(r.ActivityReturned, lambda body: [replace(body, attempt=2)])).evidence()
    )


def test_15_a_result_that_would_have_ended_the_doubt_and_was_put_aside_is_found(doubt, found):
    def aside(attempt):
        late = r.LateResultRecorded("1.1", attempt, "completed", ONE, None, "w1")
        return on(r.ActivityResolved, lambda body: [late, body])

    assert found(doubt(aside(3)).evidence()) == {15}
    assert found(doubt(aside(2)).evidence()) == set()


def test_13_an_attempt_given_back_without_the_next_ones_task_is_found(doubt, found):
    chronicle = doubt()
    assert len(chronicle.tasks) == 3
    assert 13 in found(chronicle.evidence(activities=[chronicle.tasks[0], chronicle.tasks[2]]))


def test_13_a_task_in_the_wrong_one_of_its_queues_topics_is_found(doubt, found):
    chronicle = doubt()
    assert {task.topic for task in chronicle.tasks} == {"test.activities.payments.once.v1"}
    first, *rest = chronicle.tasks
    wrong = replace(first, topic="test.activities.payments.v1")
    assert found(chronicle.evidence(activities=[wrong, *rest])) == {13}


def test_13_a_task_under_another_contract_than_was_requested_is_found(doubt, found):
    chronicle = doubt()
    first, *rest = chronicle.tasks
    task = replace(decode_task(first.value, first.headers), contract="read")
    lent = replace(first, value=encode_task(task).value, topic="test.activities.payments.v1")
    assert found(chronicle.evidence(activities=[lent, *rest])) == {13}


def test_13_doubt_that_the_world_does_not_hear_of_is_found(doubt, found):
    chronicle = doubt()
    assert 13 in found(chronicle.evidence(outcomes=[]))


def test_17_an_attempt_after_one_that_may_have_run_is_found(doubt, found):
    hasty = on(r.ActivityRetryScheduled, lambda body: [replace(body, failure=DIED)])
    assert found(doubt(hasty).evidence()) == {17}


def test_17_an_attempt_that_was_not_scheduled_is_found(doubt, found):
    assert 17 in found(doubt(on(r.ActivityRetryScheduled, lambda _: [])).evidence())


@pytest.mark.parametrize("contract", ["read", "write_idempotent", "write_lookup"])
def test_17_others_may_run_again(begin, found, contract):
    chronicle = begin()
    opened(chronicle, chronicle.activity("1.1", retry=POLICY, contract=contract))
    cause = chronicle.ask(m.FailActivity("1.1", 1, DIED, "w1"), actor="w1")
    due_ms = chronicle.scribe.now_ms + 900
    chronicle.fact(cause, r.ActivityRetryScheduled("1.1", 2, due_ms, DIED, "w1"))
    chronicle.scribe.now_ms = due_ms
    cause = chronicle.ask(m.FireTimer("1.1", due_ms), actor="engine")
    chronicle.fact(cause, r.ActivityRetried("1.1", 2))
    assert found(chronicle.evidence()) == set()


def test_17_a_write_that_may_have_run_and_is_called_failed_is_found(doubt, found):
    failed = on(r.ActivityUncertain, lambda _: [r.ActivityFailed("1.1", 3, DIED, "w1")])
    assert 17 in found(doubt(failed).evidence())


def test_21_doubt_about_what_could_have_run_again_is_found(begin, found):
    chronicle = begin()
    opened(chronicle, chronicle.activity("1.1", retry=POLICY, contract="write_lookup"))
    cause = chronicle.ask(m.FailActivity("1.1", 1, DIED, "w1"), actor="w1")
    chronicle.fact(cause, r.ActivityUncertain("1.1", 1, DIED, "w1"), r.SessionWaiting(1, (), ()))
    assert found(chronicle.evidence()) == {21}


@pytest.fixture
def beating(begin):
    """An activity that is heard of, falls silent, is tried again and completes."""

    def tell(tamper=lambda body: [body], *, silent_ms=1_000):
        chronicle = begin(tamper)
        say, scribe = chronicle.scribe.payload, chronicle.scribe
        opened(chronicle, chronicle.activity("1.1", retry=POLICY, heartbeat_ms=1_000))
        beat = m.HeartbeatActivity("1.1", 1, None, "w1")
        chronicle.fact(chronicle.ask(beat, actor="w1"), r.ActivityStarted("1.1", 1, "w1"))
        chronicle.ask(beat, actor="w1")  # says nothing new
        told = r.ActivityProgressed("1.1", 1, say("half"), "w1")
        chronicle.fact(chronicle.ask(replace(beat, progress=say("half")), actor="w1"), told)
        scribe.now_ms += silent_ms
        cause = chronicle.ask(m.FireTimer("1.1", scribe.now_ms), actor="engine")
        due_ms = scribe.now_ms + 1_000
        chronicle.fact(cause, r.ActivityRetryScheduled("1.1", 2, due_ms, SILENT, ""))
        chronicle.over("1.1", 1)
        scribe.now_ms = due_ms
        cause = chronicle.ask(m.FireTimer("1.1", due_ms), actor="engine")
        chronicle.fact(cause, r.ActivityRetried("1.1", 2))
        cause = chronicle.ask(m.CompleteActivity("1.1", 2, say(1), "w2"), actor="w2")
        chronicle.fact(cause, r.ActivityCompleted("1.1", 2, say(1), "w2"))
        chronicle.ask(replace(beat, attempt=2), actor="w2")  # of an attempt that is over
        ended(chronicle, cause)
        return chronicle

    return tell


def test_a_clean_history_of_heartbeats_breaks_nothing(beating, found):
    assert found(beating().evidence()) == set()


@pytest.mark.parametrize(
    "spoken",
    [r.ActivityStarted("1.1", 1, "w1"), r.ActivityProgressed("1.1", 1, ONE, "w1")],
    ids=lambda body: type(body).__name__,
)
@pytest.mark.parametrize(
    "after", [r.ActivityRetryScheduled, r.ActivityRetried, r.ActivityCompleted]
)
def test_15_a_sign_of_life_of_an_attempt_that_is_over_is_found(beating, found, spoken, after):
    assert 15 in found(beating(on(after, lambda body: [body, spoken])).evidence())


def test_15_an_attempt_that_begins_twice_or_without_being_asked_is_found(beating, begin, found):
    assert found(beating(on(r.ActivityStarted, lambda body: [body, body])).evidence()) == {15}
    chronicle = begin()
    opened(chronicle, chronicle.activity("1.1"), r.ActivityStarted("1.1", 1, "w1"))
    assert found(chronicle.evidence()) == {15}


def test_15_a_silence_of_what_was_never_heard_or_not_long_ago_is_found(beating, found):
    unheard = on((r.ActivityStarted, r.ActivityProgressed), lambda _: [])
    assert 15 in found(beating(unheard).evidence())
    assert found(beating(silent_ms=900).evidence()) == {15}


def test_15_a_word_to_drop_what_still_runs_is_found(beating, found):
    for attempt in (2, 7):
        chronicle = beating()
        chronicle.over("1.1", attempt)
        assert found(chronicle.evidence()) == {15}


def test_15_a_word_to_drop_an_attempt_before_it_was_over_is_found(beating, found):
    chronicle = beating()
    (over,) = chronicle.overs
    early = replace(over, timestamp_ms=over.timestamp_ms - 120_000)
    assert found(chronicle.evidence(attempts=[early])) == {15}
