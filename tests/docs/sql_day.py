"""The rows behind docs/sql.md: two hours of a refund desk, as its events, at fixed times of the log."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.projections.conftest import Scribe, payload
from wakeful.events import records as r
from wakeful.events.attributes import attributes_of

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LOST = r.Failure("cut_off", "", "the worker died in the middle", "")
LIMITED = r.Failure("raised", "RateLimited", "429 of the model's endpoint", "")


def ms(clock: str) -> int:
    """Milliseconds of a time on that day, `11:20:04`."""
    hour, minute, second = map(int, clock.split(":"))
    return int(NOW.replace(hour=hour, minute=minute, second=second).timestamp() * 1000)


class Day:
    """Writes one session's events at a time."""

    def __init__(self) -> None:
        self.scribe = Scribe()

    def say(self, clock: str, name: str, *bodies: r.EventBody, actor="ann", command=None) -> None:
        """All that one command led to; what follows from it is the workflow's."""
        self.scribe.now_ms = ms(clock) - 1
        cause = self.scribe.cause(command or f"{name}-{clock}")
        for number, body in enumerate(bodies):
            who = actor if number == 0 else "workflow:refund-desk"
            session = ("local", name)
            self.scribe.add(session, body, actor=who, cause=cause, at_ms=ms(clock))

    def open(
        self, clock: str, name: str, *then: r.EventBody, actor: str, customer: str | None = None
    ) -> None:
        """Opened and asked for the first time."""
        found_by = {} if customer is None else {"customer": customer, "urgent": name == "desk-4"}
        opened = r.SessionOpened("refund-desk", attributes_of(found_by))
        self.say(clock, name, opened, actor=actor)
        versions = (r.Version("workflow", "1"),)
        began = r.TurnStarted(1, "message", "", "m1", "refund-desk", 1, versions)
        message = r.MessageReceived("m1", payload({"text": "my order is broken"}))
        self.say(clock, name, message, began, *then, actor=actor, command=f"{name}/hello")


def call(step: int, action: str, name: str, *, contract="read", proposal=None, due="14:00:00"):
    """A tool or model is asked for."""
    return r.ActivityRequested(
        activity_id=f"1.{step}",
        turn=1,
        step=step,
        name=action,
        queue="models" if action == "classify" else "payments",
        contract=contract,
        arguments=payload({}),
        digest=b"\1" * 32,
        idempotency_key=f"local/{name}/1/{step}",
        attempt=1,
        start_to_close_ms=60_000,
        deadline_ms=ms(due),
        approval="granted" if proposal else "none",
        proposal_id=proposal,
    )


def done(step: int, attempt: int = 1) -> r.ActivityCompleted:
    """Its result."""
    return r.ActivityCompleted(f"1.{step}", attempt, payload({"ok": True}), "worker-1")


def proposal(step: int, customer: str, cents: int) -> r.ApprovalRequested:
    """A refund that somebody must allow."""
    return r.ApprovalRequested(
        proposal_id=f"1.{step}-9f",
        turn=1,
        step=step,
        name="refund",
        contract="write_idempotent",
        arguments=payload({"customer": customer, "cents": cents}),
        digest=b"\1" * 32,
        approver="supervisor",
        expires_at_ms=ms("12:00:00") + 11 * 3_600_000,
    )


def granted(step: int, word: str = "fine") -> r.ApprovalGranted:
    """Somebody does."""
    return r.ApprovalGranted(f"1.{step}-9f", b"\1" * 32, word)


def refunded(day: Day, name: str, customer: str, cents: int, times: tuple[str, str, str]) -> None:
    """From the question over the grant to the end."""
    opened, allowed, ended = times
    day.open(
        opened,
        name,
        proposal(1, customer, cents),
        waiting("approval"),
        actor="ann",
        customer=customer,
    )
    paid = call(2, "refund", name, contract="write_idempotent", proposal="1.1-9f")
    day.say(allowed, name, granted(1), paid, actor="sue")
    outcome = r.SessionCompleted(1, 2, payload({"refunded": cents}), payload({}), "1.2", 0)
    day.say(ended, name, done(2), outcome, actor="worker-1")


def waiting(kind: str) -> r.SessionWaiting:
    """Nothing is left to do but to wait."""
    return r.SessionWaiting(1, (r.Obligation(kind, "1.1", "refund", None, "expires"),), ())


def day() -> Scribe:
    """All of it."""
    one = Day()
    refunded(one, "desk-1", "c-17", 25_000, ("10:00:00", "10:05:00", "10:05:02"))
    refunded(one, "desk-2", "c-42", 4_000, ("10:20:00", "10:21:30", "10:21:31"))
    refunded(one, "desk-3", "c-17", 12_550, ("10:40:00", "11:10:00", "11:10:04"))
    one.open(
        "11:20:00",
        "desk-4",
        proposal(1, "c-42", 180_000),
        waiting("approval"),
        actor="bob",
        customer="c-42",
    )
    late = r.CommandRefused("DecideApproval", "freshness", "other_digest", "look at it again")
    one.say("11:25:00", "desk-4", late, actor="eve", command="desk-4/yes")
    once = call(1, "refund_by_phone", "desk-5", contract="write_once")
    one.open("11:30:00", "desk-5", once, actor="bob")
    one.say("11:30:20", "desk-5", r.ActivityUncertain("1.1", 1, LOST, "worker-2"), actor="worker-2")
    one.open("11:40:00", "desk-6", call(1, "classify", "desk-6"), actor="cy")
    for attempt, clock in enumerate(("11:40:30", "11:45:10"), start=2):
        failed = r.ActivityRetryScheduled("1.1", attempt, ms("12:00:30"), LIMITED, "worker-1")
        one.say(clock, "desk-6", failed, actor="worker-1")
        if attempt == 2:
            one.say("11:45:00", "desk-6", r.ActivityRetried("1.1", 2), actor="clock")
    one.open("11:50:00", "desk-7", call(1, "classify", "desk-7"), actor="dee")
    one.say(
        "11:50:09", "desk-7", done(1), r.TimerSet("1.2", 1, 2, ms("12:30:00")), actor="worker-1"
    )
    for number, clock in enumerate(("11:51:00", "11:52:00")):
        refusal = r.CommandRefused("SendMessage", "ordering", "too_old", "send it anew")
        one.say(clock, "desk-7", refusal, actor="dee", command=f"desk-7/old-{number}")
    one.open("11:55:00", "desk-8", call(1, "classify", "desk-8"), actor="cy")
    stuck = r.NondeterminismFound(1, 1, "call of classify", "call of triage")
    one.say("11:56:00", "desk-8", stuck, actor="clock")
    kept = r.CommandParked("SendMessage", b"\1" * 8, b"\2")
    one.say("11:57:00", "desk-8", kept, actor="cy", command="desk-8/more")
    one.scribe.commit()
    return one.scribe
