"""The ledger tells how far a step is, who was in doubt about it, and who ended the doubt; sessions tell what started them."""

import json
from dataclasses import replace

import pytest

from wakeful.events import records as r
from wakeful.projections.audit import rebuild_rows
from wakeful.projections.ledger import PROGRESS_MAX
from wakeful.projections.rows import APPROVALS, ESCAPED, LEDGER, SESSIONS

S = ("acme", "s1")
GONE = r.Failure("cut_off", "", "the worker died in the middle", "")


@pytest.fixture
def open_activity(scribe):
    """A turn with one activity in flight."""
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.MessageReceived("m1", scribe.payload("hi")))
    scribe.add(S, r.TurnStarted(1, "message", "", "m1", "desk", 1, ()))
    scribe.request(S, "1.1")
    return scribe


def row_of(scribe):
    return rebuild_rows(scribe.events)[LEDGER][(*S, "1.1")]


def session_of(scribe):
    return rebuild_rows(scribe.events)[SESSIONS][S]


def in_doubt(scribe):
    event = scribe.add(S, r.ActivityUncertain("1.1", 1, GONE, "w1"))
    owed = (r.Obligation("uncertain", "1.1", "refund", None, "waits to be resolved"),)
    scribe.add(S, r.SessionWaiting(1, owed, ()))
    return event


def test_an_uncertain_step_says_since_when_and_why(open_activity):
    event = in_doubt(open_activity)
    row = row_of(open_activity)
    assert (row["status"], row["since_ms"], row["worker"]) == (
        "uncertain",
        event.envelope.at_ms,
        "w1",
    )
    assert json.loads(row["failure"])["message"] == GONE.message
    assert (row["settled_at_ms"], row["resolved_by"], row["on_uncertain"]) == (None, None, "wait")
    session = session_of(open_activity)
    assert session["status"] == "Waiting"
    assert json.loads(session["waiting_for"])[0]["kind"] == "uncertain"


def test_a_resolution_names_who_said_so_and_what_they_wrote(open_activity):
    in_doubt(open_activity)
    result = open_activity.payload({"receipt": 1})
    body = r.ActivityResolved("1.1", 1, "completed", result, "seen at the bank\0")
    event = open_activity.add(S, body, actor="sue")
    row = row_of(open_activity)
    assert (row["status"], row["resolved_by"], row["failure"]) == ("completed", "sue", None)
    assert (row["comment"], row[ESCAPED]) == ("seen at the bank\\u0000", "comment")
    assert row["settled_at_ms"] == row["since_ms"] == event.envelope.at_ms
    assert row["result_digest"] == result.digest.hex()
    assert session_of(open_activity)["status"] == "Running"


def test_a_step_resolved_as_failed_keeps_why_it_was_in_doubt(open_activity):
    in_doubt(open_activity)
    open_activity.add(S, r.ActivityResolved("1.1", 1, "failed", None, ""), actor="sue")
    row = row_of(open_activity)
    assert (row["status"], row["resolved_by"]) == ("failed", "sue")
    assert json.loads(row["failure"])["kind"] == "cut_off"


def test_a_late_result_of_its_own_ends_a_doubt_without_anybodys_name(open_activity):
    in_doubt(open_activity)
    open_activity.add(
        S, r.ActivityCompleted("1.1", 1, open_activity.payload(1), "w1", recovered=True)
    )
    row = row_of(open_activity)
    assert (row["status"], row["resolved_by"], row["recovered"]) == ("completed", None, True)
    assert session_of(open_activity)["status"] == "Running"


def test_heartbeats_tell_when_it_began_and_how_far_it_is(open_activity):
    started = open_activity.add(S, r.ActivityStarted("1.1", 1, "w1"))
    told = open_activity.payload({"pages": [1, 2]})
    moved = open_activity.add(S, r.ActivityProgressed("1.1", 1, told, "w1"))
    row = row_of(open_activity)
    assert (row["started_at_ms"], row["worker"]) == (started.envelope.at_ms, "w1")
    assert (row["progress"], row["progress_at_ms"]) == ('{"pages": [1, 2]}', moved.envelope.at_ms)
    assert (row["status"], row["recovered"]) == ("requested", False)


@pytest.mark.parametrize(
    ("stored", "shown", "escaped"),
    [
        (b'"page 7"', "page 7", ""),
        (b'"a\\u0000b"', "a\\u0000b", "progress"),
        (b"{not json", "{not json", ""),
        (b'"' + b"x" * 900 + b'"', "x" * (PROGRESS_MAX - 1) + "…", ""),
    ],
    ids=["text", "nul", "garbage", "long"],
)
def test_progress_is_short_and_harmless(open_activity, stored, shown, escaped):
    body = r.ActivityProgressed("1.1", 1, open_activity.raw_payload(stored), "w1")
    open_activity.add(S, body)
    row = row_of(open_activity)
    assert (row["progress"], row[ESCAPED]) == (shown, escaped)


def test_progress_that_lies_elsewhere_says_how_much(open_activity):
    lent = r.Payload("json", None, "blob:x", b"\7" * 32, 9_000, None)
    open_activity.add(S, r.ActivityProgressed("1.1", 1, lent, "w1"))
    assert row_of(open_activity)["progress"] == "9000 bytes of json"


def test_another_attempt_begins_anew_and_keeps_the_progress(open_activity):
    open_activity.add(S, r.ActivityStarted("1.1", 1, "w1"))
    open_activity.add(S, r.ActivityProgressed("1.1", 1, open_activity.payload("half"), "w1"))
    open_activity.add(S, r.ActivityRetryScheduled("1.1", 2, 50, GONE, ""))
    open_activity.add(S, r.ActivityRetried("1.1", 2))
    row = row_of(open_activity)
    assert (row["status"], row["attempts"]) == ("requested", 2)
    assert (row["started_at_ms"], row["progress"]) == (None, "half")
    open_activity.add(S, r.ActivityReturned("1.1", 2, "draining", "w2"))
    assert (row_of(open_activity)["attempts"], row_of(open_activity)["status"]) == (3, "requested")


def test_a_session_tells_what_started_its_turn(open_activity):
    assert (session_of(open_activity)["trigger"], session_of(open_activity)["trigger_reason"]) == (
        "message",
        None,
    )
    state = open_activity.payload(0)
    open_activity.add(S, r.ActivityCancelled("1.1", 1, "the turn ended"))
    open_activity.add(S, r.TurnCompleted(1, 1, state, (), ()))
    open_activity.add(S, r.TriggerReceived("t1", "schedule", "monday", state))
    open_activity.add(S, r.TurnStarted(2, "schedule", "monday", "t1", "desk", 1, ()))
    session = session_of(open_activity)
    assert (session["trigger"], session["trigger_reason"], session["messages"]) == (
        "schedule",
        "monday",
        1,
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (r.SignalReceived("x", "paid", r.Payload("json", b"1", None, b"", 1, None)), "Waiting"),
        (r.WaitWithdrawn("1.2", "the turn ended"), "Waiting"),
        (
            r.SignalDelivered("1.2", "x", r.Payload("json", b"1", None, b"", 1, None)),
            "Running",
        ),
        (r.InboxTaken("1.2", ()), "Running"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_a_session_that_waits_for_a_signal_runs_once_it_is_delivered(open_activity, body, status):
    scribe = open_activity
    scribe.add(S, r.SignalAwaited("1.2", 1, 2, "paid"))
    owed = (r.Obligation("signal", "1.2", "paid", None, "waits"),)
    scribe.add(S, r.SessionWaiting(1, owed, ()))
    assert json.loads(session_of(scribe)["waiting_for"])[0]["name"] == "paid"
    scribe.add(S, body)
    assert session_of(scribe)["status"] == status


def test_stretches_versions_and_artifacts_move_a_session_and_nothing_else(open_activity):
    before = session_of(open_activity)
    state = open_activity.payload(0)
    for body in (
        r.TurnContinued(1, 2, 1, state),
        r.VersionMarked(1, 2, "new-prompt"),
        r.ArtifactRecorded(1, 3, "prices", "7"),
        r.InboxAwaited("1.4", 1, 4, True),
    ):
        open_activity.add(S, body)
    after = session_of(open_activity)
    changed = {column for column in after if after[column] != before[column]}
    assert changed == {"seq", "updated_at_ms", "command_offset"}


WHY = "refund may not be carried out: forbidden by frozen"


def proposal(scribe, proposal_id, **more):
    asked = r.ApprovalRequested(
        *(proposal_id, 1, 1, "refund", "write_idempotent", scribe.payload({"cents": 9}), b"d" * 32),
        *("reviewer", 9_000),
    )
    return replace(asked, **more)


def test_an_attempt_that_is_withheld_is_so_in_the_ledger_until_it_is_let_go(open_activity):
    before = row_of(open_activity)
    open_activity.add(S, r.ActivityReturned("1.1", 1, "authority_stale", "w1", withheld_ms=700))
    open_activity.add(S, proposal(open_activity, "p2", activity_id="1.1", because=(WHY,)))
    row = row_of(open_activity)
    assert (row["status"], row["attempts"], row["deadline_ms"]) == ("withheld", 2, None)
    assert (row["approval"], row["proposal_id"]) == ("by_policy", "p2")
    open_activity.add(S, r.ApprovalGranted("p2", b"d" * 32, ""), actor="rob")
    open_activity.add(S, r.ActivityRetried("1.1", 2, deadline_ms=12_345))
    row = row_of(open_activity)
    assert (row["status"], row["attempts"], row["deadline_ms"]) == ("requested", 2, 12_345)
    assert before["deadline_ms"] is not None


def test_an_attempt_withheld_at_its_request_or_its_retry_is_no_other(open_activity):
    open_activity.request(S, "1.2", withheld_ms=700, untrusted=True)
    row = rebuild_rows(open_activity.events)[LEDGER][(*S, "1.2")]
    assert (row["status"], row["attempts"], row["untrusted"]) == ("withheld", 1, True)
    open_activity.add(S, r.ActivityRetryScheduled("1.1", 2, 50, GONE, ""))
    open_activity.add(S, r.ActivityRetried("1.1", 2, withheld_ms=700))
    assert (row_of(open_activity)["status"], row_of(open_activity)["attempts"]) == ("withheld", 2)


def test_an_approval_says_what_it_is_for_why_and_under_which_policies(open_activity):
    asked = proposal(open_activity, "p2", activity_id="1.1", because=("a\0b",), policies=b"\7" * 32)
    open_activity.add(S, asked)
    row = rebuild_rows(open_activity.events)[APPROVALS][(*S, "p2")]
    assert (row["activity_id"], row["policies"]) == ("1.1", "07" * 32)
    assert (json.loads(row["because"]), row[ESCAPED]) == (["a\\u0000b"], "because")
    open_activity.add(S, proposal(open_activity, "p3"))
    plain = rebuild_rows(open_activity.events)[APPROVALS][(*S, "p3")]
    assert (plain["activity_id"], plain["policies"], plain["because"]) == (None, None, "[]")
