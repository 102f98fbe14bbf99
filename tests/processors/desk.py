"""A small refund desk and a hand that drives it through the real core, without a log: for tests of the core."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from wakeful import ActivityError, Message, Needs, Read, Turn, Write, activity, workflow
from wakeful.commands.check import Facts, Refusal
from wakeful.commands.models import (
    INTERNAL,
    CancelSession,
    Command,
    CommandBody,
    CommandHeader,
    CompleteActivity,
    DecideApproval,
    FailActivity,
    FireTimer,
    OpenSession,
    ReleaseSession,
    SendMessage,
)
from wakeful.commands.policy import EVERYBODY
from wakeful.commands.wire import COMMANDS, command_hash
from wakeful.events import records as r
from wakeful.events.hashing import event_hash
from wakeful.events.payloads import json_payload
from wakeful.processors.app import App, gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.session import Received, Session, Stamped

T = TypeVar("T")

KEY = b"a tenant's digest key"
START_MS = 1_800_000_000_000


class Desk(BaseModel):
    """State between turns."""

    refunded_cents: int = 0


@activity(contract=Read(), schedule_to_close="5m")
async def find_order(text: str) -> int:
    """Gives the amount in cents."""
    return len(text)


@activity(
    contract=Write(idempotent=True),
    approval=Needs("supervisor", when=lambda cents: cents > 100, expires="1h"),
)
async def refund(cents: int, *, key: str) -> str:
    """Pays back."""
    return key


@workflow("desk", version=1, versions={"prompt": "7"})
async def desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Looks an order up, asks where the rule says so, refunds, and says so."""
    cents = await turn.run(find_order.call(message.text))
    action = refund.call(cents)
    approval = await turn.approval(action)
    if not approval.granted:
        await turn.say(f"{approval.decision} by {approval.actor or 'nobody'}")
        return desk
    receipt = await turn.run(action)
    await turn.say(f"refunded {cents} as {receipt}")
    if message.data.get("last"):
        await turn.complete({"refunded": cents})
    return desk.model_copy(update={"refunded_cents": desk.refunded_cents + cents})


@workflow("sleeper", version=1)
async def sleeper(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Sleeps, then tells the time and an id."""
    before, id_ = turn.now(), turn.uuid()
    await turn.sleep("10m")
    await turn.say(
        {"slept": (turn.now() - before).total_seconds(), "ids": [str(id_), str(turn.uuid())]}
    )
    return desk


@workflow("stubborn", version=1)
async def stubborn(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Handles a failure of its activity."""
    try:
        await turn.run(find_order.call("x"))
    except ActivityError as error:
        await turn.say(error.failure.kind)
    return desk


class Hand:
    """One session, a clock, and commands that come one after another at the next offset."""

    def __init__(
        self,
        *declared: object,
        workflow: str = "desk",
        always_replay: bool = False,
        session_id: str = "s1",
    ) -> None:
        self.app: App = gather(declared or (desk, sleeper, stubborn, find_order, refund))
        self.always_replay = always_replay
        self.handler = self._handler()
        self.session_id = session_id
        self.session = Session("acme", session_id)
        self.now_ms = START_MS
        self.offset = 0
        self.log: list[Stamped] = []
        self.workflow = workflow
        self._sent: dict[str, CommandBody] = {}

    def _handler(self) -> CommandHandler:
        return CommandHandler(
            self.app, Facts(KEY, policy=EVERYBODY), always_replay=self.always_replay
        )

    def redeploy(self, *declared: object) -> None:
        """The same session on other code: coroutines are gone, the history stays."""
        self.app = gather(declared)
        self.handler = self._handler()
        self.session = self.refold()

    def refold(self, upto: int | None = None) -> Session:
        """The session as its history tells, folded from the first event."""
        session = Session("acme", self.session_id)
        for stamped in self.log[:upto]:
            session.apply(
                stamped.event,
                event_hash(stamped.encoded.fingerprint, stamped.encoded.body, session.head.hash),
            )
        return session

    def tasks(self) -> list[r.ActivityTask]:
        """The attempts that were dispatched so far, in order."""
        return [stamped.task for stamped in self.log if stamped.task is not None]

    def give(
        self,
        body: CommandBody,
        *,
        command_id: str | None = None,
        actor: str = "ann",
        issued_ms: int | None = None,
        expected_seq: int | None = None,
    ) -> list[r.EventBody]:
        """The facts that this command leads to."""
        out, refusal = self.attempt(
            body, command_id=command_id, actor=actor, issued_ms=issued_ms, expected_seq=expected_seq
        )
        assert refusal is None, refusal
        return out

    def attempt(
        self,
        body: CommandBody,
        *,
        command_id: str | None = None,
        actor: str = "ann",
        issued_ms: int | None = None,
        expected_seq: int | None = None,
        on_behalf_of: str | None = None,
    ) -> tuple[list[r.EventBody], Refusal | None]:
        """The same, with the refusal of a command that leaves no event."""
        self.offset += 1
        header = CommandHeader(
            "acme",
            self.session_id,
            command_id or f"c{self.offset}",
            self.now_ms if issued_ms is None else issued_ms,
            actor,
            on_behalf_of,
            "test",
            expected_seq,
        )
        encoded = COMMANDS.encode(Command(header, body))
        command: Command = COMMANDS.decode_body(encoded.body, encoded.fingerprint)
        hashed = None if isinstance(body, INTERNAL) else command_hash(encoded)
        received = Received(command, encoded, hashed, "x.commands.v1", 0, self.offset, self.now_ms)
        stamped, refusal = self.handler.handle(self.session, received)
        self.log += stamped
        return [one.event.body for one in stamped], refusal

    def open(self, text: str = "a" * 50, **data: Any) -> list[r.EventBody]:
        """Opens the session and sends its first message."""
        self.give(OpenSession(self.workflow))
        return self.say(text, **data)

    def say(self, text: str, **data: Any) -> list[r.EventBody]:
        """Sends a message."""
        return self.give(SendMessage(json_payload({"text": text, **data}, KEY)))

    def result(self, activity_id: str, value: Any, attempt: int = 1) -> list[r.EventBody]:
        """A worker's result."""
        return self.give(
            CompleteActivity(activity_id, attempt, json_payload(value, KEY), "w1"),
            actor="worker:w1",
        )

    def failure(
        self,
        activity_id: str,
        kind: str = "raised",
        *,
        attempt: int = 1,
        type_: str = "ValueError",
        after_ms: int | None = None,
    ) -> list[r.EventBody]:
        """A worker's failure."""
        failure = r.Failure(kind, type_, "no such order", "", after_ms)
        return self.give(FailActivity(activity_id, attempt, failure, "w1"), actor="worker:w1")

    def decide(
        self,
        decision: str = "approve",
        *,
        proposal: r.ApprovalRequested | None = None,
        actor: str = "sue",
        data: Any = None,
    ) -> list[r.EventBody]:
        """A decision about the newest proposal."""
        asked = proposal or self.last(r.ApprovalRequested)
        given = None if data is None else json_payload(data, KEY)
        return self.give(
            DecideApproval(asked.proposal_id, asked.digest, decision, "fine", given), actor=actor
        )

    def wake(self) -> list[r.EventBody]:
        """A wake-up."""
        return self.give(FireTimer("", 0), actor="engine")

    def cancel(self) -> list[r.EventBody]:
        """A stop."""
        return self.give(CancelSession("no longer wanted"))

    def release(self) -> list[r.EventBody]:
        """An operator's release."""
        return self.give(ReleaseSession("fixed"), actor="op")

    def last(self, kind: type[T]) -> T:
        """The newest fact of this kind."""
        return next(s.event.body for s in reversed(self.log) if isinstance(s.event.body, kind))


def kinds(bodies: list[r.EventBody]) -> list[str]:
    """The names of the facts."""
    return [type(body).__name__ for body in bodies]
