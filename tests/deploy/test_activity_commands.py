"""Activities on the command line: how each stands, what to do about it, and that the session's page says the same."""

import json
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from wakeful.deploy.cli import activities, context
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.cli.showing import Found, show_session
from wakeful.deploy.exits import Exit

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RESOLVE = "'wakeful activity resolve s1 1.3 --completed JSON', or --failed"


def row(**changes):
    return {
        "session_id": "s1",
        "activity_id": "1.3",
        "action": "refund",
        "contract": "write_once",
        "status": "uncertain",
        "on_uncertain": "wait",
        "in_doubt": True,
        "attempts": 1,
        "since": AT,
        "progress": None,
        "failure": {"kind": "cut_off", "type": "", "message": "it died", "detail": ""},
        **changes,
    }


class Views:
    """The answers of the views: these rows, and one session."""

    def __init__(self, rows):
        self.rows, self.asked = rows, {}

    def ledger(self, **asked):
        self.asked = asked
        return [dict(one) for one in self.rows]

    def approvals(self, **asked):
        self.asked = asked
        return []

    def session(self, session_id, *, tenant):
        return [{"session_id": "s1"}] if session_id == "s1" else []


@pytest.fixture
def views(monkeypatch, tmp_path):
    """Puts views in the place of Postgres."""
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    found = Views([row()])

    @contextmanager
    def opened(_given):
        yield found

    monkeypatch.setattr(context, "queries", opened)
    return found


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, RESOLVE),
        ({"on_uncertain": "raise", "in_doubt": False}, "nothing: its workflow was told"),
        ({"in_doubt": False}, "nothing: its turn is over"),
        ({"status": "retrying"}, "nothing: it is tried again"),
        ({"status": "withheld", "proposal_id": "1.3-ab"}, "decide on approval 1.3-ab"),
        ({"status": "requested"}, "nothing: it runs"),
        ({"status": "requested", "progress": "page 7"}, "nothing: it runs, page 7"),
        ({"status": "completed"}, ""),
        ({"status": "cancelled"}, ""),
    ],
)
def test_each_row_says_what_to_do(changes, told):
    assert activities.what_to_do(row(**changes)) == told


def test_the_list_is_a_table_for_people_and_rows_for_scripts(views, capsys):
    assert invoke(("activity", "list", "--uncertain", "s1")) == Exit.DONE
    out = capsys.readouterr().out
    for word in ("1.3", "refund", "write_once", "uncertain", "2026-01-02 03:04:05", RESOLVE):
        assert word in out
    assert (views.asked["in_doubt"], views.asked["session_id"]) == (True, "s1")
    assert invoke(("activity", "list", "--json")) == Exit.DONE
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["next"], found["status"]) == (RESOLVE, "uncertain")
    assert views.asked["in_doubt"] is False


def test_a_session_that_is_not_there_is_named_and_one_without_activities_has_none(views, capsys):
    views.rows = []
    assert invoke(("activity", "list", "nobody")) == Exit.NOT_FOUND
    assert "no session 'nobody'" in capsys.readouterr().err
    assert invoke(("approval", "list", "--session", "nobody")) == Exit.NOT_FOUND
    assert "no session 'nobody'" in capsys.readouterr().err
    assert invoke(("approval", "list", "--session", "s1")) == Exit.DONE
    assert "no approval is requested" in capsys.readouterr().err
    assert invoke(("activity", "list", "a/b")) == Exit.USAGE
    assert invoke(("activity", "list", "s1", "--uncertain")) == Exit.DONE
    assert "no activity waits to be resolved" in capsys.readouterr().err


def test_the_page_of_a_session_says_what_it_wants_and_what_started_its_turn(capsys):
    owed = [
        {"kind": kind, "id": id_, "name": name, "expires_at_ms": None, "expiry": "waits"}
        for kind, id_, name in (("uncertain", "1.3", "refund"), ("signal", "1.4", "paid"))
    ]
    session = dict.fromkeys(
        ("held_reason", "held_detail", "last_reply", "outcome", "failure", "cancel_reason")
    )
    session |= {
        "session_id": "s1",
        "tenant": "acme",
        "workflow": "desk",
        "workflow_version": 1,
        "status": "Waiting",
        "turn": 2,
        "trigger": "schedule",
        "trigger_reason": "monday",
        "messages": 1,
        "refusals": 0,
        "opened_at": AT,
        "opened_by": "ann",
        "updated_at": AT,
        "seq": 9,
        "waiting_for": owed,
        "next_valid": [],
        "tainted_by": ["read_page"],
        "parent": None,
        "holds": [],
        "attributes": {"order": 1009},
    }
    show_session(Found(session, [], [row()]), as_json=False)
    out = capsys.readouterr().out
    assert "2 (schedule: monday)" in out
    assert "tainted by  read_page" in out
    assert f"activity refund is uncertain: cut_off: it died; resolve it with {RESOLVE}" in out
    assert "waiting for signal paid: 'wakeful signal s1 paid JSON'" in out
    approval = {
        "proposal_id": "1.2.2-cd",
        "action": "refund",
        "activity_id": "1.3",
        "because": ["forbidden by frozen"],
        "supersedes": "1.2-ab",
        "supersedes_because": "order was v1 and is v2 now",
    }
    show_session(Found(session, [approval]), as_json=False)
    out = capsys.readouterr().out
    assert "1.2.2-cd: refund (1.3) is withheld, since forbidden by frozen; asked again, " in out
    assert "as 1.2-ab is void, since order was v1 and is v2 now\n" in out
    show_session(Found(session, [], [row()]), as_json=True)
    assert json.loads(capsys.readouterr().out)["uncertain"][0]["activity_id"] == "1.3"


def test_a_session_may_be_named_by_an_option_too(views, capsys):
    for way in (("s1",), ("--session", "s1"), ("s1", "--session", "s1")):
        views.asked = {}
        assert invoke(["activity", "list", *way]) == Exit.DONE
        assert views.asked["session_id"] == "s1"
    assert invoke(["activity", "list", "s1", "--session", "s2"]) == Exit.USAGE
    assert "sessions s1 and s2 are both named" in capsys.readouterr().err
