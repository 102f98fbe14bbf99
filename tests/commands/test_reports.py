"""What a worker's report, or its silence, leads to under each contract: given an attempt, when, then and nothing more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wakeful.commands import compensating
from wakeful.commands import models as m
from wakeful.commands.check import Refusal
from wakeful.commands.decide import deliverable, due
from wakeful.commands.reports import RETURNS_MAX, report, unapproved
from wakeful.events import contracts as c
from wakeful.events import records as r
from wakeful.events.due import next_due
from wakeful.events.evolve import evolve
from wakeful.events.payloads import json_payload
from wakeful.events.state import (
    OpenActivity,
    Settled,
    State,
    Status,
    Uncertain,
)
from wakeful.events.undoing import Registered, Undoing

KEY = b"a tenant's digest key"
NOW_MS = 1_000_000
DEADLINE_MS = NOW_MS + 60_000
HEADER = m.CommandHeader("acme", "s1", "c", NOW_MS, "worker:w1", None, "worker", None)
POLICY = r.RetryPolicy(3, 1_000, 2_000, 10_000, ())
ENVELOPE = r.Envelope(
    "acme",
    "s1",
    9,
    NOW_MS,
    "engine",
    None,
    "worker",
    r.Cause("x.commands.v1", 0, 1, "c", None, None),
    None,
    None,
    b"",
)


def payload(value: object) -> r.Payload:
    return json_payload(value, KEY)


def failure(kind: str = "raised", type_: str = "OSError") -> r.Failure:
    return r.Failure(kind, type_, "told", "")


def running(contract: str, **changes: object) -> State:
    """A session whose one activity runs under this contract."""
    activity = OpenActivity(
        "1.1", 1, "pay", 1, DEADLINE_MS, POLICY, contract=contract, heartbeat_ms=5_000
    )
    activities = (replace(activity, **changes),)
    return State("desk", Status.RUNNING, turn=1, steps=1, activities=activities)


def uncertain(attempt: int = 1) -> State:
    doubt = Uncertain("1.1", 1, "pay", attempt, "nobody knows")
    return State("desk", Status.WAITING, turn=1, steps=1, uncertain=(doubt,))


def told(state: State, body: m.CommandBody, now_ms: int = NOW_MS) -> list[r.EventBody]:
    decided = report(state, HEADER, body, now_ms)
    assert not isinstance(decided, Refusal), decided
    return decided


def fails(state: State, kind: str, attempt: int = 1) -> r.EventBody:
    [fact] = told(state, m.FailActivity("1.1", attempt, failure(kind), "w1"))
    return fact


def folded(state: State, body: r.EventBody) -> State:
    return evolve(state, r.Event(ENVELOPE, body))


RETRY, FAILED, DOUBT = r.ActivityRetryScheduled, r.ActivityFailed, r.ActivityUncertain


@pytest.mark.case("U15")
@pytest.mark.parametrize(
    ("contract", "kind", "expected"),
    [
        (c.READ, "raised", RETRY),
        (c.READ, "timed_out", RETRY),
        (c.READ, "unserialisable_result", FAILED),
        (c.IDEMPOTENT, "raised", RETRY),
        (c.IDEMPOTENT, "timed_out", RETRY),
        (c.LOOKUP, "raised", RETRY),
        (c.LOOKUP, "timed_out", RETRY),
        (c.LOOKUP, "look_up_failed", RETRY),
        (c.LOOKUP, "unserialisable_result", DOUBT),
        (c.LOOKUP, "wrong_arguments", FAILED),
        (c.UNDO, "raised", DOUBT),
        (c.UNDO, "timed_out", DOUBT),
        (c.UNDO, "nothing_done", RETRY),
        (c.AT_MOST_ONCE, "raised", DOUBT),
        (c.AT_MOST_ONCE, "timed_out", DOUBT),
        (c.AT_MOST_ONCE, "result_too_large", DOUBT),
        (c.AT_MOST_ONCE, "nothing_done", RETRY),
        (c.AT_MOST_ONCE, "unknown_activity", RETRY),
        (c.AT_MOST_ONCE, "no_credentials", RETRY),
        (c.LOOKUP, "no_credentials", RETRY),
        (c.AT_MOST_ONCE, "wrong_arguments", FAILED),
    ],
)
def test_a_failure_means_what_its_contract_says(contract: str, kind: str, expected: type) -> None:
    assert type(fails(running(contract), kind)) is expected


@pytest.mark.parametrize(
    ("contract", "kind", "expected"),
    [
        (c.READ, "raised", FAILED),
        (c.IDEMPOTENT, "timed_out", FAILED),
        (c.LOOKUP, "raised", FAILED),
        (c.LOOKUP, "look_up_failed", DOUBT),
        (c.AT_MOST_ONCE, "nothing_done", FAILED),
        (c.AT_MOST_ONCE, "no_credentials", FAILED),
        (c.AT_MOST_ONCE, "raised", DOUBT),
    ],
)
def test_the_last_attempts_failure_ends_it(contract: str, kind: str, expected: type) -> None:
    assert type(fails(running(contract, attempt=3), kind, attempt=3)) is expected


def test_a_worker_that_cannot_begin_says_nothing_of_a_doubtful_attempt_before() -> None:
    state = running(c.LOOKUP, attempt=3, doubtful=True)
    assert type(fails(state, "unknown_activity", attempt=3)) is DOUBT
    assert type(fails(state, "no_credentials", attempt=3)) is DOUBT
    assert type(fails(state, "nothing_done", attempt=3)) is FAILED


@pytest.mark.parametrize(("doubtful", "expected"), [(False, FAILED), (True, DOUBT)])
def test_an_approval_that_nobody_gave_says_nothing_of_a_doubtful_attempt_before(
    doubtful: bool, expected: type
) -> None:
    withheld = running(c.LOOKUP, attempt=2, withheld_ms=1, denied="no", doubtful=doubtful)
    assert deliverable(withheld) == unapproved(withheld.activities[0])
    assert type(deliverable(withheld)) is expected


@pytest.mark.parametrize(
    ("contract", "expected"),
    [
        (c.READ, FAILED),
        (c.IDEMPOTENT, FAILED),
        (c.LOOKUP, DOUBT),
        (c.UNDO, DOUBT),
        (c.AT_MOST_ONCE, DOUBT),
    ],
)
def test_at_the_deadline_only_what_may_run_again_has_failed(contract: str, expected: type) -> None:
    assert type(due(running(contract), DEADLINE_MS)) is expected
    assert due(running(contract), DEADLINE_MS - 1) is None


def test_the_deadline_of_a_back_off_after_a_certain_failure_is_a_failure() -> None:
    resting = running(c.LOOKUP, retry_due_ms=DEADLINE_MS + 1)
    assert type(due(resting, DEADLINE_MS)) is FAILED
    doubtful = running(c.LOOKUP, retry_due_ms=DEADLINE_MS + 1, doubtful=True)
    assert type(due(doubtful, DEADLINE_MS)) is DOUBT


def test_an_uncertain_activity_waits_and_its_own_late_result_ends_the_doubt() -> None:
    state = folded(running(c.AT_MOST_ONCE), fails(running(c.AT_MOST_ONCE), "raised"))
    assert [u.activity_id for u in state.uncertain] == ["1.1"]
    assert state.waits
    assert not state.activities
    result = m.CompleteActivity("1.1", 1, payload("done"), "w1")
    [completed] = told(state, result)
    assert isinstance(completed, r.ActivityCompleted)
    state = folded(replace(state, status=Status.WAITING), completed)
    assert (state.uncertain, state.status) == ((), Status.RUNNING)
    assert told(state, result) == []


def test_the_same_failure_again_is_a_repeat_and_another_is_evidence() -> None:
    state = folded(running(c.AT_MOST_ONCE), fails(running(c.AT_MOST_ONCE), "raised"))
    assert told(state, m.FailActivity("1.1", 1, failure("raised"), "w1")) == []
    [late] = told(state, m.FailActivity("1.1", 1, failure("timed_out"), "w1"))
    assert isinstance(late, r.LateResultRecorded)


def test_a_late_word_that_nothing_was_done_ends_the_doubt_as_a_failure() -> None:
    assert type(fails(uncertain(), "nothing_done")) is FAILED


def test_another_attempts_result_leaves_the_doubt() -> None:
    [late] = told(uncertain(attempt=2), m.CompleteActivity("1.1", 1, payload("x"), "w1"))
    assert isinstance(late, r.LateResultRecorded)


def test_a_workflow_that_decides_by_itself_has_no_wait_for_a_person() -> None:
    state = running(c.AT_MOST_ONCE, on_uncertain="raise")
    state = folded(state, fails(state, "raised"))
    assert (state.uncertain, state.activities) == ((), ())
    assert state.settled[-1].outcome == "uncertain"
    [late] = told(state, m.CompleteActivity("1.1", 1, payload("x"), "w1"))
    assert isinstance(late, r.LateResultRecorded)


def test_a_returned_attempt_is_dispatched_again_and_counts_for_no_retry() -> None:
    state = running(c.AT_MOST_ONCE)
    [returned] = told(state, m.ReturnActivity("1.1", 1, "worker_stops", "w1"))
    assert isinstance(returned, r.ActivityReturned)
    state = folded(state, returned)
    [activity] = state.activities
    assert (activity.attempt, activity.returned) == (2, 1)
    assert told(state, m.ReturnActivity("1.1", 1, "worker_stops", "w1")) == []
    state = running(c.READ, attempt=4, returned=2)
    assert type(fails(state, "raised", attempt=4)) is RETRY
    state = running(c.READ, attempt=5, returned=2)
    assert type(fails(state, "raised", attempt=5)) is FAILED


def test_what_everybody_gives_back_fails_in_the_end() -> None:
    attempt = RETURNS_MAX + 1
    state = running(c.READ, attempt=attempt, returned=RETURNS_MAX)
    [failed] = told(state, m.ReturnActivity("1.1", attempt, "no room", "w1"))
    assert isinstance(failed, r.ActivityFailed)
    assert failed.failure.kind == "returned"


def beat(attempt: int = 1, progress: object = None) -> m.HeartbeatActivity:
    told_of = None if progress is None else payload(progress)
    return m.HeartbeatActivity("1.1", attempt, told_of, "w1")


def test_only_the_first_beat_and_news_of_progress_are_facts() -> None:
    state = running(c.READ)
    [started] = told(state, beat())
    assert isinstance(started, r.ActivityStarted)
    state = folded(state, started)
    assert told(state, beat()) == []
    [progressed] = told(state, beat(progress="half"))
    state = folded(state, progressed)
    assert told(state, beat(progress="half")) == []
    assert state.activities[0].progress == payload("half")


def test_a_beat_of_an_attempt_that_is_over_changes_nothing() -> None:
    settled = State("desk", Status.RUNNING, turn=1, steps=1)
    assert told(settled, beat(progress="x")) == []
    assert told(running(c.READ, attempt=2), beat(1, "x")) == []


def test_a_beat_of_an_attempt_that_never_was_is_refused() -> None:
    assert isinstance(report(running(c.READ), HEADER, beat(2), NOW_MS), Refusal)


@pytest.mark.case("U19")
def test_a_queued_attempts_silence_does_not_count() -> None:
    queued = running(c.READ)
    assert due(queued, DEADLINE_MS - 1, beats={}, session="acme/s1") is None
    assert next_due(queued) == (DEADLINE_MS, "1.1")


@pytest.mark.case("U19")
def test_a_begun_attempt_that_falls_silent_is_tried_again_by_its_policy() -> None:
    begun = running(c.READ, started=True)
    beats = {"1.1": NOW_MS}
    assert next_due(begun, beats) == (NOW_MS + 5_000, "1.1")
    assert due(begun, NOW_MS + 4_999, beats=beats) is None
    fact = due(begun, NOW_MS + 5_000, beats=beats, session="acme/s1")
    assert isinstance(fact, r.ActivityRetryScheduled)
    assert (fact.failure.kind, fact.failure.type) == ("timed_out", "heartbeat")
    again = folded(begun, fact)
    assert not again.activities[0].started
    last = running(c.READ, started=True, attempt=3)
    assert isinstance(due(last, NOW_MS + 5_000, beats=beats), r.ActivityFailed)


def test_a_silent_write_that_may_have_run_is_in_doubt() -> None:
    beats = {"1.1": NOW_MS}
    once = running(c.AT_MOST_ONCE, started=True)
    assert isinstance(due(once, NOW_MS + 5_000, beats=beats), r.ActivityUncertain)
    look_up = running(c.LOOKUP, started=True)
    fact = due(look_up, NOW_MS + 5_000, beats=beats)
    assert isinstance(fact, r.ActivityRetryScheduled)
    assert folded(look_up, fact).activities[0].doubtful


def test_a_new_owner_gives_a_begun_attempt_a_fresh_interval() -> None:
    begun = running(c.READ, started=True)
    assert due(begun, NOW_MS + 50_000, beats={}) is None
    assert next_due(begun, {}, NOW_MS) == (NOW_MS + 5_000, "1.1")


def test_a_settled_result_sent_again_is_a_repeat() -> None:
    result = payload("x")
    state = State(
        "desk",
        Status.RUNNING,
        turn=1,
        steps=1,
        settled=(Settled("1.1", 1, "completed", result.digest),),
    )
    assert told(state, m.CompleteActivity("1.1", 1, result, "w2")) == []


UNDO = r.Compensation("unpay", "q", "write_idempotent", payload(1), b"u", 1_000, 9_000)


def watched(over_by_ms: int | None) -> State:
    """A session that was stopped while a call was in flight, whose effect it takes back."""
    effect = Registered("1.1", "pay", 1, "perhaps", UNDO, over_by_ms, None, c.AT_MOST_ONCE)
    undoing = Undoing("cancelled", None, (), (), ())
    return State(
        "desk", Status.COMPENSATING, turn=1, steps=1, registered=(effect,), undoing=undoing
    )


@pytest.mark.parametrize("over_by_ms", [DEADLINE_MS, None])
def test_that_an_attempt_was_stopped_is_news_while_its_end_is_awaited(over_by_ms) -> None:
    reports = [
        m.FailActivity("1.1", 1, failure("stopped", ""), "w1"),
        m.ReturnActivity("1.1", 1, "not_wanted", "w1"),
    ]
    for body in reports:
        facts = report(watched(over_by_ms), HEADER, body, NOW_MS)
        kinds = [(type(fact), fact.failure.kind) for fact in facts]
        known = "stopped" if isinstance(body, m.FailActivity) else "nothing_done"
        assert kinds == ([(r.LateResultRecorded, known)] if over_by_ms else [])


def test_what_is_awaited_before_it_is_taken_back_is_due_at_its_deadline() -> None:
    assert next_due(watched(DEADLINE_MS)) == (DEADLINE_MS, "1.1")
    assert compensating.following(watched(DEADLINE_MS), "acme", "s1", DEADLINE_MS - 1) is None
    asked = compensating.following(watched(DEADLINE_MS), "acme", "s1", DEADLINE_MS)
    assert (asked.name, asked.activity_id, asked.compensates) == ("unpay", "1.2", "1.1")
    assert next_due(watched(None)) is None
