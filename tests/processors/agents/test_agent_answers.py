"""What an agent makes of an answer: one of a type, its calls, what the model may not choose, and hooks for the rest."""

import pytest
from pydantic import BaseModel

from wakeful import Message, Needs, Write, activity
from wakeful.agents import (
    AgentLoop,
    Answer,
    Conversation,
    FunctionModel,
    ScriptedModel,
    ToolCall,
    Usage,
)
from wakeful.processors.agents.stretch import CALLS_MAX
from wakeful.testing import rehearse

from .looking import agent_of, look, pay


class Verdict(BaseModel):
    """What it comes to."""

    found: bool
    size: int


def test_an_answer_of_a_type_is_asked_for_until_it_fits() -> None:
    right = {"found": True, "size": 3}
    script = [
        "it is there",
        ToolCall("", "answer", {"found": True}),
        [ToolCall("", "look", {"thing": "a"}), ToolCall("", "answer", right)],
        ToolCall("", "answer", right),
    ]
    agent = agent_of(ScriptedModel(script), output=Verdict)
    session = rehearse(agent)
    session.send("go")
    assert session.replies == [right]
    assert [m.content for m in session.state.messages if m.role in ("tool", "user")] == [
        "go",
        "Give your answer by calling the tool 'answer'.",
        "Not carried out: the arguments of answer do not fit: size: Field required.",
        "a is there",
        "Not carried out: call 'answer' alone.",
        "Taken.",
    ]
    (told,) = [spec for spec in agent.specs if spec.name == "answer"]
    assert told.description.endswith("What it comes to.")
    assert set(told.parameters["properties"]) == {"found", "size"}


class Book(Conversation):
    paid: list[str] = []  # noqa: RUF012 pydantic copies it


class Careful(AgentLoop[Book]):
    """Pays each customer once, ends with the payment, and answers in its own words."""

    def heard(self, message: Message) -> str:
        return f"{message.actor}: {message.text}"

    def objection(self, talk, action, before):
        if action.activity is not pay:
            return None
        who = action.arguments["customer"]
        again = who in talk.paid or any(a.arguments.get("customer") == who for a in before)
        return f"{who} was paid before" if again else None

    def observed(self, talk, action, result):
        if action.activity is pay:
            talk.paid.append(action.arguments["customer"])
        return super().observed(talk, action, result)

    def is_done(self, talk):
        return bool(talk.paid)

    async def answered(self, turn, talk, answer):
        await turn.say({"paid": len(talk.paid), "text": answer})
        await turn.complete({"paid": talk.paid})


def test_a_subclass_says_what_may_be_done_what_is_kept_and_when_it_is_over() -> None:
    twice = (ToolCall("", "pay", {"customer": "ann"}), ToolCall("", "pay", {"customer": "ann"}))
    agent = Careful(
        name="agent",
        version=1,
        model=FunctionModel(lambda _: Answer("paying", "m-1", Usage(), "tool", twice)),
        prompt="Pay.",
        tools=[pay],
        state=Book,
    )
    session = rehearse(agent)
    session.send("go", by="rita")
    session.approve("pay", by="boss")
    assert [m.content for m in session.state.messages] == [
        *("rita: go", "paying", "100 paid to ann"),
        "Not carried out: ann was paid before.",
    ]
    assert session.outcome == {"paid": ["ann"]}
    assert session.replies == [{"paid": 1, "text": "paying"}]


def test_arguments_that_are_given_are_neither_shown_nor_chosen() -> None:
    script = [
        ToolCall("", "pay", {"customer": "eve", "cents": 5}),
        [ToolCall("", "pay", {"cents": 5}), ToolCall("", "look", {"thing": "a"})],
        "done",
    ]
    agent = agent_of(
        ScriptedModel(script),
        tools=[look, pay],
        given={"customer": lambda message: message.data["customer"]},
    )
    (told,) = [spec.parameters for spec in agent.specs if spec.name == "pay"]
    assert set(told["properties"]) == {"cents"}
    assert told["properties"]["cents"]["default"] == 100
    session = rehearse(agent)
    session.send({"text": "pay me", "customer": "ann"})
    session.approve("pay", by="boss")
    assert [m.content for m in session.state.messages if m.role == "tool"] == [
        "Not carried out: pay takes no customer.",
        *("5 paid to ann", "a is there"),
    ]


@pytest.mark.parametrize("same", ["", "call_0", "no id at all!"])
def test_calls_have_ids_of_their_own_whatever_the_endpoint_says(same) -> None:
    twice = (ToolCall(same, "look", {"thing": "a"}), ToolCall(same, "look", {"thing": "b"}))
    script = [Answer("", "m-1", Usage(), "tool", twice)] * 2
    session = rehearse(agent_of(ScriptedModel([*script, "done", *script, "done"])))
    session.send("go")
    session.send("again")
    calls = [call.id for message in session.state.messages for call in message.calls]
    results = [m.call_id for m in session.state.messages if m.role == "tool"]
    assert (len(set(calls)), results) == (8, calls)
    assert all(id_.replace("-", "_").isidentifier() for id_ in calls)


def test_a_call_that_the_limit_of_tokens_has_cut_is_not_made() -> None:
    calls = (ToolCall("a", "look", {"thing": "a"}), ToolCall("b", "look", {"thing": "b"}))
    script = [Answer("", "m-1", Usage(), "length", calls), "done"]
    session = rehearse(agent_of(ScriptedModel(script)))
    session.send("go")
    assert [call.arguments["thing"] for call in session.calls("look")] == ["a"]
    assert "limit of tokens" in session.state.messages[3].content


def test_one_answer_holds_so_many_calls_and_so_much_of_their_results() -> None:
    many = [ToolCall("", "look", {"thing": "x"})] * (CALLS_MAX + 1)
    agent = agent_of(ScriptedModel([many, "done"]), result_characters_max=1_000)
    session = rehearse(agent, activities={"look": "x" * 5_000})
    session.send("go")
    results = [m.content for m in session.state.messages if m.role == "tool"]
    assert len(session.calls("look")) == CALLS_MAX
    assert results[-1].startswith(f"Not carried out: one answer may hold {CALLS_MAX} calls")
    assert results[0].endswith(f"\n(cut here: {5_000 - 4_000 // (CALLS_MAX + 1)} more characters)")


def test_an_approval_rule_that_raises_is_no_crash() -> None:
    @activity(contract=Write(), approval=Needs("boss", when=lambda cents: 1 / cents > 0))
    async def wire(cents: int) -> str:
        return "wired"

    script = [ToolCall("", "wire", {"cents": 0}), "done"]
    session = rehearse(agent_of(ScriptedModel(script), tools=[wire]))
    session.send("go")
    assert "its approval rule cannot be asked" in session.state.messages[2].content
    assert session.calls("wire") == []


def test_a_turn_without_a_message_is_told_to_the_model() -> None:
    agent = agent_of(ScriptedModel(["nothing new", "nothing at all"]))
    session = rehearse(agent)
    session.trigger("schedule", "nightly", {"day": 3})
    session.send("")
    assert [m.content for m in session.state.messages if m.role == "user"] == [
        '(schedule: nightly)\n{"day": 3}',
        "(an empty message)",
    ]
