"""The ledger on the command line: the newest steps, who approved them, and what they took."""

import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from wakeful.deploy.cli import context
from wakeful.deploy.cli.ledger import took_ms
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)


def row(**changes):
    return {
        "session_id": "s1",
        "activity_id": "1.3",
        "action": "refund",
        "contract": "write_idempotent",
        "status": "completed",
        "attempts": 2,
        "approval": "granted",
        "approved_by": "sue",
        "requested_at": AT,
        "settled_at": AT + timedelta(minutes=2, seconds=5),
        **changes,
    }


class Views:
    """The answers of the views: these rows, and one session."""

    def __init__(self, rows):
        self.rows, self.asked = rows, {}

    def newest_steps(self, **asked):
        self.asked = asked
        return [dict(one) for one in self.rows]

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


def test_a_row_says_who_approved_how_it_ended_and_what_it_took(views, capsys):
    views.rows.append(row(activity_id="1.4", approval="exempt", approved_by=None))
    views.rows.append(row(activity_id="1.5", approval="none", approved_by=None, settled_at=None))
    assert invoke(("ledger", "s1")) == Exit.DONE
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split("  ")[0] == "ASKED FOR"
    assert lines[0].split() == [
        *("2026-01-02", "03:04:05", "s1", "1.3", "refund", "write_idempotent", "2", "completed"),
        *("sue", "2", "min", "5", "s"),
    ]
    assert "nobody had to" in lines[1]
    assert lines[2].endswith("so far")


def test_time_is_counted_to_the_end_or_until_now_and_never_below_nothing():
    assert took_ms(row(), AT_MS + 1) == 125_000
    assert took_ms(row(settled_at=None), AT_MS + 7) == 7
    assert took_ms(row(settled_at=None), AT_MS - 7) == 0


def test_filters_reach_the_views(views, capsys):
    asked = ("ledger", "--status", "Failed", "--since", "2h", "--limit", "7", "--json")
    assert invoke(asked) == Exit.DONE
    (found,) = json.loads(capsys.readouterr().out)
    assert found["took_ms"] == 125_000
    assert (views.asked["status"], views.asked["limit"]) == ("failed", 7)
    assert views.asked["since"] > AT


def test_nothing_found_is_told_and_a_session_that_is_not_there_is_named(views, capsys):
    views.rows = []
    assert invoke(("ledger",)) == Exit.DONE
    assert "no steps were taken yet" in capsys.readouterr().err
    assert invoke(("ledger", "s1", "--status", "failed")) == Exit.DONE
    assert "no such steps" in capsys.readouterr().err
    assert invoke(("ledger", "nobody")) == Exit.NOT_FOUND
    assert "no session 'nobody'" in capsys.readouterr().err


def test_a_session_may_be_named_by_an_option_too(views, capsys):
    for way in (("s1",), ("--session", "s1"), ("s1", "--session", "s1")):
        views.asked = {}
        assert invoke(["ledger", *way]) == Exit.DONE
        assert views.asked["session_id"] == "s1"
    assert invoke(["ledger", "s1", "--session", "s2"]) == Exit.USAGE
    assert "sessions s1 and s2 are both named" in capsys.readouterr().err
