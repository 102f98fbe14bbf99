"""Withheld attempts in the audit: not dispatched, asked about at once, approved or failed, with the time that was left."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.commands.wire import decode_command
from wakeful.events import records as r
from wakeful.events.state import NEVER_MS
from wakeful.projections.audit import asked_by, audit

from .conftest import DIGEST
from .tampering import on, without

DOWN = r.Failure("nothing_done", "E", "down", "")
POLICY = r.RetryPolicy(3, 1_000, 1_000, 1_000, ())
LEFT_MS = 20_000


@pytest.fixture
def told(begin):
    """An approved call whose second attempt is withheld, asked for again, approved by another, and succeeds."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say, scribe = chronicle.scribe.payload, chronicle.scribe
        relies_on = (r.Version("order", "v1"),)

        def asked(proposal_id, **more):
            return r.ApprovalRequested(
                *(proposal_id, 1, 2, "refund", "write", say(2), DIGEST, "boss"),
                scribe.now_ms + 90_000,
                relies_on=relies_on,
                **more,
            )

        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        chronicle.fact(
            chronicle.ask(m.SendMessage(say("hi")), command_id="m1"),
            r.MessageReceived("m1", say("hi")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            r.ArtifactRecorded(1, 1, "order", "v1"),
            asked("1.2-p"),
            r.SessionWaiting(1, (), ()),
        )
        cause = chronicle.ask(m.DecideApproval("1.2-p", DIGEST, "approve", ""), actor="boss")
        chronicle.fact(
            cause,
            r.ApprovalGranted("1.2-p", DIGEST, ""),
            chronicle.activity(
                "1.3", approval="granted", proposal="1.2-p", digest=DIGEST, retry=POLICY
            ),
        )
        cause = chronicle.ask(m.FailActivity("1.3", 1, DOWN, "w1"), actor="w1")
        due_ms = scribe.now_ms + 900
        chronicle.fact(cause, r.ActivityRetryScheduled("1.3", 2, due_ms, DOWN, "w1"))
        scribe.now_ms = due_ms
        chronicle.fact(
            chronicle.ask(m.FireTimer("1.3", due_ms), actor="engine"),
            r.ActivityRetried("1.3", 2, LEFT_MS, ("frozen",)),
            r.ApprovalVoided("1.2-p", "authority", ("frozen",)),
            asked("1.2.2-p", supersedes="1.2-p", activity_id="1.3", because=("frozen",)),
            r.SessionWaiting(1, (), ()),
        )
        scribe.now_ms += 60_000
        cause = chronicle.ask(m.DecideApproval("1.2.2-p", DIGEST, "approve", ""), actor="eve")
        now_ms = scribe.now_ms + 10
        chronicle.fact(
            cause,
            r.ApprovalGranted("1.2.2-p", DIGEST, ""),
            r.ActivityRetried("1.3", 2, deadline_ms=now_ms + LEFT_MS),
            at_ms=now_ms,
        )
        cause = chronicle.ask(m.CompleteActivity("1.3", 2, say(2), "w1"), actor="w1")
        chronicle.fact(
            cause,
            r.ActivityCompleted("1.3", 2, say(2), "w1"),
            r.TurnCompleted(1, 3, say(0), (), ()),
        )
        return chronicle

    return tell


def withholding(change):
    """Changes the fact that withholds."""

    def changed(body):
        return change(body) if body.withheld_ms is not None else [body]

    return on(r.ActivityRetried, changed)


def dispatching(change):
    """Changes the fact that dispatches what was withheld."""

    def changed(body):
        return change(body) if body.withheld_ms is None else [body]

    return on(r.ActivityRetried, changed)


def test_a_clean_history_with_a_withheld_attempt_breaks_nothing(told, found):
    assert found(told().evidence()) == set()


def test_13_a_task_of_what_is_withheld_is_found(told, found):
    chronicle = told()
    assert len(chronicle.tasks) == 2
    chronicle.task(chronicle.requests["1.3"], 2, 10)
    assert 13 in found(chronicle.evidence())


def test_13_no_task_of_what_was_approved_is_found(told, found):
    chronicle = told()
    assert 13 in found(chronicle.evidence(activities=without(chronicle.tasks, 1)))


def test_14_doubt_about_what_was_never_dispatched_is_found(told, found):
    def doubted(body):
        return [
            replace(body, withheld_ms=1),
            r.ActivityUncertain(body.activity_id, 1, DOWN, ""),
        ]

    assert 14 in found(told(on(r.ActivityRequested, doubted)).evidence())


def test_15_a_result_of_what_is_withheld_is_found(told, found):
    def completed(body):
        result = r.Payload("json", b"1", None, b"", 1, None)
        return [body, r.ActivityCompleted("1.3", 2, result, "w1")]

    assert 15 in found(told(withholding(completed)).evidence())


def test_15_another_number_for_what_was_withheld_is_found(told, found):
    assert 15 in found(told(dispatching(lambda b: [replace(b, attempt=3)])).evidence())


@pytest.mark.parametrize("off_ms", [-1, 1, None])
def test_21_other_time_than_was_left_is_found(told, found, off_ms):
    def changed(body):
        due_ms = None if off_ms is None else body.deadline_ms + off_ms
        return [replace(body, deadline_ms=due_ms)]

    assert 21 in found(told(dispatching(changed)).evidence())


def test_21_a_time_out_of_what_is_withheld_is_found(told, found):
    late = r.Failure("timed_out", "schedule_to_close", "late", "")

    def timed_out(body):
        return [body, r.ActivityFailed("1.3", 2, late, "")]

    assert 21 in found(told(withholding(timed_out)).evidence())


def test_23_a_proposal_about_an_activity_that_runs_is_found(told, found):
    assert 23 in found(told(withholding(lambda b: [replace(b, withheld_ms=None)])).evidence())


def test_24_a_proposal_about_what_is_no_longer_so_is_found(told, found):
    news = r.ArtifactChanged("order", "v2")
    assert 24 in found(told(withholding(lambda b: [news, b])).evidence())


def test_26_what_is_withheld_without_a_question_is_found(told, found):
    def silent(body):
        return [] if body.activity_id is not None else [body]

    assert 26 in found(told(on(r.ApprovalRequested, silent)).evidence())


def test_26_a_dispatch_before_the_approval_is_found(told, found):
    def at_once(body):
        return [r.ActivityRetried("1.3", 2, deadline_ms=1), body]

    asked_again = on(r.SessionWaiting, at_once)
    assert 26 in found(told(asked_again).evidence())


def test_26_another_attempt_on_an_approval_that_is_void_is_found(told, found):
    def gone_on(body):
        return [body, r.ActivityRetried("1.3", 2, deadline_ms=1)]

    assert 26 in found(told(on(r.ApprovalVoided, gone_on)).evidence())


def test_26_what_no_approval_releases_and_people_are_asked_about_is_found(told):
    chronicle = told(withholding(lambda b: [replace(b, withheld_ms=NEVER_MS)]))
    broken = audit(chronicle.evidence(), asked_by(decode_command))
    assert {(one.invariant, one.sentence) for one in broken} >= {
        (26, "activity 1.3 is asked about, and no approval can release it"),
        (26, "activity 1.3 is forbidden whoever approves it, and goes on"),
    }
