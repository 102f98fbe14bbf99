"""A whole small cluster in memory: loops that can be killed at any step, a worker's stand-in, a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.processors.desk import (
    KEY,
    START_MS,
    Desk,
    desk,
    find_order,
    refund,
    sleeper,
    stubborn,
)
from wakeful import ActivityError, Message, Turn, workflow
from wakeful.commands.check import Facts
from wakeful.commands.identity import INSECURE, Identity
from wakeful.commands.models import (
    Command,
    CommandBody,
    CommandHeader,
    CompleteActivity,
    DecideApproval,
    OpenSession,
    SendMessage,
)
from wakeful.commands.policy import EVERYBODY
from wakeful.commands.wire import encode_command
from wakeful.events import records as r
from wakeful.events.codec import decode_event, decode_outcome, decode_task
from wakeful.events.errors import Undecodable
from wakeful.events.headers import DeadLetter, dead_letter_in, record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.memory_faults import Faults
from wakeful.events.payloads import json_payload
from wakeful.events.topics import Topics
from wakeful.processors.app import gather
from wakeful.processors.control import Control
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopSettings
from wakeful.processors.quotas import Quotas


@workflow("hires", version=1)
async def hires(turn: Turn, state: Desk, message: Message) -> Desk:
    """Has somebody else do it."""
    try:
        await turn.say(await turn.job("render", within="1h"))
    except ActivityError as error:
        await turn.say(error.failure.kind)
    return state


class ManualClock:
    """A wall clock and the broker's in one; moves when told."""

    def __init__(self) -> None:
        self.ms = START_MS
        self.skew_ms = 0

    def now_ms(self) -> int:
        return self.ms + self.skew_ms

    def steady_ms(self) -> int:
        return self.ms


class Cluster:
    """One namespace with `partitions` partitions; processors by ordinal."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        faults: Faults | None = None,
        folder: Path | None = None,
        identity: Identity = INSECURE,
        more: Sequence[object] = (),
    ) -> None:
        clock = self.clock = ManualClock()
        # Not through `self`: a cluster in a cycle would be collected by any thread, and its stores closed in there.
        self.log = MemoryLog(now_ms=lambda: clock.ms, faults=faults)
        self.topics = Topics("desk")
        self.app = gather((desk, sleeper, stubborn, hires, find_order, refund, *more))
        self.log.create_topics(self.topics.specs(self.app.queues, partitions))
        self.folder = folder
        self.identity = identity
        self.loops: dict[int, Loop] = {}
        self.running: dict[int, Iterator[str]] = {}
        self.producer = self.log.producer()
        self._commands = 0
        self._answered: set[str] = set()

    def start(
        self,
        ordinal: int = 0,
        *,
        batch_records: int = 500,
        always_replay: bool = False,
        control: Control | None = None,
        quotas: Quotas | None = None,
        handler: CommandHandler | None = None,
    ) -> None:
        """A processor under its stable name; a second start of one name is what a supervisor does after a kill."""
        handler = handler or CommandHandler(
            self.app, Facts(KEY, policy=EVERYBODY), always_replay=always_replay
        )
        settings = LoopSettings(
            "desk.processors", f"desk.processors.{ordinal}", self.folder, batch_records
        )
        self.loops[ordinal] = Loop(
            self.log,
            self.topics,
            handler,
            settings,
            self.clock,
            identity=self.identity,
            quotas=quotas,
            control=control,
        )
        self.running[ordinal] = self.loops[ordinal].steps()

    def step(self, ordinal: int = 0) -> str:
        """To the next crash point."""
        return next(self.running[ordinal])

    def step_to(self, point: str, ordinal: int = 0, *, most: int = 500) -> None:
        """To the next pass of this crash point."""
        for _ in range(most):
            if self.step(ordinal) == point:
                return
        raise AssertionError(f"{point} was not reached in {most} steps")

    def run(self, steps: int = 40) -> None:
        """Lets every processor take some steps, in turn, and time pass."""
        for _ in range(steps):
            self.clock.ms += 5
            for ordinal in self.running:
                self.step(ordinal)

    def kill(self, ordinal: int = 0) -> None:
        """The process is gone, with whatever it had open."""
        self.running.pop(ordinal)
        self.loops.pop(ordinal)

    def send(
        self,
        body: CommandBody,
        session_id: str = "s1",
        command_id: str | None = None,
        actor: str = "ann",
        tenant: str = "acme",
    ) -> None:
        """A command to the log."""
        self._commands += 1
        id_ = command_id or f"c{self._commands}"
        header = CommandHeader(tenant, session_id, id_, self.clock.ms, actor, None, "test", None)
        command, key = Command(header, body), session_key(tenant, session_id)
        encoded = encode_command(command)
        vouched = self.identity.sign(command, self.topics.commands, key, encoded.value)
        self.raw(key, encoded.value, [*record_headers(encoded, id_), *vouched])

    def raw(self, key: bytes | None, value: bytes | None, headers: Any = ()) -> None:
        """Any bytes to the commands topic."""
        self.producer.produce(self.topics.commands, key=key, value=value, headers=headers)
        self.producer.flush(1_000)

    def open(
        self, session_id: str = "s1", text: str = "hello", workflow: str = "desk", **data: Any
    ) -> None:
        """Opens a session and sends its first message."""
        self.send(OpenSession(workflow), session_id)
        self.send(SendMessage(json_payload({"text": text, **data}, KEY)), session_id)

    def say(self, text: str, session_id: str = "s1") -> None:
        """One more message."""
        self.send(SendMessage(json_payload({"text": text}, KEY)), session_id)

    def answer(self, cents: int = 500) -> int:
        """Answers every task not answered yet, as workers would; gives how many."""
        tasks = [task for task in self.tasks() if task.idempotency_key not in self._answered]
        for task in tasks:
            self._answered.add(task.idempotency_key)
            value: Any = cents if task.name == "find_order" else task.idempotency_key
            body = CompleteActivity(task.activity_id, task.attempt, json_payload(value, KEY), "w1")
            self.send(body, task.session_id, f"{task.idempotency_key}#{task.attempt}", "worker:w1")
        return len(tasks)

    def approve(self, session_id: str = "s1", decision: str = "approve") -> None:
        """Decides the session's newest proposal."""
        asked = [
            e.body
            for e in self.events()
            if isinstance(e.body, r.ApprovalRequested) and e.envelope.session_id == session_id
        ][-1]
        self.send(
            DecideApproval(asked.proposal_id, asked.digest, decision, ""), session_id, actor="sue"
        )

    def events(self, session_id: str | None = None) -> list[r.Event]:
        """What a read_committed reader sees."""
        found = []
        for record in self.log.dump(self.topics.events):
            with suppress(Undecodable):
                found.append(decode_event(record.value, record.headers))
        return [e for e in found if session_id in (None, e.envelope.session_id)]

    def facts(self, session_id: str = "s1") -> list[str]:
        """The names of a session's events, in order."""
        return [type(e.body).__name__ for e in self.events(session_id)]

    def tasks(self) -> list[r.ActivityTask]:
        """All dispatched tasks."""
        return [
            decode_task(x.value, x.headers)
            for x in self.log.dump(self.topics.activities("default"))
        ]

    def outcomes(self) -> list[r.Outcome]:
        """All outcomes."""
        return [decode_outcome(x.value, x.headers) for x in self.log.dump(self.topics.outcomes)]

    def dead(self) -> list[DeadLetter]:
        """Causes of all dead letters."""
        found = [dead_letter_in(x.headers) for x in self.log.dump(self.topics.dead_letters)]
        return [letter for letter in found if letter is not None]


def play(cluster: Cluster, run: Callable[[], None]) -> None:
    """The refund story from first message to completion."""
    cluster.open(last=True)
    run()
    for _ in range(2):
        cluster.answer()
        run()
        if "ApprovalRequested" in cluster.facts() and "ApprovalGranted" not in cluster.facts():
            cluster.approve()
            run()
