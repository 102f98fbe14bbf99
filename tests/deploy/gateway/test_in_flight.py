"""Which tokens a client is shown, and what it is told when an attempt loses."""

import json
from dataclasses import replace

from wakeful.deploy.gateway.live.in_flight import HELD_MAX, InFlight
from wakeful.events import records as r
from wakeful.processors.activities.tokens import Token

NOTHING = r.Payload("json", b"{}", None, b"\7" * 32, 2, None)
FAILURE = r.Failure("raised", "ValueError", "no", "")
ASKED = r.ActivityRequested(
    *("1.1", 1, 1, "chat", "models", "read", NOTHING, b"\7" * 32, "acme/s/1/1"),
    attempt=1,
    start_to_close_ms=1_000,
    deadline_ms=2**53,
    approval="none",
    proposal_id=None,
)


def said(frames):
    """Each event as its type and what identifies it."""
    found = []
    for one in frames.decode().split("\n\n")[:-1]:
        kind, data = one.split("\n")
        told = json.loads(data.removeprefix("data: "))
        found.append((kind.removeprefix("event: "), told.get("attempt"), told.get("text")))
    return found


def token(index, text="x", *, attempt=1, run="a", activity="1.1"):
    return Token(activity, attempt, run, index, text)


def fresh(open_=(), *, resumed=False):
    return InFlight(dict(open_), resumed=resumed)


def test_tokens_of_an_activity_are_shown_and_end_with_its_result():
    one = fresh()
    assert one.before(ASKED) == b""
    assert said(one.token(token(0, "We")) + one.token(token(1, " will"))) == [
        ("token", 1, "We"),
        ("token", 1, " will"),
    ]
    assert said(one.before(r.ActivityCompleted("1.1", 1, NOTHING, "w"))) == [("token-end", 1, None)]
    assert one.token(token(2)) == b""


def test_tokens_that_are_here_before_their_event_wait_for_it():
    one = fresh()
    assert one.token(token(0, "We")) + one.token(token(1, " will")) == b""
    assert one.before(ASKED) == b""
    assert said(one.after(ASKED)) == [("token", 1, "We"), ("token", 1, " will")]


def test_no_more_than_so_many_tokens_wait():
    one = fresh()
    for index in range(3 * HELD_MAX):
        one.token(token(index))
    one.before(ASKED)
    assert len(said(one.after(ASKED))) == HELD_MAX


def test_a_retry_resets_the_attempt_that_failed_and_its_late_tokens_are_not_shown():
    one = fresh({"1.1": 1})
    one.token(token(0, "We"))
    retry = r.ActivityRetryScheduled("1.1", 2, 0, FAILURE, "w")
    assert said(one.before(retry)) == [("token-reset", 1, None)]
    assert one.token(token(1, "late")) == b""
    assert one.before(r.ActivityRetried("1.1", 2)) == b""
    assert said(one.token(token(0, "They", attempt=2))) == [("token", 2, "They")]


def test_tokens_of_the_next_attempt_reset_the_one_before_and_its_event_says_no_more():
    one = fresh({"1.1": 1})
    one.token(token(0))
    assert said(one.token(token(0, "They", attempt=2))) == [
        ("token-reset", 1, None),
        ("token", 2, "They"),
    ]
    assert one.before(r.ActivityRetryScheduled("1.1", 2, 0, FAILURE, "w")) == b""
    assert one.before(r.ActivityRetried("1.1", 2)) == b""
    assert one.token(token(1, attempt=1)) == b""


def test_an_attempt_that_runs_again_after_its_worker_was_killed_begins_anew():
    one = fresh({"1.1": 1})
    one.token(token(0, "We", run="a"))
    assert said(one.token(token(0, "We", run="b"))) == [
        ("token-reset", 1, None),
        ("token", 1, "We"),
    ]
    assert one.token(token(1, "frozen, not killed", run="a")) == b""
    assert said(one.token(token(1, " will", run="b"))) == [("token", 1, " will")]


def test_an_activity_that_ends_without_a_result_resets_its_last_attempt():
    for body in (
        r.ActivityFailed("1.1", 1, FAILURE, "w"),
        r.ActivityUncertain("1.1", 1, FAILURE, "w"),
        r.ActivityCancelled("1.1", 1, "the session ended"),
        r.ActivityReturned("1.1", 1, "stopping", "w"),
    ):
        one = fresh({"1.1": 1})
        one.token(token(0))
        assert said(one.before(body)) == [("token-reset", 1, None)]


def test_a_result_of_another_attempt_than_the_one_shown_resets_that_first():
    one = fresh({"1.1": 2})
    one.token(token(0, attempt=3))
    assert said(one.before(r.ActivityCompleted("1.1", 2, NOTHING, "w"))) == [
        ("token-reset", 3, None),
        ("token-end", 2, None),
    ]


def test_an_activity_without_tokens_says_nothing():
    one = fresh()
    one.before(ASKED)
    assert one.before(r.ActivityRetryScheduled("1.1", 2, 0, FAILURE, "w")) == b""
    assert one.before(r.ActivityCompleted("1.1", 2, NOTHING, "w")) == b""


def test_who_comes_back_is_told_of_what_it_may_have_seen_before():
    one = fresh({"1.1": 1}, resumed=True)
    assert said(one.before(r.ActivityRetryScheduled("1.1", 2, 0, FAILURE, "w"))) == [
        ("token-reset", 1, None)
    ]
    assert one.before(r.ActivityRetried("1.1", 2)) == b""
    assert said(one.before(r.ActivityCompleted("1.1", 2, NOTHING, "w"))) == [("token-end", 2, None)]
    again = replace(ASKED, activity_id="1.2")
    one.before(again)
    assert one.before(r.ActivityCompleted("1.2", 1, NOTHING, "w")) == b""


def test_tokens_of_what_is_over_are_not_shown_to_who_comes_back():
    one = fresh({"1.2": 2}, resumed=True)
    assert one.token(token(0)) == b""
    assert one.token(token(0, activity="1.2", attempt=1)) == b""
    assert said(one.token(token(0, activity="1.2", attempt=2))) == [("token", 2, "x")]


def test_a_token_that_was_shown_is_not_shown_again():
    one = fresh({"1.1": 1})
    assert said(one.token(token(0)) + one.token(token(0))) == [("token", 1, "x")]
