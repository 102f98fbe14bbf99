"""The queries of docs/http.md are asked, and their answers are what the page shows; its tables are the code's."""

import json
import re
import shlex
from pathlib import Path

import pytest

from wakeful.deploy.gateway.app import create_app
from wakeful.projections.listings import LISTINGS, SINCE, UNTIL

from ..deploy.gateway.shelves import Shelves
from .sql_day import NOW, day

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def section(title):
    """The text of one part of the page, up to the next of its kind."""
    return re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[
        [
            part.partition("\n")[0]
            for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
        ].index(title)
    ]


def requests():
    """Each request of the read half, and what the page shows for it; those of a block come one after the other."""
    found = []
    for title in ("Queries", "Pages", "Reading what you wrote"):
        for block in BLOCK.findall(section(title)):
            found.append(
                [
                    tuple(one.split("\n", 1))
                    for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
                ]
            )
    return found


@pytest.fixture(scope="module")
def shelves(postgres_url, tmp_path_factory):
    one = Shelves(tmp_path_factory.mktemp("gateway"), postgres_url, "page", scribe=day())
    one.scribe.now_ms = int(NOW.timestamp() * 1000)
    one.project()
    yield one
    one.close()


def asked(shelves, line, cursor):
    """The answer to a line with curl."""
    curl, *words = shlex.split(
        line.replace("$KEY", shelves.key("local", "viewer")).replace("$NEXT_CURSOR", cursor or "-")
    )
    assert curl == "curl"
    headers, url = {}, ""
    while words:
        word = words.pop(0)
        if word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word != "-s":
            url = word
    assert url.startswith("$WAKEFUL_URL/v1/"), line
    return shelves.client.get(url.removeprefix("$WAKEFUL_URL"), headers=headers)


def holds(shown, answer):
    """Whether all that is shown is in the answer; lists are as long as they are shown, an ellipsis is anything."""
    match shown:
        case dict():
            return all(
                name in answer and holds(value, answer[name]) for name, value in shown.items()
            )
        case list():
            return len(shown) == len(answer) and all(map(holds, shown, answer))
        case "…":
            return bool(answer)
        case _:
            return shown == answer


@pytest.mark.parametrize("number", range(len(requests())))
def test_a_request_of_the_page_is_answered_as_the_page_shows(shelves, number):
    cursor = None
    for line, shown in requests()[number]:
        answer = asked(shelves, line, cursor)
        told = answer.json()
        assert holds(json.loads(shown), told), json.dumps(told, indent=1)
        cursor = told.get("next_cursor")


def test_the_table_has_every_query_and_every_query_is_in_the_table(shelves):
    table = re.findall(r"^\| (`/v1/.*?) \|", section("Queries"), re.MULTILINE)
    named = {path for row in table for path in re.findall(r"`(/v1/[^`]*)`", row)}
    paths = create_app(shelves.services).openapi()["paths"]
    queries = {
        path for path, ways in paths.items() if "queries" in ways.get("get", {}).get("tags", ())
    }
    renamed = {
        path.replace("{session_id}/{proposal_id}", "{session}/{proposal}").replace(
            "{session_id}", "{id}"
        )
        for path in queries
    }
    assert renamed == named


def test_the_table_names_every_filter():
    text = section("Queries")
    for listing in LISTINGS:
        (row,) = re.findall(rf"^\| `/v1/{listing.name}` .*$", text, re.MULTILINE)
        for route in listing.routes:
            for name in route.filters:
                kind = name.removeprefix("waiting_")
                assert f"`{kind}`" in row or name == "open" or f"{name}=true" in row, (name, row)
            if route.ranged:
                assert {f"`{route.ranged}{SINCE}`", f"`{route.ranged}{UNTIL}`"} <= set(
                    re.findall(r"`[a-z_]+`", row)
                )
