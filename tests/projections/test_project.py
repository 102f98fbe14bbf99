"""Events become rows: pure, repeatable, and in agreement with the fold."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from wakeful.events import records as r
from wakeful.events.evolve import evolve
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.project import project
from wakeful.projections.rows import APPROVALS, ESCAPED, LEDGER, OUTCOMES, SESSIONS, TABLES, TIMERS
from wakeful.projections.values import Unprojectable

S = ("acme", "s1")
SCHEMA = Path(__file__).parents[2] / "projections" / "schema.sql"


def opened(scribe, *, turn=1):
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.MessageReceived("m1", scribe.payload("hi")))
    scribe.add(S, r.TurnStarted(turn, "message", "", "m1", "desk", 2, (r.Version("model", "m-2"),)))


def proposed(scribe, proposal="1.1-ab"):
    scribe.add(
        S,
        r.ApprovalRequested(
            proposal,
            1,
            1,
            "refund",
            "write",
            scribe.payload({"cents": 5}),
            b"\1" * 32,
            "supervisor",
            99,
        ),
    )


def rows_of(scribe):
    return rebuild_rows(scribe.events)


def test_every_kind_of_event_is_projected_onto_its_session(new_scribe):
    seen = set()
    for seed in range(40):
        scribe = new_scribe()
        scribe.tell_many(5, random.Random(seed))
        for event in scribe.events:
            seen.add(type(event.body))
            first, second, *_ = project(event)
            assert (first.table, second.table) == (SESSIONS, OUTCOMES)
            assert first.values["seq"] == second.values["seq"] == event.envelope.seq
    rest = set(get_args(r.EventBody)) - seen
    assert {kind.__name__ for kind in rest} == {
        "SessionCompleted",
        "SessionFailed",
        "NondeterminismFound",
        "ActivityCancelled",
        "RecoveryRequested",
        "ActivityRetried",
        "ActivityRetryScheduled",
        "ApprovalWithdrawn",
        "TimerCancelled",
        "ActivityStarted",
        "ActivityProgressed",
        "ActivityReturned",
        "ActivityUncertain",
        "ActivityResolved",
        "TurnContinued",
        "ArtifactRecorded",
        "ArtifactChanged",
        "AttributesSet",
        "JobAwaited",
        "JobCompleted",
        "JobFailed",
        "JobExpired",
        "JobWithdrawn",
        "ChildStarted",
        "ChildCompleted",
        "ChildFailed",
        "ChildCancelled",
        "ChildExpired",
        "ChildWithdrawn",
        "LateChildRecorded",
        "ResourceAttached",
        "ResourceReattached",
        "ResourceExpired",
        "ResourceReleased",
        "RunStarted",
        "ApprovalVoted",
        "ApprovalVoided",
        "ApprovalAnswered",
        "TriggerReceived",
        "SessionReset",
        "SessionPinned",
        "SignalAwaited",
        "SignalDelivered",
        "InboxAwaited",
        "InboxTaken",
        "WaitWithdrawn",
        "CompensationStarted",
        "CompensationsReleased",
    }  # each of these has a test below, or in test_ledger.py


def test_the_status_of_a_row_is_the_status_of_the_fold_at_every_event(new_scribe):
    for seed in range(30):
        scribe = new_scribe()
        for _ in scribe.tell(S, random.Random(seed)):
            pass
        state = None
        for number, event in enumerate(scribe.events, start=1):
            state = evolve(state, event)
            row = rebuild_rows(scribe.events[:number])[SESSIONS][S]
            assert (row["status"], row["turn"]) == (state.status, state.turn)


def test_a_repeated_event_changes_no_row(scribe):
    scribe.tell_many(8, random.Random(3))
    twice = [event for event in scribe.events for _ in range(2)]
    assert rebuild_rows(twice) == rows_of(scribe)
    assert rebuild_rows(scribe.events + scribe.events) == rows_of(scribe)


def test_a_waiting_session_shows_what_it_waits_for_and_a_running_one_nothing(scribe):
    opened(scribe)
    proposed(scribe)
    owed = (r.Obligation("approval", "1.1-ab", "refund", 99, "expires"),)
    scribe.add(S, r.SessionWaiting(1, owed, (r.NextValid("SendMessage", False, "it waits"),)))
    row = rows_of(scribe)[SESSIONS][S]
    assert row["status"] == "Waiting"
    assert json.loads(row["waiting_for"])[0]["id"] == "1.1-ab"
    assert json.loads(row["next_valid"])[0]["reason"] == "it waits"
    scribe.add(
        S, r.ApprovalGranted("1.1-ab", b"\1" * 32, "fine"), actor="boss", on_behalf_of="bank"
    )
    rows = rows_of(scribe)
    assert (rows[SESSIONS][S]["status"], rows[SESSIONS][S]["waiting_for"]) == ("Running", "[]")
    approval = rows[APPROVALS][(*S, "1.1-ab")]
    assert (
        approval["status"],
        approval["decided_by"],
        approval["decided_on_behalf_of"],
        approval["comment"],
    ) == (
        "granted",
        "boss",
        "bank",
        "fine",
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (r.ApprovalRejected("1.1-ab", b"\1" * 32, "no"), "rejected"),
        (r.ApprovalExpired("1.1-ab"), "expired"),
        (r.ApprovalWithdrawn("1.1-ab", "the turn ended"), "withdrawn"),
    ],
)
def test_an_approval_that_was_not_granted_says_how_it_ended(scribe, body, status):
    opened(scribe)
    proposed(scribe)
    event = scribe.add(S, body, actor="boss")
    row = rows_of(scribe)[APPROVALS][(*S, "1.1-ab")]
    assert (row["status"], row["decided_at_ms"]) == (status, event.envelope.at_ms)
    assert row["decided_by"] == ("boss" if status == "rejected" else None)


def test_a_ledger_row_tells_intent_outcome_and_late_results(scribe):
    opened(scribe)
    scribe.request(S, "1.1")
    scribe.add(S, r.ActivityFailed("1.1", 1, r.Failure("raised", "IOError", "no", ""), "w1"))
    for _ in range(2):
        scribe.add(S, r.LateResultRecorded("1.1", 1, "completed", scribe.payload(1), None, "w2"))
    row = rows_of(scribe)[LEDGER][(*S, "1.1")]
    assert (row["status"], row["attempts"], row["late_results"], row["worker"]) == (
        "failed",
        1,
        2,
        "w1",
    )
    assert (row["asked_by"], row["idempotency_key"]) == ("ann", "acme/s1/1/1")
    assert json.loads(row["failure"])["type"] == "IOError"


def test_a_ledger_row_counts_attempts_and_forgets_the_failure_that_a_retry_made_good(scribe):
    opened(scribe)
    scribe.request(S, "1.1")
    failure = r.Failure("raised", "IOError", "no\0", "", retry_after_ms=500)
    scribe.add(S, r.ActivityRetryScheduled("1.1", 2, 50, failure, "w1"))
    row = rows_of(scribe)[LEDGER][(*S, "1.1")]
    assert (row["status"], row["attempts"], row["worker"]) == ("retrying", 1, "w1")
    assert json.loads(row["failure"])["retry_after_ms"] == 500
    assert row["retry_due_ms"] == 50
    assert row["escaped"] == "failure"
    scribe.add(S, r.ActivityRetried("1.1", 2))
    row = rows_of(scribe)[LEDGER][(*S, "1.1")]
    assert (row["status"], row["attempts"], row["retry_due_ms"]) == ("requested", 2, None)
    scribe.add(S, r.ActivityCompleted("1.1", 2, scribe.payload(1), "w2"))
    row = rows_of(scribe)[LEDGER][(*S, "1.1")]
    assert (row["status"], row["attempts"], row["worker"]) == ("completed", 2, "w2")
    assert (row["failure"], row["escaped"]) == (None, "")


def test_a_cancelled_activity_says_why(scribe):
    opened(scribe)
    scribe.request(S, "1.1")
    scribe.add(S, r.ActivityCancelled("1.1", 1, "the session is cancelled"))
    row = rows_of(scribe)[LEDGER][(*S, "1.1")]
    assert (row["status"], row["cancel_reason"]) == ("cancelled", "the session is cancelled")


def test_a_session_that_takes_back_stands_so_until_it_ends(scribe):
    opened(scribe)
    scribe.request(S, "1.1")
    scribe.add(S, r.ActivityCompleted("1.1", 1, scribe.payload(1), "w1"))
    scribe.add(S, r.CompensationsReleased(1, 2))
    scribe.add(S, r.CompensationStarted(1, "cancelled", None, ("1.1",), (), (), ()))
    undo = replace(scribe.request(S, "1.3").body, compensates="1.1")
    scribe.events.pop()
    scribe.add(S, undo)
    scribe.add(S, r.ActivityFailed("1.3", 1, r.Failure("raised", "IOError", "no", ""), "w1"))
    scribe.add(S, r.SessionHeld("compensation_failed", "it did not"))
    assert rows_of(scribe)[SESSIONS][S]["status"] == "Recovering"
    scribe.add(S, r.SessionReleased("again"))
    scribe.add(S, replace(undo, attempt=2))
    rows = rows_of(scribe)
    assert rows[SESSIONS][S]["status"] == "Compensating"
    effect, back = rows[LEDGER][(*S, "1.1")], rows[LEDGER][(*S, "1.3")]
    assert (effect["compensates"], effect["compensated_by"]) == (None, "1.3")
    assert (back["compensates"], back["status"], back["attempts"]) == ("1.1", "requested", 2)
    assert back["settled_at_ms"] is None
    scribe.add(S, r.ActivityCompleted("1.3", 2, scribe.payload(1), "w1"))
    assert rows_of(scribe)[SESSIONS][S]["status"] == "Compensating"


def test_timers_move_a_session_only_when_they_fire(scribe):
    opened(scribe)
    scribe.add(S, r.TimerSet("1.1", 1, 1, 50))
    scribe.add(S, r.SessionWaiting(1, (r.Obligation("timer", "1.1", "", 50, "fires"),), ()))
    scribe.add(S, r.TimerCancelled("1.1", "not wanted"))
    rows = rows_of(scribe)
    assert rows[SESSIONS][S]["status"] == "Waiting"
    row = rows[TIMERS][(*S, "1.1")]
    assert (row["status"], row["due_ms"], row["ended_at_ms"]) == ("cancelled", 50, scribe.now_ms)
    scribe.add(S, r.TimerFired("1.1", 50))
    rows = rows_of(scribe)
    assert rows[SESSIONS][S]["status"] == "Running"
    assert rows[TIMERS][(*S, "1.1")]["status"] == "fired"


@pytest.mark.parametrize(
    ("body", "status", "column"),
    [
        (r.SessionFailed(1, r.Failure("raised", "E", "m", "d"), 0), "Failed", "failure"),
        (r.CancellationRequested("enough"), "Running", "cancel_reason"),
        (r.SessionCancelled((), (), ()), "Cancelled", None),
    ],
)
def test_an_end_is_seen_and_nothing_is_awaited_any_more(scribe, body, status, column):
    opened(scribe)
    scribe.add(S, body)
    row = rows_of(scribe)[SESSIONS][S]
    assert (row["status"], row["waiting_for"]) == (status, "[]")
    assert column is None or row[column] is not None


def test_the_outcome_of_a_completed_session_is_shown(scribe):
    opened(scribe)
    scribe.add(S, completed(scribe))
    row = rows_of(scribe)[SESSIONS][S]
    assert (row["status"], json.loads(row["outcome"])) == ("Completed", {"done": True})


def completed(scribe):
    """`SessionCompleted`, whatever else it holds."""
    from dataclasses import fields

    values = {
        "turn": 1,
        "steps": 1,
        "outcome": scribe.payload({"done": True}),
        "state": scribe.payload(1),
        "verified_by": None,
        "messages_unread": 0,
    }
    return r.SessionCompleted(**{f.name: values[f.name] for f in fields(r.SessionCompleted)})


def test_a_held_session_says_why_and_goes_on_from_where_it_was(scribe):
    opened(scribe)
    scribe.add(S, r.NondeterminismFound(1, 2, "run a", "run b"))
    row = rows_of(scribe)[SESSIONS][S]
    assert (row["status"], row["held_reason"]) == ("Recovering", "nondeterminism")
    assert "run b" in row["held_detail"]
    scribe.add(S, r.CommandParked("SendMessage", b"\1" * 8, b"\0"))
    scribe.add(S, r.SessionReleased("fixed"))
    row = rows_of(scribe)[SESSIONS][S]
    assert (row["status"], row["held_reason"], row["seq"]) == ("Running", None, 6)


def test_a_session_that_is_reset_rests_and_is_held_no_more(scribe):
    opened(scribe)
    scribe.add(S, r.SessionHeld("workflow_raised", "a bug"))
    scribe.add(S, r.SessionReset(1, 0, None, 0, None, (), (), "mended"))
    row = rows_of(scribe)[SESSIONS][S]
    assert (row["status"], row["held_reason"], row["waits"]) == ("Suspended", None, 0)
    scribe.add(S, r.SessionPinned(1, "as it was"))
    assert rows_of(scribe)[SESSIONS][S]["seq"] == row["seq"] + 1


@pytest.mark.case("L26")
def test_hostile_text_is_escaped_and_its_column_named_until_it_is_replaced(scribe):
    opened(scribe)
    scribe.add(S, r.ReplySent(1, 1, scribe.raw_payload(b'{"t": "\\u0000 \\ud800", "n": NaN}')))
    row = rows_of(scribe)[SESSIONS][S]
    assert row[ESCAPED] == "last_reply"
    assert json.loads(row["last_reply"]) == {"t": "\\u0000 \\ud800", "n": "NaN"}
    scribe.add(S, r.CancellationRequested("a\0b"))
    assert rows_of(scribe)[SESSIONS][S][ESCAPED] == "cancel_reason last_reply"
    scribe.add(S, r.ReplySent(1, 2, scribe.payload("fine")))
    assert rows_of(scribe)[SESSIONS][S][ESCAPED] == "cancel_reason"


def test_a_key_that_postgres_cannot_hold_is_refused_and_not_changed_into_another(scribe):
    opened(scribe)
    scribe.add(S, r.ApprovalExpired("p\0"))
    with pytest.raises(Unprojectable, match="holds text"):
        project(scribe.events[-1])


def test_rows_and_schema_have_the_same_columns_in_the_same_order():
    text = SCHEMA.read_text()
    for name, table in TABLES.items():
        body = text.split(f"CREATE TABLE IF NOT EXISTS {{tables}}.{name} (")[1].split(
            "PRIMARY KEY"
        )[0]
        declared = [line.replace(",", "").split()[:2] for line in body.splitlines() if line.strip()]
        assert [(c, kind) for c, kind in declared] == list(table.all_columns.items())


def test_differences_compare_json_by_value_and_name_the_column(scribe):
    opened(scribe)
    live, rebuilt = rows_of(scribe), rows_of(scribe)
    live[SESSIONS][S]["versions"] = '{ "model" : "m-2" }'
    assert list(differences(live, rebuilt)) == []
    live[SESSIONS][S]["turn"] = 7
    assert [told for *_, told in differences(live, rebuilt)] == [
        "sessions.turn is 7, a rebuild gives 1"
    ]
    del live[SESSIONS][S]
    assert "only in a rebuild" in next(differences(live, rebuilt))[2]
