"""Tools of a durable agent: what is known of them when it is declared, and what cannot get round their rules."""

from __future__ import annotations

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ExternalToolset,
    FunctionToolset,
    ModelRetry,
    ToolReturn,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls, ProcessHistory
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.external_events import wait_for_external_event
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from wakeful import Needs, Read, Write
from wakeful.agents import Unreachable
from wakeful.pydantic_ai import Rules, durable
from wakeful.testing import rehearse

from .durable_desk import Book, asked_for, called, desk, said, scripted

DONE = said("done")


class Parcel(BaseModel):
    to: str
    grams: int = 1


def sent(*answers, agent_options=None, tools=(), rules=None):
    """A session of an agent with these tools, after one message."""
    agent = Agent(scripted(*answers), name="tools", tools=tools, **(agent_options or {}))
    session = rehearse(durable(agent, version=1, tools=rules or {}))
    session.send("go", by="ann")
    return session


def parts_of(session):
    return [part for one in session.state.messages for part in one["parts"]]


def returned(session):
    return [part for part in parts_of(session) if part["part_kind"] == "tool-return"]


def test_a_tool_with_one_model_is_seen_by_people_as_its_function_is_written():
    def send(parcel: Parcel) -> str:
        return f"{parcel.grams} g to {parcel.to}"

    send.__annotations__ = {"parcel": Parcel, "return": str}
    session = sent(called(("send", {"to": "ann"})), DONE, tools=[send])
    [wait] = session.waits
    session.edit({"parcel": {"to": "bob", "grams": 2}}, by="sue")
    assert wait.name == "tools.send"
    assert returned(session)[0]["content"].endswith("\n2 g to bob")
    assert session.calls("tools.send")[0].arguments == {"parcel": {"to": "bob", "grams": 2}}


def test_what_a_tool_returns_for_the_model_alone_is_kept_as_the_library_keeps_it():
    def shows() -> ToolReturn:
        return ToolReturn({"n": 1}, content=["look at this"], metadata={"for": "us"})

    session = sent(called(("shows", {})), DONE, tools=[shows], rules={"shows": Rules(Read())})
    [part] = returned(session)
    assert (part["content"], part["metadata"]) == ({"n": 1}, {"for": "us"})
    assert [p["content"] for p in parts_of(session) if p["part_kind"] == "user-prompt"] == [
        "go",
        ["look at this"],
    ]


def test_a_tool_that_may_not_ask_for_another_try_ends_the_turn_at_its_first():
    def strict() -> str:
        raise ModelRetry("no")

    agent = Agent(scripted(called(("strict", {})), DONE), name="tools")
    agent.tool_plain(retries=0)(strict)
    session = rehearse(durable(agent, version=1, tools={"strict": Rules(Write(), approval=None)}))
    session.send("go")
    assert returned(session)[0]["content"] == "no"
    assert session.replies == [
        "I cannot go on (TooManyRetries: 'strict' was wrong 1 times, and may be 0)."
    ]


def test_a_tool_that_succeeds_begins_its_count_anew():
    looks = called(("look", {"what": 5}))
    session, _ = asked_for(looks, called(("look", {"what": "it"})), looks, DONE)
    assert [part["outcome"] for part in returned(session)] == ["retried", "success", "retried"]
    assert session.replies == ["done"]


async def _defers() -> str:
    raise CallDeferred


async def _waits() -> str:
    return str(await wait_for_external_event("yes", ask=lambda token: None))


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        (_defers, "asked for its call to be made elsewhere"),
        (_waits, "would wait for an external event inside an attempt"),
    ],
)
def test_a_tool_that_would_wait_in_process_has_failed(tool, why):
    name = tool.__name__
    session = sent(called((name, {})), DONE, tools=[tool], rules={name: Rules(Read())})
    [part] = returned(session)
    assert part["outcome"] == "failed"
    assert why in part["content"]
    assert session.replies == ["done"]


def test_a_capability_of_the_agents_that_approves_everything_approves_nothing_here():
    async def yes(ctx, requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(
            approve_all=True, calls={call.tool_call_id: "yes" for call in requests.calls}
        )

    book = Book()
    generous = {"capabilities": [HandleDeferredToolCalls(handler=yes)]}
    pays = called(("refund", {"order": 7, "cents": 8}))
    session = rehearse(desk(scripted(pays, DONE), book, agent=generous))
    session.send("Order 7")
    assert [wait.name for wait in session.waits] == ["desk.refund"]
    assert book.calls == []


def test_a_history_that_is_shortened_for_the_model_is_kept_whole():
    seen = []

    def newest(messages):
        seen.append(len(messages))
        return messages[-1:]

    def answer(messages, info):
        return said(f"answer {len(seen)}")

    agent = Agent(FunctionModel(answer), name="short", capabilities=[ProcessHistory(newest)])
    session = rehearse(durable(agent, version=1))
    for text in ("one", "two", "three"):
        session.send(text)
    assert [part["content"] for part in parts_of(session)] == [
        "one",
        "answer 1",
        "two",
        "answer 2",
        "three",
        "answer 3",
    ]
    assert seen == [1, 3, 5]


def test_what_is_not_reached_is_told_in_the_words_of_the_model_port():
    def answer(messages, info):
        raise ModelAPIError("m", "no line")

    session = rehearse(durable(Agent(FunctionModel(answer), name="far"), version=1))
    session.send("hello")
    session.skip("1m")
    assert session.replies == [f"I cannot go on ({Unreachable.__name__}: m: no line)."]
    assert len(session.calls("far.v1.model")) == 4


def gated() -> str:
    return ""


@pytest.mark.parametrize(
    ("agent", "options", "why"),
    [
        (Agent(TestModel()), {}, "has no name"),
        (Agent(name="a"), {}, "has no model"),
        ("desk", {}, r"give a pydantic_ai\.Agent"),
        (Agent(TestModel(), name="a"), {"tools": {"pay": Rules()}}, "its tools are: none"),
        (Agent(TestModel(), name="a", tools=[gated]), {"tools": {"gated": Read()}}, "write Rules"),
        (Agent(TestModel(), name="a", toolsets=[ExternalToolset([])]), {}, "ExternalToolset"),
        (
            Agent(TestModel(), name="a", toolsets=[FunctionToolset([gated]).prefixed("x")]),
            {},
            "Prefixed",
        ),
        (Agent(TestModel(), name="a"), {"deps": 7}, "give a function of 'access'"),
        (Agent(TestModel(), name="a"), {"on_uncertain": "ask"}, "'wait'"),
    ],
)
def test_what_cannot_work_is_declined_where_it_is_declared(agent, options, why):
    with pytest.raises(TypeError, match=why):
        durable(agent, version=1, **options)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(Read()),
        Rules(Write(), approval=None),
        Rules(Write(), approval=Needs("supervisor", when=lambda order, cents: cents > 5)),
    ],
)
def test_rules_cannot_let_pass_what_the_agent_wants_approved(rules):
    with pytest.raises(TypeError, match="requires_approval=True, and its rules let calls pass"):
        desk(scripted(DONE), Book(), tools={"refund": rules})


def test_two_tools_of_one_name_are_results_of_their_own():
    session, _ = asked_for(called(("look", {"what": "a"}), ("look", {"what": "b"})), DONE)
    assert [part["content"] for part in returned(session)] == ["a seen", "b seen"]
