"""Resources as rows: one each time that a kind is attached, from then to how it was over; no wait of their session."""

import json

import pytest

from wakeful.events import records as r
from wakeful.projections.audit.rebuild import rebuild_rows
from wakeful.projections.rows import RESOURCES, SESSIONS

S = ("t0", "s1")
LOST = r.Failure("resource_lost", "sandbox", "no such box\0", "")


@pytest.fixture
def held(scribe):
    """A session that rests, and holds a sandbox."""
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.TurnStarted(1, "message", "", None, "desk", 1, ()))
    scribe.add(S, r.ResourceAttached("1.1", 1, 2, "sandbox", scribe.payload("a door"), 50))
    owed = r.Obligation("resource", "1.1", "sandbox", 50, "expires")
    scribe.add(S, r.TurnCompleted(1, 2, scribe.payload(0), (owed,), ()))
    return scribe


def test_what_is_held_is_a_row_without_its_handle_and_no_wait(held):
    rows = rebuild_rows(held.events)
    row = rows[RESOURCES][(*S, "1.1")]
    assert (row["kind"], row["status"], row["expires_at_ms"]) == ("sandbox", "attached", 50)
    assert row["reattached"] is False
    assert "a door" not in str(row)
    session = rows[SESSIONS][S]
    assert (session["status"], session["waiting_for"], session["waits"]) == ("Suspended", "[]", 0)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (r.ResourceExpired("1.1", "sandbox", "expired"), "expired"),
        (r.ResourceExpired("1.1", "sandbox", "lost", LOST), "lost"),
        (r.ResourceExpired("1.1", "sandbox", "the session ended"), "ended"),
        (r.ResourceReleased("1.1", 2, 1, "sandbox"), "released"),
    ],
)
def test_its_end_says_how_and_leaves_the_session_as_it_stands(held, body, status):
    held.add(S, body)
    rows = rebuild_rows(held.events)
    row = rows[RESOURCES][(*S, "1.1")]
    assert (row["status"], row["ended_at_ms"]) == (status, held.now_ms)
    assert rows[SESSIONS][S]["status"] == "Suspended"
    if status == "lost":
        assert json.loads(row["failure"])["type"] == "sandbox"


def test_one_that_is_attached_again_is_another_row(held):
    held.add(S, r.ResourceExpired("1.1", "sandbox", "expired"))
    held.add(S, r.ResourceReattached("2.1", 2, 2, "sandbox", held.payload("a door"), 90))
    rows = rebuild_rows(held.events)[RESOURCES]
    assert [rows[(*S, one)]["status"] for one in ("1.1", "2.1")] == ["expired", "attached"]
    assert rows[(*S, "2.1")]["reattached"] is True
