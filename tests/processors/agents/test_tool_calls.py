"""Tools through both adapters, and through scripts: what is sent, what is read, and what no log could hold."""

import asyncio
import json

import pytest

from wakeful import Read, activity
from wakeful.agents import (
    AgentLoop,
    Answer,
    AnthropicModel,
    ChatMessage,
    Chunk,
    FunctionModel,
    OpenAIModel,
    ScriptedModel,
    ToolCall,
    ToolSpec,
    Usage,
    chat,
    evidence_of,
)
from wakeful.processors.agents.calls import DEPTH_MAX, read_arguments
from wakeful.testing import rehearse

from .conftest import attempt
from .fake_endpoint import Says, events

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
FIND = ToolSpec("find", "Finds an order.", SCHEMA)
ASKED = [
    ChatMessage("system", "Be kind."),
    ChatMessage("user", "Where are they?"),
    ChatMessage(
        "assistant", "", (ToolCall("a", "find", {"id": "7"}), ToolCall("b", "fi nd", "{half"))
    ),
    ChatMessage("tool", "lost", call_id="a"),
    ChatMessage("tool", "no such tool", call_id="b"),
    ChatMessage("user", "And now?"),
]


def openai(*deltas: dict, finish: str | None = "tool_calls") -> list[str]:
    def chunk(delta: dict, reason: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
        return head | {"choices": [choice]}

    last = [] if finish is None else [chunk({}, finish), "[DONE]"]
    return events(*[chunk(delta) for delta in deltas], *last)


def part(index: int | None, *, call: str | None = None, name: str | None = None, more: str = ""):
    function = {"arguments": more} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": index, "id": call, "type": "function", "function": function}]}


def anthropic(*blocks: tuple[str, str, list[str]], whole: bool = True) -> list[str]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "content": []}
    message |= {"stop_reason": None, "usage": {"input_tokens": 2, "output_tokens": 1}}
    told: list[dict] = [{"type": "message_start", "message": message}]
    for at, (call, name, pieces) in enumerate(blocks):
        block = {"type": "tool_use", "id": call, "name": name, "input": {}}
        told.append({"type": "content_block_start", "index": at, "content_block": block})
        for piece in pieces:
            delta = {"type": "input_json_delta", "partial_json": piece}
            told.append({"type": "content_block_delta", "index": at, "delta": delta})
        if whole:
            told.append({"type": "content_block_stop", "index": at})
    if whole:
        end = {"stop_reason": "tool_use", "stop_sequence": None}
        told += [
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ]
    return events(*told, names=True)


def ask(make, url: str, messages: list[ChatMessage]):
    async def once():
        model = make(base_url=url, api_key="a key of a test", idle_s=20)
        try:
            return await attempt(chat(model, tools=[FIND], timeout="30s").call(messages))
        finally:
            await model.aclose()

    return asyncio.run(once())


def of_openai(**more):
    pytest.importorskip("openai", reason="without the extra 'models' there is no such client")
    return OpenAIModel("m-1", **more)


def of_anthropic(**more):
    pytest.importorskip("anthropic", reason="without the extra 'models' there is no such client")
    return AnthropicModel("m-1", tokens_max=500, **more)


def test_openai_is_told_of_tools_calls_and_results_as_it_documents_them(endpoint):
    endpoint.says(Says(openai(part(0, call="x", name="find", more="{}"))))
    ask(of_openai, endpoint.url, ASKED)
    (sent,) = endpoint.asked
    told = {"name": "find", "description": "Finds an order.", "parameters": SCHEMA}
    assert sent["tools"] == [{"type": "function", "function": told}]
    calling = sent["messages"][2]
    assert (calling["role"], calling["content"]) == ("assistant", None)
    assert [(c["id"], c["type"], c["function"]) for c in calling["tool_calls"]] == [
        ("a", "function", {"name": "find", "arguments": '{"id": "7"}'}),
        ("b", "function", {"name": "fi_nd", "arguments": "{half"}),
    ]
    assert sent["messages"][3:5] == [
        {"role": "tool", "content": "lost", "tool_call_id": "a"},
        {"role": "tool", "content": "no such tool", "tool_call_id": "b"},
    ]


def test_anthropic_is_told_of_tools_calls_and_results_as_it_documents_them(endpoint):
    endpoint.says(Says(anthropic(("x", "find", []))))
    ask(of_anthropic, endpoint.url, ASKED)
    (sent,) = endpoint.asked
    told = {"name": "find", "description": "Finds an order.", "input_schema": SCHEMA}
    assert sent["tools"] == [told]
    assert sent["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "find", "input": {"id": "7"}},
                {"type": "tool_use", "id": "b", "name": "fi_nd", "input": {"unreadable": "{half"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "lost"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no such tool"},
            ],
        },
        {"role": "user", "content": "And now?"},
    ]


def test_tools_that_the_options_name_stay_beside_those_of_the_agent(endpoint):
    search = {"type": "web_search", "name": "web_search"}
    endpoint.says(Says(anthropic(("x", "find", []))))
    ask(lambda **more: of_anthropic(options={"tools": [search]}, **more), endpoint.url, ASKED)
    assert [tool["name"] for tool in endpoint.asked[0]["tools"]] == ["web_search", "find"]


def test_calls_that_come_in_pieces_are_put_together(endpoint):
    calls = (ToolCall("x", "find", {"id": "7"}), ToolCall("y", "find", {"id": "\U0001f600"}))
    endpoint.says(
        Says(
            openai(
                part(0, call="x", name="find"),
                part(0, more='{"id": '),
                part(0, more='"7"}'),
                part(1, call="y", name="find", more='{"id": "\ud83d'),
                part(1, more='\ude00"}'),
            )
        ),
        Says(
            anthropic(
                ("x", "find", ['{"id": ', '"7"}']), ("y", "find", ['{"id": "\ud83d', '\ude00"}'])
            )
        ),
    )
    one = ask(of_openai, endpoint.url, ASKED)
    other = ask(of_anthropic, endpoint.url, ASKED)
    assert one == Answer("", "m-1", Usage(), "tool", calls, "c")
    assert other == Answer("", "m-1", Usage(2, 4), "tool", calls, "m")


@pytest.mark.parametrize("index", [0, None], ids=["all the same", "none"])
def test_servers_that_do_not_count_their_calls_are_understood(endpoint, index):
    whole = [part(index, call=name, name="find", more=f'{{"id": "{name}"}}') for name in "xyz"]
    endpoint.says(Says(openai(*whole)))
    answer = ask(of_openai, endpoint.url, ASKED)
    assert answer.calls == tuple(ToolCall(name, "find", {"id": name}) for name in "xyz")


def test_arguments_that_are_no_object_stay_a_text(endpoint):
    endpoint.says(
        Says(openai(part(0, call="x", name="find", more='{"id": '), finish="length")),
        Says(anthropic(("x", "find", ['{"id": ']))),
    )
    assert ask(of_openai, endpoint.url, ASKED).calls == (ToolCall("x", "find", '{"id": '),)
    assert ask(of_anthropic, endpoint.url, ASKED).calls == (ToolCall("x", "find", '{"id": '),)


def test_a_stream_cut_in_the_middle_of_a_call_is_cut(endpoint):
    endpoint.says(
        Says(openai(part(0, call="x", name="find", more='{"id": '), finish=None)),
        Says(anthropic(("x", "find", ['{"id": ']), whole=False)),
    )
    for make in (of_openai, of_anthropic):
        failure = ask(make, endpoint.url, ASKED)
        assert failure.type == "wakeful.agents.StreamCut"
        assert evidence_of(failure).chunks == 1


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        '"a"',
        "7",
        "null",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' * 40 + "1" + "}" * 40,
        "[" * 100_000,
        '{"a": ' + "9" * 5_000 + "}",
    ],
)
def test_what_no_log_could_hold_stays_a_text(text):
    assert read_arguments(text) == text


def test_what_a_log_can_hold_is_read():
    deep = {"a": 1}
    for _ in range(DEPTH_MAX - 1):
        deep = {"a": deep}
    assert read_arguments(json.dumps(deep)) == deep
    assert read_arguments(" ") == {}
    assert read_arguments('{"a": "\\ud83d"}') == {"a": "\ud83d"}


def test_scripts_and_functions_call_tools():
    script = ScriptedModel([ToolCall("", "find", {"id": "7"}), [ToolCall("x", "find", "{half")]])
    asks = chat(script, tools=[FIND])
    first = asyncio.run(attempt(asks.call(ASKED)))
    assert (first.finish, first.calls) == ("tool", (ToolCall("call-6-1", "find", {"id": "7"}),))
    assert asyncio.run(attempt(asks.call(ASKED))).calls == (ToolCall("x", "find", "{half"),)
    finds = FunctionModel(lambda messages: ToolCall("x", "find", {"id": messages[-1].content}))
    answer = asyncio.run(attempt(chat(finds, tools=[FIND]).call(ASKED)))
    assert answer.calls[0].arguments == {"id": "And now?"}


def test_a_model_that_takes_no_tools_is_declined_by_name():
    class Plain:
        name = "plain-1"

        async def stream(self, messages):
            yield Chunk("hi")
            yield Answer("hi", self.name)

    with pytest.raises(TypeError, match="model 'plain-1' takes no tools"):
        chat(Plain(), tools=[FIND])
    assert asyncio.run(attempt(chat(Plain()).call([ChatMessage("user", "hi")]))).text == "hi"


def test_an_answer_whose_calls_never_end_is_cut():
    class Endless:
        name = "endless-1"

        async def stream(self, messages, *, tools=()):
            while True:
                yield Chunk("", arguments="x" * 10_000)

    failure = asyncio.run(attempt(chat(Endless(), tools=[FIND]).call(ASKED)))
    assert failure.type == "wakeful.agents.StreamCut"
    assert "limit its tokens" in failure.message


@activity(contract=Read())
async def find(id: str) -> str:  # noqa: A002 as models are told
    """Finds an order."""
    return f"order {id} is lost"


def anthropic_text(text: str) -> list[str]:
    delta = {"type": "text_delta", "text": text}
    block = {"type": "text", "text": ""}
    told = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    ]
    start, *end = anthropic()
    return [start, *events(*told, names=True), *end]


@pytest.mark.parametrize(
    ("make", "script"),
    [
        (
            of_openai,
            [
                openai(part(0, call="x", name="find", more='{"id": "7"}')),
                openai({"content": "Lost."}, finish="stop"),
            ],
        ),
        (of_anthropic, [anthropic(("x", "find", ['{"id": "7"}'])), anthropic_text("Lost.")]),
    ],
    ids=["openai", "anthropic"],
)
def test_an_agent_goes_round_over_a_real_client(endpoint, make, script):
    endpoint.says(*map(Says, script))
    model = make(base_url=endpoint.url, api_key="a key of a test")
    session = rehearse(AgentLoop(name="a", version=1, model=model, prompt="Be kind.", tools=[find]))
    session.send("Where is order 7?")
    assert session.replies == ["Lost."]
    assert len(endpoint.asked) == 2
    result = endpoint.asked[1]["messages"][-1]
    assert result in (
        {"role": "tool", "tool_call_id": "x", "content": "order 7 is lost"},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "x", "content": "order 7 is lost"}],
        },
    )
