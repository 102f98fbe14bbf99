"""The agent loop in rehearsals: budgets, steering, summaries, stretches, answers of a type, and what it is declared with."""

from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel

from wakeful import Message, Needs, Read, Write, activity
from wakeful.agents import (
    AgentLoop,
    Answer,
    ChatMessage,
    Conversation,
    FunctionModel,
    RequestRejected,
    ScriptedModel,
    ToolCall,
    Usage,
)
from wakeful.processors.activities.signatures import Declined
from wakeful.processors.agents.conversation import SUMMARY_HEAD
from wakeful.processors.agents.stretch import CALLS_MAX, KEPT_MESSAGES, STRETCH_STEPS, SUMMARISE
from wakeful.processors.app import gather
from wakeful.testing import NO_ANSWER, Held, rehearse


@activity(contract=Read())
async def look(thing: str) -> str:
    """Looks at a thing.

    It may take a while.
    """
    return f"{thing} is there"


@activity(contract=Write(idempotent=True), approval=Needs("boss"))
async def pay(customer: str, cents: int = 100, *, key: str) -> str:
    return f"{cents} paid to {customer}"


def looks(times: int = 10**9, **usage: int) -> FunctionModel:
    """Looks at something so many times in each turn, and then says how often."""

    def answer(messages: list[ChatMessage]) -> Answer:
        turn = max(n for n, m in enumerate(messages) if m.role == "user")
        looked = sum(len(message.calls) for message in messages[turn:])
        if looked < times:
            calls = (ToolCall("", "look", {"thing": f"whale {len(messages)}"}),)
            return Answer("", "m-1", Usage(**usage), "tool", calls)
        return Answer(f"looked {looked} times", "m-1", Usage(**usage))

    return FunctionModel(answer)


def agent_of(model: Any, **more: Any) -> AgentLoop:
    told = {"name": "agent", "version": 1, "prompt": "Look.", "tools": [look]}
    return AgentLoop(**{**told, "model": model, **more})


def asked(session: Any, agent: AgentLoop) -> list[list[dict]]:
    return [call.arguments["messages"] for call in session.calls(agent.thinks.name)]


# Budgets


def test_a_turn_that_has_used_its_steps_waits_for_somebody_who_lets_it_go_on() -> None:
    session = rehearse(agent_of(looks(5), steps_max=3))
    session.send("go")
    assert [(wait.kind, wait.name) for wait in session.waits] == [("approval", "agent.v1.go_on")]
    assert session.events[-2].approver == "supervisor"
    assert len(session.calls("look")) == 3
    session.approve()
    assert session.replies == ["looked 5 times"]
    session.send("again")  # a new turn has all of it again
    assert len(session.calls("look")) == 8
    assert session.status == "Waiting"


def test_whoever_lets_it_go_on_may_give_it_less() -> None:
    session = rehearse(agent_of(looks(), steps_max=3))
    session.send("go")
    session.edit({"steps": 1, "tokens": 0}, by="sue")
    assert len(session.calls("look")) == 4
    assert session.status == "Waiting"


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda s: s.reject(by="sue", comment="too dear"), "sue declined it: too dear"),
        (lambda s: s.respond("ask me tomorrow", by="sue"), "sue answers instead: ask me tomorrow"),
        (lambda s: s.expire(), "nobody approved it in time"),
    ],
)
def test_where_nobody_lets_it_go_on_the_turn_ends_and_says_so(end, why) -> None:
    agent = agent_of(looks(), steps_max=2)
    session = rehearse(agent)
    session.send("go")
    end(session)
    assert session.replies == [f"I have stopped before I was done: {why}."]
    assert session.status == "Suspended"
    session.send("go on, then")
    assert [m["role"] for m in asked(session, agent)[-1][-4:]] == [
        *("assistant", "user", "assistant", "tool")
    ]


@pytest.mark.parametrize(
    ("usage", "calls"), [({"input_tokens": 90, "output_tokens": 10}, 3), ({}, 8)]
)
def test_tokens_are_counted_by_the_endpoint_or_guessed(usage, calls) -> None:
    session = rehearse(agent_of(looks(**usage), tokens_max=300))
    session.send("go")
    (proposal,) = session.waits
    assert proposal.name == "agent.v1.go_on"
    assert len(session.calls("look")) == calls
    session.approve()
    assert len(session.calls("look")) > calls


def test_the_budget_belongs_to_whom_the_agent_says() -> None:
    agent = agent_of(looks(), steps_max=1, budget=Needs("owner", expires="2h", quorum=2))
    session = rehearse(agent)
    session.send("go")
    assert session.events[-2].approver == "owner"
    session.approve(by="ann")
    session.approve(by="bob")
    assert len(session.calls("look")) == 2


# Steering, stretches, summaries


def test_what_is_sent_during_a_turn_is_put_in_before_the_model_is_asked_again() -> None:
    agent = agent_of(looks(2))
    session = rehearse(agent, activities={"look": [NO_ANSWER, "seen", "seen", "seen"]})
    session.send("go")
    session.send("only blue ones")
    session.send("and quickly")
    session.answer("look", "seen")
    second = asked(session, agent)[1]
    assert [m["content"] for m in second[-3:]] == ["seen", "only blue ones", "and quickly"]
    assert session.facts.count("TurnStarted") == 1
    assert session.status == "Suspended"


def test_a_long_turn_goes_on_in_stretches_and_its_requests_only_grow() -> None:
    agent = agent_of(looks(2 * STRETCH_STEPS + 1))
    session = rehearse(agent)
    session.send("go")
    assert session.facts.count("TurnContinued") == 2
    assert session.replies == [f"looked {2 * STRETCH_STEPS + 1} times"]
    requests = asked(session, agent)
    assert len(requests) == 2 * STRETCH_STEPS + 2
    for before, after in pairwise(requests):
        assert after[: len(before)] == before


CALLING = Answer("", "m-1", Usage(), "tool", (ToolCall("", "look", {"thing": "x"}),))


def test_a_conversation_of_200_calls_grows_the_history_by_what_is_new() -> None:
    agent = agent_of(looks(200), steps_max=None, compact_above=None)
    session = rehearse(agent, activities={"look": "x" * 500}, always_replay=False)
    session.send("go")
    assert session.replies == ["looked 200 times"]
    sizes = [len(one.encoded.body) for one in session._engine.log]
    half = len(sizes) // 2
    assert sum(sizes[half:]) <= 1.1 * sum(sizes[:half])
    assert max(sizes) < 8_000


def summing(messages: list[ChatMessage]) -> Answer:
    if messages[-1].content == SUMMARISE:
        return Answer(f"{len(messages)} messages", "m-1")
    looked = len(messages)
    calls = (ToolCall("", "look", {"thing": f"whale {looked} {'x' * 200}"}),)
    return Answer("", "m-1", Usage(), "tool", calls)


def test_above_its_size_a_summary_takes_the_place_of_the_older_part() -> None:
    agent = agent_of(FunctionModel(summing), compact_above=2_000, steps_max=40)
    session = rehearse(agent)
    session.send("go")
    requests = asked(session, agent)
    summaries = [n for n, r in enumerate(requests) if r[-1]["content"] == SUMMARISE]
    assert len(summaries) >= 2
    for at in summaries:
        whole, left = requests[at], requests[at + 1]
        assert left[1]["content"] == f"{SUMMARY_HEAD}\n{len(whole)} messages"
        assert left[2:] == whole[-len(left) + 1 : -1], "the newest messages stay as they are"
        assert left[2]["role"] != "tool"
        assert len(left) <= KEPT_MESSAGES + 3
        assert whole[:-1][: len(requests[at - 1])] == requests[at - 1], "the list only grows"
    said = [r for r in session.facts if r == "ActivityCompleted"]
    assert len(said) == len(requests) + len(session.calls("look")), "nothing of the history is gone"


@pytest.mark.parametrize("answer", [RequestRejected("too long"), CALLING])
def test_a_summary_that_fails_leaves_the_transcript_as_it_is(answer) -> None:
    def model(messages: list[ChatMessage]) -> Any:
        if messages[-1].content == SUMMARISE:
            return answer
        return summing(messages) if len(messages) < 50 else "done"

    agent = agent_of(FunctionModel(model), compact_above=1_000, steps_max=None)
    session = rehearse(agent)
    session.send("go")
    assert session.replies == ["done"]
    assert [m.content for m in session.state.messages if SUMMARY_HEAD in m.content] == []
    assert 1 < sum(r[-1]["content"] == SUMMARISE for r in asked(session, agent)) < 8


def test_one_huge_message_is_summarised_too() -> None:
    def model(messages: list[ChatMessage]) -> str:
        return "it was long" if messages[-1].content == SUMMARISE else "yes"

    agent = agent_of(FunctionModel(model), compact_above=1_000)
    session = rehearse(agent)
    session.send("hello")
    session.send("x" * 10_000)
    assert session.replies == ["yes", "yes"]
    session.send("and now?")
    assert [m.content for m in session.state.messages] == [
        f"{SUMMARY_HEAD}\nit was long",
        *("yes", "and now?", "yes"),
    ]


def test_a_summary_is_a_step_of_the_budget() -> None:
    agent = agent_of(FunctionModel(summing), compact_above=2_000, steps_max=25)
    session = rehearse(agent)
    session.send("go")
    requests = asked(session, agent)
    assert [wait.name for wait in session.waits] == ["agent.v1.go_on"]
    assert len(requests) == 25
    assert len(session.calls("look")) < 25


# Crashes


def story(session: Any) -> None:
    session.send("go")
    session.approve("pay", by="boss")
    session.send("by the way")
    session.reject("pay", by="boss")
    session.approve("agent.v1.go_on")


PLAYED = [
    Answer(
        "",
        "m-1",
        Usage(),
        "tool",
        (
            ToolCall("", "look", {"thing": "a"}),
            ToolCall("", "pay", {"customer": "b"}),
            ToolCall("", "pay", {"cents": 1}),
        ),
    ),
    Answer(
        "",
        "m-1",
        Usage(),
        "tool",
        (ToolCall("", "pay", {"customer": "c", "cents": 2}), ToolCall("", "nope", {})),
    ),
    Answer("that was all", "m-1"),
]


def played(crash: Any = None) -> Any:
    agent = agent_of(ScriptedModel([]), tools=[look, pay], steps_max=2)
    session = rehearse(agent, activities={agent.thinks.name: PLAYED})
    if crash is not None:
        crash(session)
    story(session)
    return session


def test_a_crash_at_any_step_leaves_the_same_history() -> None:
    whole = played()
    assert whole.replies == ["that was all"]
    steps = max(getattr(event, "step", 0) or 0 for event in whole.events)
    assert steps >= 9
    for step in range(1, steps + 1):
        cut = played(lambda session, at=step: session.crash_at(at))
        assert cut.events == whole.events, f"crashed at step {step}"
    everywhere = played(lambda session: session.crash_everywhere())
    assert everywhere.events == whole.events


def test_a_model_that_fails_for_good_ends_the_turn_and_not_the_session() -> None:
    agent = agent_of(FunctionModel(lambda _: RequestRejected("no such model")))
    session = rehearse(agent)
    session.send("go")
    assert session.replies == ["I cannot go on: the model gave no answer (RequestRejected)."]
    session.fake(agent.thinks.name, Answer("here I am", "m-1"))
    session.send("are you there?")
    assert session.replies[-1] == "here I am"


# Answers


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


# What comes with an answer


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


# What it is declared with


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
        ({"tools": [answering], "output": Verdict}, "has output=, and a tool 'answer' as well"),
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
