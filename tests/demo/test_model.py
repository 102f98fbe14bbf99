"""The script that plays the model, call by call, and the setting that puts an endpoint in its place."""

import asyncio

import pytest

from wakeful.agents import (
    ChatMessage,
    Cut,
    OpenAIModel,
    ScriptedModel,
    StreamCut,
    ToolCall,
    chat,
)
from wakeful.deploy.demo.messages import own_messages
from wakeful.deploy.demo.model import NotedModel, decide, model_from, thought, verdict
from wakeful.deploy.demo.papers import Papers
from wakeful.deploy.demo.refund_desk.desk import Reply
from wakeful.testing import attempt


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I was charged twice.", "refund"),
        ("返金してください", "refund"),
        ("This is unacceptable!", "complaint"),
        ("Where is my card?", "question"),
        ("I cannot make transactions with my virtual card.", "question"),
        ("hi", "other"),
        ("", "other"),
        ("\ud83d\x00", "other"),
    ],
)
def test_the_script_sorts_by_what_is_written(text: str, kind: str) -> None:
    assert verdict(text).kind == kind
    first = asyncio.run(thought([ChatMessage("user", text)]))
    assert asyncio.run(thought([ChatMessage("user", text)])) == first


@pytest.mark.parametrize(
    ("text", "earlier", "order_id"),
    [
        ("Refund order 1003, please.", "", "1003"),
        ("Bestellung Nr. 1006 erstatten", "", "1006"),
        ("注文 1008 を返金してください", "", "1008"),
        ("refund #1009", "", "1009"),
        ("I want my 1500 back", "", None),
        ("Sorry, of course: 1011", "I want my money back", "1011"),
        ("the blue one", "I want my money back", None),
    ],
)
def test_the_script_reads_the_order_s_number(text: str, earlier: str, order_id) -> None:
    assert verdict(text, earlier).order_id == order_id


def test_a_number_answers_what_was_asked_back() -> None:
    assert verdict("1011", "I want my money back").kind == "refund"
    assert verdict("1011").kind == "other"
    assert verdict("Thank you!", "I want my money back").kind == "other"


def test_the_demo_s_own_messages_are_of_every_kind() -> None:
    kinds = [verdict(message.text).kind for message in own_messages()]
    assert min(kinds.count(kind) for kind in ("refund", "complaint", "question", "other")) >= 3


ORDER = '{"id": "1009", "item": "sofa", "cents": 64900}'
LETTER = "We have paid back 649.00 for your sofa, order 1009."


def after(*results: tuple[str, str]) -> ToolCall:
    """What the script wants after these tools and their results."""
    messages = [ChatMessage("system", "x"), ChatMessage("user", "Refund order 1009.")]
    for name, result in results:
        messages.append(ChatMessage("assistant", "", (ToolCall("c", name, {}),)))
        messages.append(ChatMessage("tool", result, call_id="c"))
    return decide(messages)


@pytest.mark.parametrize(
    ("results", "name", "arguments"),
    [
        ([], "find_order", {"order_id": "1009"}),
        ([("find_order", ORDER)], "refund", {"order_id": "1009", "cents": 64_900}),
        (
            [("find_order", ORDER), ("refund", "ch_1")],
            "write_letter",
            {"text": f"{LETTER} Our reference is ch_1."},
        ),
        (
            [
                ("find_order", ORDER),
                ("refund", 'sue has changed the arguments to {"cents": 500}.\nch_1'),
            ],
            "write_letter",
            {"text": f"{LETTER.replace('649.00', '5.00')} Our reference is ch_1."},
        ),
        (
            [("find_order", ORDER), ("refund", "ch_1"), ("write_letter", "name")],
            "answer",
            {"decision": "refunded", "text": LETTER},
        ),
    ],
)
def test_the_script_goes_from_the_order_to_the_answer(results, name, arguments) -> None:
    call = after(*results)
    assert (call.name, call.arguments) == (name, arguments)


@pytest.mark.parametrize(
    ("results", "decision"),
    [
        ([("find_order", "null")], "asked back"),
        ([("find_order", "Failed (ShopClosed): no answer")], "asked back"),
        ([("find_order", ORDER), ("refund", "Not carried out: sue declined it.")], "declined"),
        ([("find_order", ORDER), ("refund", "Failed (PaymentsUnavailable): no")], "declined"),
        (
            [("find_order", ORDER), ("refund", "Not carried out: order 1009 was refunded before.")],
            "answered",
        ),
    ],
)
def test_the_script_answers_honestly_where_nothing_was_paid(results, decision) -> None:
    call = after(*results)
    assert call.name == "answer"
    assert Reply.model_validate(call.arguments).decision == decision


def test_the_environment_chooses_the_model() -> None:
    assert model_from({}).name == "scripted-2"
    given = {"WAKEFUL_MODEL": "http://localhost:1/v1/chat/completions", "WAKEFUL_MODEL_NAME": "m"}
    chosen = model_from(given)
    assert isinstance(chosen, OpenAIModel)
    assert (chosen.name, chosen._base_url) == ("m", "http://localhost:1/v1")
    with pytest.raises(ValueError, match="WAKEFUL_MODEL=file"):
        model_from({"WAKEFUL_MODEL": "file:///etc/passwd"})
    with pytest.raises(ValueError, match="WAKEFUL_MODEL_NAME is not"):
        model_from({"WAKEFUL_MODEL": "http://localhost:1"})


def test_each_call_is_noted_and_its_answer_names_it(tmp_path) -> None:
    papers = Papers(tmp_path)
    model = NotedModel(ScriptedModel([Cut("We wi"), "We will."]), lambda: papers)
    asks = chat(model, name="asks").function
    with attempt(), pytest.raises(StreamCut):
        asyncio.run(asks([ChatMessage("user", "hi")]))
    with attempt():
        answer = asyncio.run(asks([ChatMessage("user", "hi")]))
    assert [line.at for line in papers.calls()] == ["start", "failed", "start", "end"]
    assert {line.key for line in papers.calls()} == {"test/test/1/1"}
    assert answer.id == papers.calls()[-1].call
