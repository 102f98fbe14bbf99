"""A session's events as turns and what is in them: nothing is left out, and what belongs together stands together."""

import pytest

from wakeful.deploy.gateway.console.timeline import ENDS, STANDS, timeline
from wakeful.deploy.telling.story import ALONE, GOES_ON, OPENS
from wakeful.events import records as r
from wakeful.events.payloads import json_payload

AT_MS = 1_700_000_000_000
DIED = r.Failure("cut_off", "", "its worker died", "")


def payload(value):
    return json_payload(value, b"k" * 16)


def history(*bodies):
    events = []
    for seq, body in enumerate(bodies, start=1):
        cause = r.Cause("t.commands.v1", 0, seq, f"c{seq}", None, None)
        events.append(
            r.Event(
                r.Envelope(
                    *(
                        "acme",
                        "s1",
                        seq,
                        AT_MS + 1_000 * seq,
                        "sue",
                        None,
                        "cli",
                        cause,
                        None,
                        None,
                    ),
                    b"\0" * 32,
                ),
                body,
            )
        )
    return events


OPENED = (
    r.SessionOpened("desk"),
    r.MessageReceived("m1", payload({"text": "it broke"})),
    r.TurnStarted(1, "message", "", "m1", "desk", 1, (r.Version("model", "small-2"),)),
)
CALLED = r.ActivityRequested(
    *("1.1", 1, 1, "refund", "q", "write_once", payload({"cents": 9}), b"d" * 32, "acme/s1/1/1", 1),
    *(1_000, AT_MS + 90_000, "none", None),
)


def test_what_started_a_turn_stands_in_it():
    before, turn = timeline(history(*OPENED))
    assert [item.kind for item in before.items] == ["fact"]
    assert [(item.kind, item.who) for item in turn.items] == [("message", "sue")]
    assert [v.version for v in turn.versions] == ["small-2"]


def test_a_call_with_its_attempts_and_its_result_is_one_item():
    shown = timeline(
        history(
            *OPENED,
            CALLED,
            r.ActivityStarted("1.1", 1, "w1"),
            r.ActivityRetryScheduled("1.1", 2, AT_MS, DIED, "w1"),
            r.ActivityRetried("1.1", 2),
            r.ActivityCompleted(
                "1.1", 2, payload({"usage": {"input_tokens": 7, "output_tokens": 3}}), "w2"
            ),
        )
    )
    step = shown[-1].items[-1]
    assert (step.title, step.status, step.attempts, step.took_ms) == (
        "refund",
        "completed",
        2,
        4_000,
    )
    assert (step.value, step.failure, step.tokens) == ({"cents": 9}, None, (7, 3))
    assert [moment.words for moment in step.moments] == [
        'called refund ({"cents": 9})',
        "w1 runs it",
        "attempt 1 failed (cut_off: its worker died)",
        "attempt 2 began",
        '{"usage": {"input_tokens": 7, "output_tokens": 3}}',
    ]
    assert (shown[-1].steps, shown[-1].attempts, shown[-1].tokens) == (1, 2, (7, 3))


def test_a_call_in_doubt_has_not_ended_until_somebody_says_so():
    doubt = r.ActivityUncertain("1.1", 1, DIED, "w1")
    item = timeline(history(*OPENED, CALLED, doubt))[-1].items[-1]
    assert (item.status, item.ended_ms, item.failure) == ("uncertain", None, DIED)
    said = r.ActivityResolved("1.1", 1, "failed", None, "I looked")
    item = timeline(history(*OPENED, CALLED, doubt, said))[-1].items[-1]
    assert (item.status, item.ended_ms) == ("failed", AT_MS + 6_000)


def test_a_withheld_attempt_says_so():
    withheld = r.ActivityReturned("1.1", 1, "authority_stale", "w1", withheld_ms=500)
    item = timeline(history(*OPENED, CALLED, withheld))[-1].items[-1]
    assert item.status == "withheld"


def test_what_began_before_the_part_that_is_told_is_told_all_the_same():
    (turn,) = timeline(history(r.ActivityCompleted("1.1", 1, payload("paid"), "w1")))
    assert [(item.kind, item.title, item.result) for item in turn.items] == [
        ("step", "1.1", "paid")
    ]


def test_of_a_turn_with_thousands_of_things_a_page_has_the_last_ones():
    replies = [r.ReplySent(1, step, payload(step)) for step in range(1, 1_001)]
    turn = timeline(history(*OPENED, *replies))[-1]
    assert len(turn.items) == 1_001
    assert [item.value for item in turn.newest] == list(range(801, 1_001))


def test_null_is_a_result():
    item = timeline(history(*OPENED, CALLED, r.ActivityCompleted("1.1", 1, payload(None), "w")))[-1]
    assert item.items[-1].has_result


def test_every_fact_that_goes_on_with_something_has_words_for_it():
    assert {*ENDS, *STANDS} <= {*OPENS, *GOES_ON, *ALONE, r.ActivityStarted}


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (r.JobCompleted("j1", payload({"url": "x"})), "completed"),
        (r.JobFailed("j1", DIED), "failed"),
        (r.JobExpired("j1"), "expired"),
        (r.JobWithdrawn("j1", "the turn ended"), "withdrawn"),
    ],
)
def test_a_job_is_shown_while_it_is_awaited_and_once_it_has_ended(end, status):
    awaited = r.JobAwaited("j1", 1, 2, "render", AT_MS + 90_000)
    item = timeline(history(*OPENED, awaited))[-1].items[-1]
    assert (item.kind, item.title, item.status) == ("wait", "render", "awaited")
    item = timeline(history(*OPENED, awaited, end))[-1].items[-1]
    assert (item.title, item.status, item.ended_ms is not None) == ("render", status, True)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (r.ChildCompleted("c1", payload({"pages": 5})), "completed"),
        (r.ChildFailed("c1", DIED), "failed"),
        (r.ChildCancelled("c1"), "cancelled"),
        (r.ChildExpired("c1"), "expired"),
        (r.ChildWithdrawn("c1", "the turn ended"), "withdrawn"),
    ],
)
def test_a_child_is_shown_while_it_is_open_and_once_it_has_ended(end, status):
    started = r.ChildStarted("c1", 1, 2, "researcher", payload("whales"), AT_MS + 90_000)
    item = timeline(history(*OPENED, started))[-1].items[-1]
    assert (item.kind, item.title, item.status, item.value) == (
        "wait",
        "researcher",
        "open",
        "whales",
    )
    item = timeline(history(*OPENED, started, end))[-1].items[-1]
    assert (item.title, item.status, item.ended_ms is not None) == ("researcher", status, True)


def test_whatever_begins_or_goes_on_has_the_id_that_its_words_go_by():
    for kind, (field, _) in [*OPENS.items(), *GOES_ON.items()]:
        assert field in kind.__dataclass_fields__, kind


def test_every_end_of_a_wait_ends_its_item():
    going_on = {
        *STANDS,
        r.ActivityResolved,
        r.LateResultRecorded,
        r.LateChildRecorded,
        r.ApprovalVoted,
    }
    assert set(GOES_ON) <= going_on | set(ENDS)
