"""A session explained: each fact has its words, what belongs together is one line, and a hold has its way out."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

import pytest

from wakeful.deploy.cli.explaining import _show
from wakeful.deploy.cli.showing import Found
from wakeful.deploy.telling.explained import MENDING, explained, folded
from wakeful.deploy.telling.story import ALONE, GOES_ON, OPENS, tell
from wakeful.events import records as r
from wakeful.events.payloads import json_payload
from wakeful.events.state import Status

AT_MS = 1_700_000_000_000
SILENT = {r.TurnStarted, r.SessionWaiting, r.ActivityStarted, r.ActivityProgressed}
"""A turn is a title, waits are told as of now, and a sign of life says nothing that its result does not."""


def payload(value):
    return json_payload(value, b"k" * 16)


def event(seq, body, actor="sue", at_ms=None):
    cause = r.Cause("t.commands.v1", 0, seq, f"c{seq}", None, None)
    at_ms = AT_MS + 1_000 * seq if at_ms is None else at_ms
    return r.Event(
        r.Envelope("acme", "s1", seq, at_ms, actor, None, "cli", cause, None, None, b"\0" * 32),
        body,
    )


def history(*bodies):
    return [event(seq, body) for seq, body in enumerate(bodies, start=1)]


OPENED = (
    r.SessionOpened("desk"),
    r.MessageReceived("m1", payload({"text": "it broke"})),
    r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
)
CALLED = r.ActivityRequested(
    *("1.1", 1, 1, "refund", "q", "write_once", payload({"cents": 9}), b"d" * 32, "acme/s1/1/1", 1),
    *(1_000, AT_MS + 90_000, "none", None),
)
ASKED = r.ApprovalRequested(
    *("1.2-ab", 1, 2, "refund", "write_once", payload(7), b"d" * 32, "supervisor", AT_MS + 99_000),
)
DIED = r.Failure("cut_off", "", "its worker died", "")


def found(row=None, uncertain=()):
    shown = dict.fromkeys(("held_reason", "held_detail", "waiting_for", "next_valid"))
    shown |= {
        "session_id": "s1",
        "tenant": "acme",
        "workflow": "desk",
        "workflow_version": 1,
        "status": "Waiting",
        "turn": 1,
        "updated_at": datetime(2026, 1, 2, tzinfo=UTC),
        "tainted_by": [],
        "holds": [],
    }
    return Found({**shown, **(row or {})}, [], list(uncertain))


def lines(story):
    return [line.text for chapter in story.chapters for line in chapter.lines]


def test_every_fact_is_told_or_says_nothing_by_itself():
    told = {*OPENS, *GOES_ON, *ALONE}
    assert told | SILENT == set(get_args(r.EventBody))
    assert told & SILENT == set()


def test_a_call_with_its_failures_and_its_result_is_one_line():
    retry = r.ActivityRetryScheduled("1.1", 2, AT_MS, DIED, "w1")
    done = r.ActivityCompleted("1.1", 2, payload("paid"), "w1")
    story = tell(history(*OPENED, CALLED, retry, r.ActivityRetried("1.1", 2), done))
    assert lines(story)[-1] == (
        'called refund ({"cents": 9}); attempt 1 failed (cut_off: its worker died); attempt 2 began: paid, after 3.0 s'
    )


def test_a_message_is_told_in_the_turn_that_it_started():
    second = (
        r.MessageReceived("m2", payload({"text": "hello?"})),
        r.TurnCompleted(1, 1, payload(0), (), ()),
        r.TurnStarted(2, "message", "", "m2", "desk", 1, ()),
        r.MessageReceived("m3", payload("and?")),
    )
    story = tell(history(*OPENED, *second))
    assert [(c.turn, [line.text for line in c.lines]) for c in story.chapters] == [
        (0, ["sue opened it for workflow desk"]),
        (1, ["sue said “it broke”", "the turn was done; steps: 1"]),
        (2, ["sue said “hello?”", "sue said “and?”"]),
    ]


def test_an_approval_says_who_decided_and_how_long_that_took():
    story = tell(history(*OPENED, ASKED, r.ApprovalRejected("1.2-ab", b"d" * 32, "too much")))
    assert lines(story)[-1] == (
        "asked supervisor to approve refund (7): sue declined it (too much), after 1.0 s"
    )


def test_a_part_of_a_history_makes_a_part_of_a_story():
    late = history(*OPENED, CALLED, r.ActivityFailed("1.1", 1, DIED, "w1"))[4:]
    assert lines(tell(late)) == ["1.1: it failed (cut_off: its worker died), after 0.0 s"]
    assert folded(late) is None


def test_what_it_waits_for_has_its_time_and_what_ends_it(capsys):
    events = history(*OPENED, ASKED)
    told = explained(found(), tell(events), folded(events))
    (wait,) = told["waits_for"]
    assert (wait["kind"], wait["since_ms"]) == ("approval", AT_MS + 4_000)
    assert wait["how"] == "'wakeful approval approve 1.2-ab --session s1'"
    reasons = {one["command"]: one["reason"] for one in told["not_next"]}
    assert reasons == {
        "ReleaseSession": "the session is not held",
        "ResolveActivity": "no activity is uncertain",
        "ChangeArtifact": "the session relies on no artifact",
        "CompleteJob": "no job is awaited",
        "RecoverSession": "the session is running and waits: there is nothing to recover",
    }
    assert "DecideApproval" in {one["command"] for one in told["next"]}
    _show(told, 5)
    out = capsys.readouterr().out
    assert "s1 (desk v1) waits in turn 1" in out
    assert "approval refund (1.2-ab), since 2023-11-14 22:13:24; expires at" in out
    assert "\nmay not\n  ReleaseSession: the session is not held\n" in out


def test_a_held_session_says_why_what_was_kept_and_the_way_out(capsys):
    kept = r.CommandParked("SendMessage", b"\0" * 8, b"")
    events = history(*OPENED, r.SessionHeld("workflow_raised", "Traceback\nKeyError: 'x'"))
    row = {"status": "Recovering", "held_reason": "workflow_raised", "held_detail": "KeyError: 'x'"}
    told = explained(found(row), tell([*events, event(5, kept)]), None)
    assert told["held"]["release"] == "wakeful session release s1"
    assert told["held"]["mend"] == MENDING["workflow_raised"]
    assert lines(tell(events))[-1] == "held: workflow_raised (KeyError: 'x')"
    _show(told, 5)
    out = capsys.readouterr().out
    assert "is held in turn 1" in out
    assert "the way out: mend what raised in the workflow, and deploy it, then 'wakeful" in out
    assert "or take it back to the end of its last turn: 'wakeful repair reset s1'" in out
    assert "or end it for good: 'wakeful session cancel s1'" in out


def test_a_step_that_differs_is_told_as_it_was_and_as_it_is_now():
    differs = r.NondeterminismFound(1, 3, "step 3: reply a1", "step 3: sleep until 5")
    assert lines(tell(history(*OPENED, differs)))[-1] == (
        "held: step 3 was step 3: reply a1, and the code now does step 3: sleep until 5"
    )


@pytest.mark.parametrize("reason", ["compensation_failed", "does_not_fold"])
def test_what_cannot_go_back_to_a_turn_is_not_told_to(reason):
    row = {"status": "Recovering", "held_reason": reason, "held_detail": "why"}
    assert explained(found(row), tell(history(*OPENED)), None)["held"]["or_back"] == ""


def test_a_wrong_signal_and_a_loop_without_a_wait_have_their_own_way_out():
    for reason, told in (
        ("wrong_signal", "let the workflow catch WrongSignal, or take that signal as it is"),
        ("workflow_spins", "let each round of the workflow's loop, or of 'turn.again', await"),
    ):
        row = {"status": "Recovering", "held_reason": reason, "held_detail": "why"}
        held = explained(found(row), tell(history(*OPENED)), None)["held"]
        assert held["mend"].startswith(told)


def test_an_activity_in_doubt_says_where_to_look_and_how_to_say_what_was_found(capsys):
    events = history(*OPENED, CALLED, r.ActivityUncertain("1.1", 1, DIED, "w1"))
    doubt = {
        "session_id": "s1",
        "activity_id": "1.1",
        "action": "refund",
        "contract": "write_once",
        "idempotency_key": "acme/s1/1/1",
        "failure": {"kind": "cut_off", "message": "it died"},
    }
    _show(explained(found(uncertain=[doubt]), tell(events), folded(events)), 5)
    out = capsys.readouterr().out
    assert "nobody knows whether it was done (cut_off: its worker died)" in out
    assert "look where refund leaves its mark for the key acme/s1/1/1, then:" in out
    assert "'wakeful activity resolve s1 1.1 --completed JSON', or --failed" in out


def test_only_the_last_turns_are_shown_and_the_others_counted(capsys):
    turn = (r.TurnCompleted(1, 1, payload(0), (), ()), r.MessageReceived("m2", payload("again")))
    started = replace(OPENED[2], turn=2, message_id="m2")
    _show(explained(found(), tell(history(*OPENED, *turn, started)), None), 1)
    out = capsys.readouterr().out
    assert "(2 earlier turns: --turns 3 tells them)" in out
    assert "turn 1" not in out.partition("\n")[2]
    assert "turn 2\n" in out


def test_what_users_wrote_cannot_steer_a_terminal(capsys):
    events = history(OPENED[0], r.MessageReceived("m1", payload("\x1b[2J")), OPENED[2])
    _show(explained(found(), tell(events), folded(events)), 5)
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("status", [str(v) for n, v in vars(Status).items() if n.isupper()])
def test_every_status_is_told_in_words(status):
    told = explained(found({"status": status}), tell([]), None)
    assert told["stands"] != status
    assert told["story"] == []


WHY = "refund may not be carried out: forbidden by frozen"
APPROVED = (
    replace(CALLED, activity_id="1.3", step=3, approval="granted", proposal_id="1.2-ab"),
    r.ActivityRetryScheduled("1.3", 2, AT_MS + 30_000, DIED, "w1"),
    replace(r.ActivityRetried("1.3", 2), withheld_ms=5_000, policy_ids=("frozen",)),
    r.ApprovalVoided("1.2-ab", "authority", (WHY,)),
    replace(ASKED, proposal_id="1.3.2-cd", supersedes="1.2-ab", activity_id="1.3", because=(WHY,)),
)


def test_an_attempt_that_was_not_dispatched_says_why_and_that_it_was_asked_again():
    granted = r.ApprovalGranted("1.2-ab", b"d" * 32, "")
    again = r.ApprovalGranted("1.3.2-cd", b"d" * 32, "")
    told = lines(
        tell(history(*OPENED, ASKED, granted, *APPROVED, again, r.ActivityRetried("1.3", 2)))
    )
    assert told[-3].endswith(
        f": sue approved it, after 1.0 s: void from 2023-11-14 22:13:29 on, since {WHY}"
    )
    assert told[-2].endswith(
        f"; attempt 2 was withheld by frozen, until it is approved: {WHY}; asked again; attempt 2 began"
    )
    assert told[-1].startswith("asked supervisor to approve refund (7), since refund may not")


def test_what_policy_asks_for_by_itself_and_what_is_given_back_is_told():
    """As where untrusted content led to it."""
    first = replace(CALLED, withheld_ms=5_000)
    asked = replace(ASKED, activity_id="1.1", because=(WHY,))
    (*_, called, _) = lines(tell(history(*OPENED, first, asked)))
    assert called.endswith(f"attempt 1 was withheld, until it is approved: {WHY}; asked")
    back = r.ActivityReturned("1.1", 1, "authority_stale", "w1", withheld_ms=5_000)
    (*_, called, _) = lines(tell(history(*OPENED, CALLED, back, asked)))
    assert "attempt 1 was given back unrun (authority_stale); attempt 2 was withheld" in called


def test_a_withheld_activity_waits_for_an_approval_and_says_why(capsys):
    granted = r.ApprovalGranted("1.2-ab", b"d" * 32, "")
    events = history(*OPENED, ASKED, granted, *APPROVED)
    what = found({"tainted_by": ["read_page"]})
    what.approvals.append({"proposal_id": "1.3.2-cd", "activity_id": "1.3", "because": [WHY]})
    told = explained(what, tell(events), folded(events))
    _show(told, 5)
    out = capsys.readouterr().out
    assert "activity refund (1.3)" in out
    assert "; waits for approval" in out
    assert f"policy asks, since {WHY}" in out
    assert f"withheld, since {WHY}" in out
    assert "'wakeful approval approve 1.3.2-cd --session s1'" in out
    assert "untrusted" not in out
    _show({**told, "tainted_by": ["read_page"]}, 5)
    assert "untrusted content has come in, by read_page" in capsys.readouterr().out


def test_what_is_taken_back_is_told_with_what_waits_its_turn():
    undo = r.Compensation("unrefund", "q", "write_idempotent", payload(9), b"e" * 32, 1_000, 9_000)
    done = [
        replace(CALLED, activity_id=f"1.{step}", step=step, compensation=undo) for step in (1, 2)
    ]
    back = replace(CALLED, activity_id="1.3", step=3, name="unrefund", compensates="1.2")
    events = history(
        *OPENED,
        *done,
        *(r.ActivityCompleted(one.activity_id, 1, payload("paid"), "w1") for one in done),
        r.CancellationRequested("closed"),
        r.CompensationStarted(1, "cancelled", None, ("1.2", "1.1"), (), (), ()),
        back,
    )
    told = explained(found({"status": Status.COMPENSATING}), tell(events), folded(events))
    assert told["stands"].startswith("is ending in turn 1, and takes back what it did")
    assert [(one["kind"], one["id"]) for one in told["waits_for"]] == [
        ("activity", "1.3"),
        ("compensation", "1.1"),
    ]
    lines = [line["text"] for chapter in told["story"] for line in chapter["lines"]]
    assert "it was stopped, and takes back, in this order: 1.2, 1.1" in lines
    assert any(line.startswith("to take back 1.2, called unrefund") for line in lines)
    assert "CancelSession" in {one["command"] for one in told["not_next"]}


def test_a_resource_is_told_as_held_and_not_as_a_wait(capsys):
    held = r.ResourceAttached("1.1", 1, 2, "sandbox", payload("a door"), AT_MS + 90_000)
    done = r.ActivityCompleted("1.1", 1, payload("a door"), "w1")
    events = history(*OPENED, CALLED, done, held, r.TimerSet("1.3", 1, 3, AT_MS + 95_000))
    told = explained(found(), tell(events), folded(events))
    assert told["holds"] == [{"kind": "sandbox", "id": "1.1", "expires_at_ms": AT_MS + 90_000}]
    assert [one["kind"] for one in told["waits_for"]] == ["timer"]
    assert "holds sandbox (1.1), until 2023-11-14 22:14:50" in lines(tell(events))
    _show(told, 5)
    shown = capsys.readouterr().out
    assert "holds sandbox (1.1), until 2023-11-14 22:14:50 at most" in shown
    assert "a door" not in shown.partition("waits for")[2]


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (r.ResourceExpired("1.1", "sandbox", "expired"), "no more: its time was over"),
        (
            r.ResourceExpired("1.1", "sandbox", "lost", DIED),
            "no more: a tool found it gone (its worker died)",
        ),
        (r.ResourceExpired("1.1", "sandbox", "the session ended"), "no more: the session ended"),
    ],
)
def test_the_end_of_a_resource_says_why(end, told):
    held = r.ResourceAttached("1.1", 1, 2, "sandbox", payload("a door"), AT_MS + 90_000)
    assert lines(tell(history(*OPENED, held, end)))[-1] == f"holds sandbox (1.1) {told}"
