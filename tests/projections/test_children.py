"""Children as rows: one each in the session that opened them, from their start to how they ended; and whose child one is."""

import json

import pytest

from wakeful.events import records as r
from wakeful.projections.audit.rebuild import rebuild_rows
from wakeful.projections.rows import CHILDREN, OUTCOMES, SESSIONS
from wakeful.projections.sessions import WAITS

S = ("t0", "s1")
CHILD = "s1:1.1-0123456789abcdef01234567"
FAILURE = r.Failure("child_failed", "forbidden", "no\0", "")


@pytest.fixture
def waiting(scribe):
    """A session that waits for a child."""
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.TurnStarted(1, "message", "", None, "desk", 1, ()))
    scribe.add(S, r.ChildStarted(CHILD, 1, 1, "researcher", scribe.payload("go"), 50))
    owed = r.Obligation("child", CHILD, "researcher", 50, "expires")
    scribe.add(S, r.SessionWaiting(1, (owed,), ()))
    return scribe


def test_a_child_that_is_open_is_a_row_and_a_kind_of_wait(waiting):
    rows = rebuild_rows(waiting.events)
    row = rows[CHILDREN][(*S, CHILD)]
    assert (row["workflow"], row["status"], row["expires_at_ms"]) == ("researcher", "open", 50)
    assert (rows[SESSIONS][S]["status"], rows[SESSIONS][S]["waits"]) == ("Waiting", WAITS["child"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (r.ChildFailed(CHILD, FAILURE, ("browse",)), "failed"),
        (r.ChildCancelled(CHILD, ("browse",)), "cancelled"),
        (r.ChildExpired(CHILD), "expired"),
        (r.ChildWithdrawn(CHILD, "the turn ended"), "withdrawn"),
    ],
)
def test_its_end_says_how_and_what_came_with_it(waiting, body, status):
    waiting.add(S, body)
    row = rebuild_rows(waiting.events)[CHILDREN][(*S, CHILD)]
    assert (row["status"], row["ended_at_ms"]) == (status, waiting.now_ms)
    told = hasattr(body, "tainted_by")
    assert json.loads(row["tainted_by"]) == (["browse"] if told else [])
    if status == "failed":
        assert json.loads(row["failure"])["type"] == "forbidden"
        assert row["escaped"] == "failure"


def test_its_outcome_wakes_the_session_and_leaves_its_digest(waiting):
    result = waiting.payload({"pages": 5})
    waiting.add(S, r.ChildCompleted(CHILD, result, ()))
    rows = rebuild_rows(waiting.events)
    row = rows[CHILDREN][(*S, CHILD)]
    assert (row["status"], row["result_digest"]) == ("completed", result.digest.hex())
    assert (rows[SESSIONS][S]["status"], rows[SESSIONS][S]["waits"]) == ("Running", 0)


def test_an_end_that_came_late_stands_beside_how_its_parent_went_on(waiting):
    waiting.add(S, r.ChildExpired(CHILD))
    waiting.add(S, r.LateChildRecorded(CHILD, "cancelled", None, None))
    row = rebuild_rows(waiting.events)[CHILDREN][(*S, CHILD)]
    assert (row["status"], row["late_end"]) == ("expired", "cancelled")


def test_a_child_says_whose_it_is_and_what_tainted_it_from_the_start(scribe):
    child, parent = ("t0", CHILD), r.Parent("s1", 1, 50)
    scribe.add(child, r.SessionOpened("researcher", (), parent, ("browse",)), channel="child")
    scribe.add(child, r.MessageReceived("start", scribe.payload("go")), channel="child")
    rows = rebuild_rows(scribe.events)
    assert rows[SESSIONS][child]["parent"] == "s1"
    assert json.loads(rows[SESSIONS][child]["inherited_taint"]) == ["browse"]
    assert {row["command"] for row in rows[OUTCOMES].values()} == {"StartChild"}
