"""A workflow that is declared wrongly is declined at import, and is told what to write."""

from typing import Any

import pytest
from pydantic import BaseModel

from wakeful import Message, Read, Turn, activity, workflow
from wakeful.processors.activities.signatures import Declined


class Desk(BaseModel):
    """The state."""

    rounds: int = 0


async def desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    return desk


@activity(contract=Read())
async def look(at: str, of: str, how: str) -> str:
    return at


def test_a_bare_decorator_says_what_to_write() -> None:
    with pytest.raises(Declined, match=r"a bare @workflow: write @workflow\('desk', version=1\)"):
        workflow(desk)  # type: ignore[arg-type]


def test_a_missing_version_is_asked_for() -> None:
    with pytest.raises(
        Declined, match=r"'desk' has no version: write @workflow\('desk', version=1\)"
    ):
        workflow("desk")


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, 2**31])
def test_a_version_that_does_not_count_is_named(version: Any) -> None:
    with pytest.raises(
        Declined, match=f"'desk' has version {version!r}: versions count from 1, up"
    ):
        workflow("desk", version=version)


@pytest.mark.parametrize("name", [None, 7, b"desk"])
def test_a_name_that_is_no_text_is_declined(name: Any) -> None:
    with pytest.raises(Declined, match=r"workflow name .* is not allowed: use 1 to 200 printable"):
        workflow(name, version=1)


@pytest.mark.parametrize("versions", ["prompt", ["prompt"], {"prompt": 7}, {7: "prompt"}, 7])
def test_other_versions_are_names_and_texts(versions: Any) -> None:
    with pytest.raises(Declined, match=r"'desk' has versions=.*such as {'prompt': '7'}"):
        workflow("desk", version=1, versions=versions)
    kept = workflow("desk", version=1, versions={"prompt": "7", "model": "m"})(desk).versions
    assert kept == (("model", "m"), ("prompt", "7"))


def sync(turn: Turn, desk: Desk, message: Message) -> Desk:
    return desk


async def two(turn: Turn, desk: Desk) -> Desk:
    return desk


async def by_name(turn: Turn, desk: Desk, *, message: Message) -> Desk:
    return desk


async def yields(turn: Turn, desk: Desk, message: Message) -> Any:
    yield desk


@pytest.mark.parametrize("function", [sync, two, by_name, yields, look, 7, Desk, None])
def test_what_cannot_be_a_turn_is_declined(function: Any) -> None:
    with pytest.raises(
        Declined, match=r"workflow 'refund desk' must be 'async def \w+\(turn, state, m"
    ):
        workflow("refund desk", version=1)(function)


def test_types_that_cannot_be_read_are_declined() -> None:
    async def elsewhere(turn: Turn, desk: "Elsewhere", message: Message) -> Desk:  # type: ignore[name-defined]  # noqa: F821
        return desk

    with pytest.raises(Declined, match="the types of workflow 'desk' cannot be read"):
        workflow("desk", version=1)(elsewhere)
