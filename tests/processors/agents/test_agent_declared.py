"""What an agent is declared with: its version vector, versions side by side, and what cannot be one."""

from typing import Any

import pytest
from pydantic import BaseModel

from wakeful import Read, activity
from wakeful.processors.activities.signatures import Declined
from wakeful.processors.app import gather
from wakeful.testing import NO_ANSWER, Held, rehearse

from .looking import agent_of, look, looks


def test_the_version_vector_names_model_prompt_and_tools() -> None:
    versions = dict(agent_of(looks()).versions)
    assert set(versions) == {"model", "prompt", "tool look"}
    assert versions["model"] == "function-1"
    session = rehearse(agent_of(looks(0)))
    session.send("go")
    started = next(e for e in session.events if type(e).__name__ == "TurnStarted")
    assert {"model", "prompt", "tool look"} <= {version.name for version in started.versions}

    def changed(**more: Any) -> set[str]:
        other = dict(agent_of(looks(), **more).versions)
        return {name for name in versions if other.get(name) != versions[name]}

    @activity(contract=Read(), name="look")
    async def other(thing: str, deep: bool = False) -> str:
        return thing

    assert changed(prompt="Look well.") == {"prompt"}
    assert changed(tools=[other]) == {"tool look"}
    named = dict(agent_of(looks(), prompt_version="7", versions={"team": "a"}).versions)
    assert (named["prompt"], named["team"]) == ("7", "a")


def test_two_versions_live_side_by_side_and_share_their_tools() -> None:
    one, two = agent_of(looks(1)), agent_of(looks(2), version=2, steps_max=3)
    app = gather([one, two])
    assert app.versions("agent") == [1, 2]
    assert {"look", "agent.v1.model", "agent.v2.model", "agent.v1.go_on"} <= set(app.activities)
    session = rehearse(one, activities={"look": [NO_ANSWER, "seen", "seen", "seen"]})
    session.send("go")
    session.redeploy(one, two)
    session.answer("look", "seen")
    session.send("again")
    assert session.replies == ["looked 1 times", "looked 2 times"]


def test_another_prompt_under_the_same_version_holds_a_turn_that_is_open() -> None:
    session = rehearse(agent_of(looks(1)), activities={"look": NO_ANSWER})
    session.send("go")
    session.redeploy(agent_of(looks(1), prompt="Look away."))
    with pytest.raises(Held, match=r"nondeterminism.*agent\.v1\.model"):
        session.answer("look", "seen")


class Size(BaseModel):
    metres: int


@activity(contract=Read(), name="has a space")
async def spaced(thing: str) -> str:
    return thing


@activity(contract=Read(), name="answer")
async def answering(thing: str) -> str:
    return thing


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tools": [print]}, "tools are activities, made by @activity"),
        ({"tools": [spaced]}, "models call tools by names of 1 to 64 letters"),
        ({"tools": [look, look]}, "has the tool 'look' twice"),
        ({"tools": [look] * 129}, "has 129 tools"),
        ({"tools": [answering], "output": Size}, "has output=, and a tool 'answer' as well"),
        ({"output": int}, "whose JSON is no object"),
        ({"given": {"who": lambda message: "ann"}}, "none of its tools takes that argument"),
        ({"prompt": " "}, "say in a text what it is there for"),
        ({"steps_max": 0}, "give a whole number from 1, or None"),
        ({"tokens_max": True}, "give a whole number from 1, or None"),
        ({"compact_above": 1}, "give a whole number from 200"),
        ({"result_characters_max": None}, "give a whole number from 200"),
        ({"on_uncertain": "later"}, "write 'wait' (a person resolves it) or 'raise'"),
        ({"version": None}, "has no version"),
        ({"budget": "sue"}, r"write approval=Needs\('sue'\)"),
    ],
)
def test_what_cannot_be_an_agent_is_declined_in_words(more, told) -> None:
    with pytest.raises(
        Declined, match=told.replace("(a person", r"\(a person").replace("it)", r"it\)")
    ):
        agent_of(looks(), **more)


def test_a_tools_docstring_and_signature_are_what_the_model_is_told() -> None:
    (spec,) = agent_of(looks()).specs
    assert spec.description == "Looks at a thing.\n\nIt may take a while."
    assert spec.parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {"thing": {"type": "string"}},
        "required": ["thing"],
    }
