"""An agent of Pydantic AI as a workflow: each request to its model and each call of a tool is recorded, and done once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from pydantic_ai import Agent, ApprovalRequired, ModelMessagesTypeAdapter, ModelRetry, RunContext
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import UsageLimits

from wakeful import Needs, NothingDone, Read, Write
from wakeful.events.records import ActivityRequested
from wakeful.processors.testing.attempts import within
from wakeful.pydantic_ai import Rules, durable
from wakeful.testing import NO_ANSWER, rehearse

from .conftest import DIGEST_KEY, task_of
from .durable_desk import Book, Verdict, asked_for, called, desk, results, said, scripted

LOOKS = called(("find_order", {"order": 7}), ("look", {"what": "broken"}))
PAYS = called(("refund", {"order": 7, "cents": 800}))
DONE = said("Your money is on its way.")


def history(session):
    return ModelMessagesTypeAdapter.validate_python(session.state.messages)


def as_a_worker_would(activity, key):
    """The activity's function, in an attempt of its own."""

    async def run(*given):
        action = activity.call(*given)
        task = replace(task_of(action), idempotency_key=key)
        with within(task, DIGEST_KEY):
            return await activity.function(**activity.typed(action.arguments))

    return run


def told(session):
    """What the model was shown of each call, by its id."""
    return {part.tool_call_id: part for part in results(history(session))}


def test_requests_and_calls_are_activities_and_the_history_is_that_of_the_library():
    session, _ = asked_for(LOOKS, PAYS, DONE)
    session.approve(by="sue")
    assert session.replies == ["Your money is on its way."]
    assert len(session.calls("desk.v1.model")) == 3
    assert [call.arguments for call in session.calls("desk.find_order")] == [{"order": 7}]
    assert [call.arguments for call in session.calls("desk.refund")] == [{"order": 7, "cents": 800}]
    messages = history(session)
    assert [type(one) for one in messages] == [ModelRequest, ModelResponse] * 3
    assert [part.content for part in results(messages)] == [
        {"order": 7, "of": "ann", "writes": False},
        "Failed (OSError): no line",
        "800 paid back for 7",
    ]
    assert [part.outcome for part in results(messages)] == ["success", "failed", "success"]
    assert (session.state.turn, session.state.usage, session.state.unheard) == (0, {}, [])


def test_the_next_turn_goes_on_from_the_history_and_requests_only_grow():
    session, _ = asked_for(LOOKS, DONE, said("Nothing more."))
    before = session.state.messages
    session.send("And now?")
    assert session.state.messages[: len(before)] == before
    asked = [call.arguments["messages"] for call in session.calls("desk.v1.model")]
    assert all(later[: len(one)] == one for one, later in pairwise(asked))
    prompts = [
        part for one in history(session) for part in one.parts if isinstance(part, UserPromptPart)
    ]
    assert [part.content for part in prompts] == ["Order 7 came broken.", "And now?"]


@pytest.mark.parametrize("step", range(1, 9))
def test_a_crash_between_any_two_operations_changes_nothing(step):
    book = Book()
    session = rehearse(desk(scripted(LOOKS, PAYS, DONE, book=book), book))
    session.crash_at(step)
    session.send("Order 7 came broken.", by="ann")
    session.approve(by="sue")
    assert session.replies == ["Your money is on its way."]
    assert list(book.paid.values()) == [800]
    assert [type(one) for one in history(session)] == [ModelRequest, ModelResponse] * 3
    assert [crash.step for crash in session.crashes] == [step]


def test_a_deploy_of_the_same_agent_between_any_two_operations_changes_nothing():
    book = Book()
    session = rehearse(desk(scripted(LOOKS, PAYS, DONE, book=book), book))
    names = [
        "desk.v1.model",
        "desk.find_order",
        "desk.look",
        "desk.v1.model",
        "desk.refund",
        "desk.v1.model",
    ]
    for name in dict.fromkeys(names):
        session.fake(name, NO_ANSWER)
    session.send("Order 7 came broken.", by="ann")
    for name in names:
        if name == "desk.refund":
            session.approve(by="sue")
        assert name in [wait.name for wait in session.waits]
        again = desk(scripted(LOOKS, PAYS, DONE, book=book), book)
        session.redeploy(again)
        known = {one.activity.name: one.activity for one in again.tools.values()}
        activity = known.get(name, again.asks)
        session.answer(name, as_a_worker_would(activity, session.calls(name)[-1].key))
    assert session.replies == ["Your money is on its way."]
    assert book.asked == 3
    assert list(book.paid.values()) == [800]


def test_a_call_that_was_cut_is_not_made_again_where_its_rules_say_so():
    book = Book()
    session = rehearse(desk(scripted(PAYS, DONE), book, tools={"refund": Rules()}))
    session.crash_at(3)
    session.send("Order 7 came broken.", by="ann")
    session.approve(by="sue")
    session.skip("1h")
    assert [wait.kind for wait in session.waits] == ["uncertain"]
    session.resolve("desk.refund", NothingDone("it was not paid"))
    assert session.replies == ["Your money is on its way."]
    assert told(session)["refund-0"].outcome == "failed"


@pytest.mark.parametrize(
    ("decide", "content", "paid"),
    [
        (
            lambda s: s.reject(by="sue", comment="too dear"),
            "Not carried out: sue declined it: too dear.",
            [],
        ),
        (
            lambda s: s.respond("ask tomorrow", by="sue"),
            "Not carried out: sue answers instead: ask tomorrow.",
            [],
        ),
        (lambda s: s.expire(), "Not carried out: nobody approved it in time.", []),
        (
            lambda s: s.edit({"order": 7, "cents": 8}, by="sue"),
            'sue has changed the arguments to {"cents": 8, "order": 7}.\n8 paid back for 7',
            [8],
        ),
    ],
)
def test_what_people_decide_is_what_the_model_reads(decide, content, paid):
    session, book = asked_for(PAYS, DONE)
    decide(session)
    part = told(session)["refund-0"]
    assert part.content == content
    assert part.outcome == ("success" if paid else "denied")
    assert list(book.paid.values()) == paid
    assert session.replies == ["Your money is on its way."]


def test_calls_of_one_answer_wait_for_their_own_approvals_and_keep_their_order():
    pays = called(*(("refund", {"order": n, "cents": n}) for n in (1, 2, 3)))
    session, book = asked_for(pays, DONE)
    assert [wait.name for wait in session.waits] == ["desk.refund"] * 3
    one, two, three = (wait.id for wait in session.waits)
    session.approve(three, by="sue")
    session.reject(two, by="sue")
    session.approve(one, by="sue")
    parts = results(history(session))
    assert [part.tool_call_id for part in parts] == ["refund-0", "refund-1", "refund-2"]
    assert [part.outcome for part in parts] == ["success", "denied", "success"]
    assert list(book.paid.values()) == [3, 1]


def test_a_tool_that_wants_another_try_tells_the_model_as_often_as_it_may():
    dear = called(("refund", {"order": 7, "cents": 5_000}))
    session, book = asked_for(dear, dear, DONE)
    session.approve(by="sue")
    session.approve(by="sue")
    assert told(session)["refund-0"].outcome == "retried"
    assert session.replies == [
        "I cannot go on (TooManyRetries: 'refund' was wrong 2 times, and may be 1)."
    ]
    assert book.paid == {}


def test_wrong_arguments_are_told_by_the_library_and_nobody_is_asked_for_them():
    wrong = called(("refund", {"order": "seven", "cents": 1}), ("nothing", {}))
    session, _ = asked_for(wrong, PAYS, DONE)
    assert [wait.name for wait in session.waits] == ["desk.refund"]
    session.reject(by="sue")
    wrong, parts = results(history(session))[0], told(session)
    assert wrong.retry.cause == "validation_error"
    assert parts["nothing-1"].retry.cause == "unknown_tool"
    assert len(session.calls("desk.v1.model")) == 3


def test_an_output_of_a_type_is_asked_for_until_it_fits_and_each_request_is_recorded():
    book = Book()
    bad = called(("final_result", {"paid": "much", "why": "x"}))
    good = called(("final_result", {"paid": 3, "why": "broken"}))
    session = rehearse(desk(scripted(bad, good, book=book), book, agent={"output_type": Verdict}))
    session.send("Order 7")
    assert session.replies == [{"paid": 3, "why": "broken"}]
    assert len(session.calls("desk.v1.model")) == 2
    assert book.asked == 2

    session = rehearse(desk(scripted(bad, bad, bad), Book(), agent={"output_type": Verdict}))
    session.send("Order 7")
    assert "TooManyRetries: 'final_result' was wrong 2 times" in session.replies[0]


def test_an_output_validator_runs_and_its_text_is_a_request_of_its_own():
    book = Book()
    workflow = desk(scripted(said("no"), said("yes"), book=book), book)

    @workflow.agent.output_validator
    def polite(text: str) -> str:
        if text == "no":
            raise ModelRetry("say yes")
        return text

    session = rehearse(workflow)
    session.send("Order 7")
    assert session.replies == ["yes"]
    assert len(session.calls("desk.v1.model")) == 2


def test_limits_count_for_the_whole_turn():
    looks = called(("look", {"what": "it"}))
    session, book = asked_for(*[looks] * 9, limits=UsageLimits(request_limit=6))
    assert session.replies[0].startswith("I cannot go on (UsageLimitExceeded: ")
    assert book.asked == 6
    session, _ = asked_for(*[looks] * 9, limits=UsageLimits(tool_calls_limit=2))
    assert len(session.calls("desk.look")) == 2
    assert "tool_calls_limit" in session.replies[0]


def test_a_long_turn_goes_on_in_stretches_and_grows_the_history_by_what_is_new():
    looks = [called(("look", {"what": "x" * 200}))] * 16
    session, _ = asked_for(*looks, DONE)
    requests = [
        one.arguments.inline
        for one in session.events
        if isinstance(one, ActivityRequested) and one.name == "desk.v1.model"
    ]
    assert len(requests) == 17
    assert sum(map(len, requests[9:17])) <= sum(map(len, requests[1:9]))
    assert len(history(session)) == 34


def test_a_turn_that_failed_loses_no_message():
    session, _ = asked_for(said("Here I am."), text="Hello", limits=UsageLimits(request_limit=0))
    session.send("Are you there?")
    assert session.state.unheard == ["Hello", "Are you there?"]
    session.redeploy(desk(scripted(said("Here I am.")), Book()))
    session.send("Hm")
    assert history(session)[0].parts[0].content == ["Hello", "Are you there?", "Hm"]
    assert session.replies[-1] == "Here I am."


def test_messages_that_come_meanwhile_are_put_in_before_the_model_is_asked_again():
    session, _ = asked_for(PAYS, DONE)
    session.send("Hurry!")
    session.approve(by="sue")
    assert [part.content for part in history(session)[3].parts] == ["Hurry!"]
    assert session.replies == ["Your money is on its way."]


def test_a_tool_without_rules_is_called_at_most_once_and_approved_before():
    agent = Agent(TestModel(), name="plain", system_prompt="Be kind.")

    @agent.tool_plain
    def wire(cents: int) -> str:
        return "wired"

    made = durable(agent, version=1)
    activity = made.tools["wire"].activity
    assert activity.contract == Write()
    assert activity.approval == Needs("supervisor")
    session = rehearse(made)
    session.send("Pay.")
    session.approve(by="sue")
    assert session.replies == ['{"wire":"wired"}']
    assert isinstance(history(session)[0].parts[0], SystemPromptPart)
    assert dict(made.versions) == {
        "pydantic-ai": dict(made.versions)["pydantic-ai"],
        "model": "test",
        "tool wire": made.tools["wire"].version,
    }


def test_a_tool_that_wants_an_approval_by_itself_does_not_pass_for_approved():
    done = []
    agent = Agent(scripted(called(("wire", {"cents": 5})), DONE), name="bank")

    @agent.tool
    def wire(ctx: RunContext[None], cents: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        done.append(cents)
        return "wired"

    free = Rules(Write(idempotent=True), approval=None)
    session = rehearse(durable(agent, version=1, tools={"wire": free}))
    session.send("Pay.")
    assert (
        "asked for an approval, which its rules do not provide for"
        in told(session)["wire-0"].content
    )
    large = Needs("supervisor", when=lambda cents: cents > 3)
    asked = Rules(Write(idempotent=True), approval=large)
    session = rehearse(durable(agent, version=1, tools={"wire": asked}))
    session.send("Pay.")
    session.approve(by="sue")
    assert done == [5]


def test_two_agents_live_in_one_app_and_one_version_beside_the_next():
    book = Book()
    first = desk(scripted(LOOKS, said("one")), book)
    second = desk(scripted(LOOKS, said("two")), book, version=2, prefix="desk2.")
    other = durable(Agent(TestModel(call_tools=[]), name="other"), version=1)
    session = rehearse(first, other, workflow="desk")
    session.send("Hello")
    session.redeploy(first, second, other)
    session.send("Hello")
    assert session.replies[0] == "one"
    assert [call.name for call in session.calls("desk2.look")] == []
    assert rehearse(other).send("Hello") is None


def test_sequential_tools_run_alone():
    order = []
    agent = Agent(scripted(called(("a", {}), ("b", {}), ("a", {})), DONE), name="rows")

    @agent.tool_plain
    def a() -> str:
        order.append("a")
        return "a"

    @agent.tool_plain(sequential=True)
    def b() -> str:
        order.append("b")
        return "b"

    session = rehearse(durable(agent, version=1, tools={"a": Rules(Read()), "b": Rules(Read())}))
    session.fake("rows.b", NO_ANSWER)
    session.send("go")
    assert order == ["a"]
    assert [wait.name for wait in session.waits] == ["rows.b"]


def test_a_model_that_fails_for_good_ends_the_turn_and_one_that_may_pass_is_asked_again():
    fails = [ModelHTTPError(503, "m"), ModelHTTPError(400, "m")]

    def answer(messages, info):
        raise fails.pop(0)

    session = rehearse(durable(Agent(FunctionModel(answer), name="sad"), version=1))
    session.send("Hello")
    assert session.waits[0].expiry == "runs as attempt 2 of 4"
    session.skip("2s")
    assert session.replies[0].startswith("I cannot go on (RequestRejected: ")
    assert fails == []
