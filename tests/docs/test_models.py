"""docs/models.md: its snippets run, as one module, and its table of failures is the code's."""

import asyncio
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import wakeful.agents
from tests.processors.desk import Hand, kinds
from wakeful import ActivityError
from wakeful.agents import FINAL, ChatMessage, ModelFailed, OpenAIModel
from wakeful.commands.models import FailActivity
from wakeful.events.errors import Transient
from wakeful.events.records import ReplySent, TurnStarted
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.runner import Runner
from wakeful.processors.app import gather
from wakeful.processors.stored_json import read_json

TEXT = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def run(*blocks: str) -> ModuleType:
    """The blocks as one module, known under a name, since its types are looked up by it."""
    module = ModuleType("docs_models")
    sys.modules[module.__name__] = module
    for block in blocks:
        exec(compile(block, "docs/models.md", "exec"), vars(module))
    return module


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delenv("DESK_MODEL", raising=False)
    monkeypatch.setitem(sys.modules, "docs_models", None)
    return run(*BLOCKS)


def test_every_snippet_runs_after_the_ones_above_it(shown: ModuleType) -> None:
    assert shown.answer.text == "We will refund it."
    assert shown.ask.contract == Read()


def test_a_model_that_is_told_of_tools_calls_them(shown: ModuleType) -> None:
    answer = asyncio.run(shown.caller.function([ChatMessage("user", "Where is order 7?")]))
    assert [(call.name, call.arguments) for call in answer.calls] == [("find_order", {"id": "7"})]
    assert answer.finish == "tool"


def test_the_workflow_asks_says_and_counts(shown: ModuleType) -> None:
    hand = Hand(shown.talk, shown.ask, workflow="talk")
    assert kinds(hand.open("a refund, please"))[-1] == "ActivityRequested"
    assert "model" in {version.name for version in hand.last(TurnStarted).versions}
    (asked,) = (s.event.body for s in hand.log if kinds([s.event.body]) == ["ActivityRequested"])
    sent = shown.ask.typed_json(asked.arguments.inline)
    answer = asyncio.run(shown.ask.function(**sent))
    hand.result("1.1", shown.ask.stored(answer))
    assert hand.last(ReplySent).message.inline == b'{"text":"A refund is on its way."}'
    assert read_json(shown.ask.result_type, b'{"text":"a","model":"m"}').usage.input_tokens is None


def test_a_workflow_can_book_what_a_failed_attempt_has_cost(shown: ModuleType) -> None:
    flaky = shown.chat(shown.ScriptedModel([shown.Cut("We will ref")]))
    with pytest.raises(ModelFailed) as caught:
        asyncio.run(flaky.function([ChatMessage("user", "hi")]))
    runner = Runner(gather([flaky]).activities, worker_id="w1", digest_key=b"k")
    failed = runner.failed(_Task(), caught.value)
    assert isinstance(failed, FailActivity)
    told = shown.wasted(ActivityError("chat", failed.failure))
    assert told == "2 chunks, None tokens, ending in 'We will ref'"


class _Task:
    activity_id, attempt = "1.1", 1


def test_the_users_own_setting_picks_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_MODEL", "m-1")
    monkeypatch.setitem(sys.modules, "docs_models", None)
    module = run(BLOCKS[0])
    assert isinstance(module.MODEL, OpenAIModel)
    assert ("model", "m-1") in module.talk.versions


def test_the_table_of_failures_is_that_of_the_code() -> None:
    rows = dict(
        re.findall(r"^\| `wakeful\.agents\.(\w+)` \|.*\| (yes|no|then) \|$", TEXT, re.MULTILINE)
    )
    failures = {
        name: kind
        for name, kind in vars(wakeful.agents).items()
        if isinstance(kind, type) and issubclass(kind, ModelFailed) and kind is not ModelFailed
    }
    assert set(rows) == set(failures)
    assert {name for name, again in rows.items() if again != "no"} == {
        name for name, kind in failures.items() if issubclass(kind, Transient)
    }
    assert set(FINAL) == {f"wakeful.agents.{name}" for name, again in rows.items() if again == "no"}
    assert {kind.__module__ for kind in failures.values()} == {"wakeful.agents"}
    shown = re.findall(r"[├└]── (\w+)", ModelFailed.__doc__ or "")
    assert set(shown) == set(failures)
