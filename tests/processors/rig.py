"""One partition with its store, fed by hand and without a log: for tests that count, and that weigh."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from pydantic import BaseModel

from tests.processors.desk import KEY, START_MS
from wakeful import Message, Needs, Read, Turn, Write, activity, workflow
from wakeful.commands.check import Facts
from wakeful.commands.models import (
    Command,
    CommandBody,
    CommandHeader,
    CompleteActivity,
    OpenSession,
    SendMessage,
)
from wakeful.commands.policy import EVERYBODY
from wakeful.commands.wire import encode_command
from wakeful.events import records as r
from wakeful.events.codec import decode_event, decode_task
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Record
from wakeful.events.payloads import json_payload
from wakeful.events.topics import Topics
from wakeful.processors.app import gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.outputs import Folder, Output
from wakeful.processors.partition import Partition
from wakeful.processors.session import Session


class Walk(BaseModel):
    """How far the walker has come."""

    steps: int = 0


@activity(contract=Read(), schedule_to_close="1h")
async def step(number: int) -> int:
    """Gives its number back."""
    return number


@activity(contract=Write(idempotent=True), approval=Needs("boss", expires="1d"))
async def leave(number: int, *, key: str) -> str:
    """Waits for a person."""
    return key


@workflow("walker", version=1)
async def walker(turn: Turn, walk: Walk, message: Message) -> Walk:
    """So many steps, in stretches of so many, then perhaps a wait for a person."""
    steps = walk.steps
    while steps < message.data["steps"]:
        steps = await turn.run(step.call(steps + 1))
        if steps % message.data.get("stretch", sys.maxsize) == 0:
            return turn.again(Walk(steps=steps))
    if message.data.get("parks"):
        await turn.approval(leave.call(steps))
    return Walk(steps=0)


class Rig:
    """See the module. `outputs` are those of the last commands."""

    def __init__(self, folder: Path | None = None) -> None:
        self.topics = Topics("rig")
        handler = CommandHandler(gather((walker, step, leave)), Facts(KEY, policy=EVERYBODY))
        self.folder = Folder(self.topics, handler)
        self.log = MemoryLog(now_ms=lambda: START_MS)
        self.partition = Partition(0, self.topics, self.log, "rig", folder)
        self.partition.store.write([], position=0, open_from=0, cause_high=-1)
        self._offsets = count(1)
        self._events = 0

    def command(self, body: CommandBody, session_id: str = "s1", actor: str = "ann") -> Record:
        """A command as it is read from the log."""
        offset = next(self._offsets)
        id_, now_ms = f"c{offset}", START_MS + offset
        header = CommandHeader("acme", session_id, id_, now_ms, actor, None, "test", None)
        encoded = encode_command(Command(header, body))
        return Record(
            self.topics.commands,
            0,
            offset,
            now_ms,
            session_key("acme", session_id),
            encoded.value,
            record_headers(encoded, id_),
        )

    def give(self, records: Iterable[Record]) -> list[Output]:
        """Folds and keeps them, as one committed transaction."""
        folded = self.folder.fold(self.partition, [*records])
        before = self._events
        self._events += folded.events
        self.partition.keep(
            folded.changes(),
            position=self._events,
            open_from=before,
            cause_high=folded.cause_high,
        )
        return folded.outputs

    def open(self, session_id: str = "s1", **data: int) -> list[Output]:
        """Opens a session with its message."""
        message = SendMessage(json_payload({"text": "go", **data}, KEY))
        return self.give(
            [
                self.command(OpenSession("walker"), session_id),
                self.command(message, session_id),
            ]
        )

    def answers(self, outputs: Iterable[Output]) -> list[Record]:
        """What workers answer to the tasks among these."""
        tasks = [
            decode_task(o.value, o.headers)
            for o in outputs
            if o.topic == self.topics.activities("default")
        ]
        return [
            self.command(
                CompleteActivity(
                    t.activity_id,
                    t.attempt,
                    json_payload(int(t.activity_id.split(".")[1]), KEY),
                    "w1",
                ),
                t.session_id,
                "worker:w1",
            )
            for t in tasks
        ]

    def events(self, outputs: Iterable[Output]) -> list[r.EventBody]:
        """The facts among these."""
        found = [o for o in outputs if o.topic == self.topics.events]
        return [decode_event(o.value, o.headers).body for o in found]

    def session(self, session_id: str = "s1") -> Session:
        """The session as the partition has it."""
        return self.partition.session(session_key("acme", session_id))


def size(outputs: Iterable[Output]) -> int:
    """Bytes in the log."""
    return sum(
        len(o.key or b"") + len(o.value or b"") + sum(len(k) + len(v) for k, v in o.headers)
        for o in outputs
    )
