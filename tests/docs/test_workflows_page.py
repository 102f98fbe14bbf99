"""What docs/workflows.md teaches is run, and what it says that a hold says is what holds say."""

import re
from typing import Any

import pytest
from pydantic import BaseModel

from wakeful import Message, Read, Turn, Write, activity, workflow
from wakeful.commands.check import NAME_LENGTH_MAX
from wakeful.processors.workflow.stepping import STEPS_PER_ACTIVATION_MAX
from wakeful.testing import Held, rehearse

from .readme import ROOT

PAGE = (ROOT / "docs" / "workflows.md").read_text(encoding="utf-8")


def test_its_python_runs_from_top_to_bottom() -> None:
    names: dict[str, object] = {"__name__": "workflows_page"}
    for found in re.finditer(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        lines = "\n" * PAGE[: found.start(1)].count("\n")
        exec(compile(lines + found.group(1), "docs/workflows.md", "exec"), names)


def test_it_names_all_that_a_turn_can_do() -> None:
    asked = {name for name in dir(Turn) if not name.startswith("_")}
    told = set(re.findall(r"\w+", PAGE))
    assert asked - told == set()


def test_its_numbers_are_those_of_the_code() -> None:
    assert (STEPS_PER_ACTIVATION_MAX, NAME_LENGTH_MAX) == (1_000, 200)


class Desk(BaseModel):
    """A state without fields."""


class Foreign:
    """Somebody else's awaitable."""

    def __await__(self) -> Any:
        yield self


@activity(contract=Write(idempotent=True))
async def refund(cents: int) -> bool:
    """Changes something."""
    return cents > 0


@activity(contract=Read())
async def holds() -> bool:
    """Says yes."""
    return True


KEPT: list[Turn] = []


async def foreign(turn: Turn) -> object:
    await Foreign()
    return None


async def uses_asyncio(turn: Turn) -> object:
    import asyncio

    await asyncio.sleep(1)
    return None


async def without_end(turn: Turn) -> object:
    while True:
        await turn.say("still here")


async def kept(turn: Turn) -> object:
    KEPT.append(turn)
    if len(KEPT) > 1:
        await KEPT[0].say("from the turn before")
    return None


async def after_the_end(turn: Turn) -> object:
    await turn.complete("done")
    await turn.say("and another thing")
    return None


async def again_for_nothing(turn: Turn) -> object:
    return turn.again(Desk())


async def returns_nothing(turn: Turn) -> object:
    return None


async def unnamed(turn: Turn) -> object:
    await turn.signal("")
    return None


async def found_by_a_list(turn: Turn) -> object:
    await turn.attributes({"order": [1009]})  # type: ignore[dict-item]
    return None


async def says_a_set(turn: Turn) -> object:
    await turn.say({1, 2})
    return None


async def sleeps_for_words(turn: Turn) -> object:
    await turn.sleep("soon")
    return None


async def waits_for_a_job(turn: Turn) -> object:
    return await turn.job("render", within="soon")


async def waits_for_a_while(turn: Turn) -> object:
    await turn.inbox(wait="30s")  # type: ignore[arg-type]
    return None


async def verified_by_a_write(turn: Turn) -> object:
    await turn.complete("done", verify=refund.call(1))
    return None


async def verified_inside(turn: Turn) -> object:
    await turn.gather(turn.complete("done", verify=holds.call()), turn.sleep(1))
    return None


async def waits_where_it_lost(turn: Turn) -> object:
    async def tidies() -> None:
        try:
            await turn.sleep("1h")
        finally:
            await turn.run(refund.call(1))

    await turn.first(tidies(), turn.say("at once"))
    return None


DONE = {
    "awaits something foreign": foreign,
    "uses asyncio": uses_asyncio,
    "asks for steps without end": without_end,
    "waits where it lost": waits_where_it_lost,
    "uses another turn's `turn`": kept,
    "asks for a step at its end": after_the_end,
    "goes again for nothing": again_for_nothing,
    "returns something else": returns_nothing,
    "names what nobody can send": unnamed,
    "is found by what is no value": found_by_a_list,
    "says what is no JSON": says_a_set,
    "waits for a job for no duration": waits_for_a_job,
    "sleeps for no duration": sleeps_for_words,
    "gives a word for a bool": waits_for_a_while,
    "verifies with a write": verified_by_a_write,
    "verifies inside `gather`": verified_inside,
}
TOLD = dict(re.findall(r"^\| (\w+s .*?) \| `(.*)` \|$", PAGE, re.MULTILINE))


def test_its_table_of_mistakes_is_complete() -> None:
    assert set(TOLD) == set(DONE)


@pytest.mark.parametrize("does", DONE)
def test_a_hold_says_what_the_page_says(does: str) -> None:
    KEPT.clear()

    @workflow("mistaken", version=1)
    async def mistaken(turn: Turn, state: Desk, message: Message) -> Desk:
        made = await DONE[does](turn)
        return state if does == "uses another turn's `turn`" else made  # type: ignore[return-value]

    session = rehearse(mistaken, holds, refund, session_id="s", always_replay=False)
    if does == "uses another turn's `turn`":
        session.send("go")
    with pytest.raises(Held) as held:
        session.send("go")
    words = [re.escape(part) for part in re.split(r"<…>|…(?=:)", TOLD[does])]
    assert re.search(".*".join(words), held.value.detail), held.value.detail
