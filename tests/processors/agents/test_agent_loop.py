"""The agent loop in rehearsals: budgets, steering, stretches, summaries, and a crash at every step."""

from itertools import pairwise
from typing import Any

import pytest

from wakeful import Needs
from wakeful.agents import (
    Answer,
    ChatMessage,
    FunctionModel,
    RequestRejected,
    ScriptedModel,
    ToolCall,
    Usage,
)
from wakeful.processors.agents.conversation import SUMMARY_HEAD
from wakeful.processors.agents.stretch import KEPT_MESSAGES, STRETCH_STEPS, SUMMARISE
from wakeful.testing import NO_ANSWER, rehearse

from .looking import agent_of, asked, look, looks, pay


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
