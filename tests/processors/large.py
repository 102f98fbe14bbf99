"""A workflow that moves large payloads, a store that can be away, and a hand that drives both with a worker beside it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tests.processors.desk import KEY, Hand
from wakeful import Message, Needs, Read, Turn, Write, activity, workflow
from wakeful.commands.check import Facts
from wakeful.commands.models import SendMessage
from wakeful.commands.policy import EVERYBODY
from wakeful.events import records as r
from wakeful.events.blobs import MemoryBlobs, fetched, put_payload
from wakeful.events.errors import BlobUnavailable
from wakeful.events.payloads import load_json
from wakeful.processors.activities.runner import Call, Runner
from wakeful.processors.handler import CommandHandler

MB = 1_000_000


class Pile(BaseModel):
    """State that grows large."""

    text: str = ""


@activity(contract=Read())
async def fetch_page(size: int) -> str:
    """A large result."""
    return "r" * size


@activity(contract=Write(idempotent=True), approval=Needs("supervisor", expires="1h"))
async def publish(page: str, *, key: str) -> int:
    """Large arguments, for which somebody is asked."""
    return len(page)


@workflow("pile", version=1)
async def pile(turn: Turn, state: Pile, message: Message) -> Pile:
    """Keeps everything, says everything, publishes it after approval."""
    size = message.data.get("size", MB)
    page = await turn.run(fetch_page.call(size))
    await turn.say({"seen": len(message.text), "had": len(state.text), "page": page})
    if message.data.get("publish"):
        action = publish.call(page)
        await turn.approval(action)
        await turn.say(f"published {await turn.run(action)}")
    if message.data.get("last"):
        await turn.complete({"all": state.text + page})
    return Pile(text=state.text + page)


class Kept(BaseModel):
    """Whatever it was given."""

    value: Any = None


@activity(contract=Read())
async def same(value: Any) -> Any:
    """Gives back what it was given."""
    return value


class Shaky(MemoryBlobs):
    """Counts, and is away on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []
        self.gets: list[str] = []
        self.away = False

    def put(self, ref: str, data: bytes) -> None:
        self._answer()
        self.puts.append(ref)
        super().put(ref, data)

    def get(self, ref: str) -> bytes:
        self._answer()
        self.gets.append(ref)
        return super().get(ref)

    def _answer(self) -> None:
        if self.away:
            raise BlobUnavailable("no answer of the store")


class Desk(Hand):
    """A hand with a store, and a worker beside it."""

    def __init__(
        self, *declared: object, workflow: str = "pile", always_replay: bool = False
    ) -> None:
        self.blobs = Shaky()
        super().__init__(
            *(declared or (pile, fetch_page, publish)),
            workflow=workflow,
            always_replay=always_replay,
        )

    def _handler(self) -> CommandHandler:
        facts = Facts(KEY, blobs=self.blobs, policy=EVERYBODY)
        return CommandHandler(self.app, facts, always_replay=self.always_replay)

    def say(self, text: str, **data: Any) -> list[r.EventBody]:
        payload = put_payload({"text": text, **data}, "acme", KEY, self.blobs)
        return self.give(SendMessage(payload))

    def work(self) -> list[r.EventBody]:
        """Runs the newest task and reports it."""
        task = next(s.task for s in reversed(self.log) if s.task is not None)
        runner = Runner(self.app.activities, worker_id="w1", digest_key=KEY, blobs=self.blobs)
        call = runner.prepare(task)
        assert isinstance(call, Call), call
        coroutine = call.start()
        try:
            coroutine.send(None)
        except StopIteration as returned:
            return self.give(runner.completed(call, returned.value), actor="worker:w1")
        raise AssertionError("it waits")

    def evict(self) -> None:
        """Another process: what it knows is the history."""
        self.session.drop()
        self.session = self.refold()

    def value(self, payload: r.Payload) -> Any:
        return load_json(fetched(payload, "acme", KEY, self.blobs))

    def lose(self, payload: r.Payload) -> bytes:
        return self.blobs.held.pop(payload.ref)
