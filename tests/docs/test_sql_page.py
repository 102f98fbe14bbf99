"""The queries of docs/sql.md are run over real rows, and their output is what the page shows."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.events.codec import decode_event
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.schemas import Schemas
from wakeful.projections.upkeep import LOOK_EVERY_S, Upkeep

from ..projections.conftest import ListReader, finish
from .sql_day import NOW, day

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
SHOWN = re.compile(r"```sql\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def blocks():
    return [(query.strip(), shown) for query, shown in SHOWN.findall(PAGE.read_text())]


@pytest.fixture(scope="module")
def desk(postgres_url):
    """The database's URL, with the views filled by the projector."""
    install(postgres_url, "desk")
    scribe, views = day(), PostgresViews(postgres_url, "desk")
    projector = Projector(
        ListReader(scribe), views, scribe.places, lambda x: decode_event(x.value, x.headers)
    )
    finish(projector.steps(), lambda: projector.caught_up)
    views.close()
    yield postgres_url, scribe
    drop(postgres_url, "desk")


def answer(desk, query, login=None):
    """What psql would print, nearly: `now()` is noon of that day. Asked as the operator, or with the URL of a login."""
    url, scribe = desk
    seconds = iter((0.0, LOOK_EVERY_S, 2 * LOOK_EVERY_S))
    upkeep = Upkeep(url, "desk", lambda: scribe.ends, lambda: next(seconds))
    upkeep.look(scribe.ends)
    upkeep.close()
    with psycopg.connect(login or url, options="-c TimeZone=UTC") as connection:
        connection.execute(Schemas("desk").fill("SET search_path TO {views}"))
        asked = connection.execute(query.replace("now()", f"timestamptz '{NOW.isoformat()}'"))
        names = [column.name for column in asked.description]
        return table(names, [[cell(value) for value in row] for row in asked])


def cell(value):
    match value:
        case None:
            return ""
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case timedelta():
            return str(value)
        case dict() | list():
            return json.dumps(value)
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def table(names, rows):
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [names, ["-" * width for width in widths], *rows]
    return "".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


@pytest.mark.parametrize("number", range(len(blocks())))
def test_a_query_of_the_page_gives_what_the_page_shows(desk, number):
    query, shown = blocks()[number]
    assert answer(desk, query) == shown


def test_there_are_ten_questions_and_none_is_answered_by_nothing():
    found = blocks()
    assert len(found) == 13
    assert all(len(shown.splitlines()) > 2 for _, shown in found)


def ran(line, capsys):
    """What a command of the page prints; secrets and addresses as the page has them."""
    assert invoke(line.split()[2:]) == Exit.DONE
    told = capsys.readouterr()
    url = re.search(r'psql "(\S+)"', told.out)
    masked = re.sub(
        r"//(\w+):[^@]+@\S+/\w+", r"//\1:<password>@<server>/<database>", told.out + told.err
    )
    return masked, url and url[1]


def test_access_is_given_shown_and_taken_as_the_page_says(desk, monkeypatch, tmp_path, capsys):
    """And with it an analyst gets the page's answers to the page's questions."""
    for name, value in (("POSTGRES", desk[0]), ("NAMESPACE", "desk"), ("HOME", str(tmp_path))):
        monkeypatch.setenv(f"WAKEFUL_{name}", value)
    (shown,) = re.findall(r"```console\n(\$ wakeful access.*?)```", PAGE.read_text(), re.DOTALL)
    printed, login = "", None
    for line in re.findall(r"^\$ .*$", shown, re.MULTILINE):
        told, url = ran(line, capsys)
        printed += f"{line}\n{told}"
        if url:
            login = url
            for query, expected in blocks():
                assert answer(desk, query, login) == expected
    assert printed == shown
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(login)


def test_every_view_that_there_is_has_a_line_on_the_page(desk):
    with psycopg.connect(desk[0]) as connection:
        views = connection.execute(
            "SELECT table_name::text FROM information_schema.views WHERE table_schema = 'desk'"
        ).fetchall()
    assert {name for (name,) in views} == set(
        re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    )


def test_the_same_is_asked_from_python(desk):
    with Queries(desk[0], "desk") as queries:
        assert [row["session_id"] for row in queries.activities()] == [
            *("desk-5", "desk-6", "desk-8"),
        ]
        assert len(queries.activities(all_of_them=True)) == 7
        (retry, *_) = [row for row in queries.timers() if row["kind"] == "retry"]
        assert (retry["session_id"], retry["held"]) == ("desk-6", False)
        assert [row["held"] for row in queries.timers(session_id="desk-8")] == [True]
        (one,) = queries.outcomes(command_id="desk-8/more")
        assert (one["command"], one["disposition"]) == ("SendMessage", "parked")
        assert [row["reason"] for row in queries.refusals(session_id="desk-7")] == ["too_old"] * 2
        assert [row["reason"] for row in queries.refusals(tenant="other")] == []
