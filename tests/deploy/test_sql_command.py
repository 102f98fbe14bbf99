"""`wakeful sql`: the answer as a table or JSON, and what is wrong with a query in one sentence."""

import io
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from wakeful.deploy.cli import context
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.projections.asked import Asked


class Views:
    """The answer of the views, whatever is asked."""

    def __init__(self):
        self.asked, self.answer = "", Asked()

    def select(self, query, *, limit):
        self.asked = query
        return self.answer


@pytest.fixture
def views(monkeypatch, tmp_path):
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    found = Views()

    @contextmanager
    def opened(_given):
        yield found

    monkeypatch.setattr(context, "queries", opened)
    return found


def test_an_answer_is_a_table_or_objects(views, capsys):
    views.answer = Asked(("id", "at"), (("s1", datetime(2026, 1, 2, tzinfo=UTC)),))
    assert invoke(["sql", "SELECT 1"]) == Exit.DONE
    assert capsys.readouterr().out == "ID  AT\ns1  2026-01-02 00:00:00\n"
    assert invoke(["sql", "SELECT 1", "--json"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out) == [{"id": "s1", "at": "2026-01-02T00:00:00+00:00"}]
    views.answer = Asked(("sum", "waits"), ((Decimal("1.50"), timedelta(minutes=2)),))
    assert invoke(["sql", "SELECT 1", "--json"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out) == [{"sum": "1.50", "waits": "0:02:00"}]


def test_cells_are_what_postgres_calls_them_and_not_python(views, capsys):
    views.answer = Asked(
        ("held", "arguments", "tags", "digest"),
        ((False, {"cents": 25000, "by": "jürgen"}, [True, None], b"\x01\xff"),),
    )
    assert invoke(["sql", "SELECT 1"]) == Exit.DONE
    row = capsys.readouterr().out.splitlines()[1]
    assert row == 'false  {"cents": 25000, "by": "jürgen"}  [true, null]  01ff'


def test_a_query_may_come_by_a_pipe(views, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 2"))
    assert invoke(["sql", "-"]) == Exit.DONE
    assert views.asked == "SELECT 2"


def test_what_is_wrong_with_it_and_that_there_was_more_is_told(views, capsys):
    views.answer = Asked(wrong="no such column: correct it")
    assert invoke(["sql", "SELECT x"]) == Exit.USAGE
    assert capsys.readouterr().err == "wakeful: no such column: correct it\n"
    views.answer = Asked(("n",), ((1,),), more=True)
    assert invoke(["sql", "SELECT 1"]) == Exit.DONE
    assert "the query has more" in capsys.readouterr().err
