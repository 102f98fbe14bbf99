"""A session's events as what its page shows: turns, and in each what was said, asked for and done. No clock and no I/O.

The words of each fact are those that `wakeful explain` tells; what a call was given, gave back and cost stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ....events import records as r
from ....events.state import MESSAGE
from ....events.verdicts import CANCELLED, COMPLETED, FAILED, UNCERTAIN
from ...telling.story import ALONE, GOES_ON, OPENS
from ...telling.words import as_json

ITEMS_SHOWN = 200
"""Items of one turn that a page shows, the last ones; a turn may have thousands."""

NOTHING: Any = object()
"""No value at all, which is something else than null."""


@dataclass(slots=True)
class Moment:
    """Something that became of a thing, and when."""

    at_ms: int
    words: str


@dataclass(slots=True)
class Item:
    """One thing that happened: `kind` is message, reply, step, approval, wait or fact."""

    kind: str
    id: str
    at_ms: int
    title: str
    status: str = ""
    who: str = ""
    value: Any = NOTHING
    result: Any = NOTHING
    failure: r.Failure | None = None
    attempts: int = 0
    ended_ms: int | None = None
    facts: list[tuple[str, str]] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    tokens: tuple[int, int] | None = None

    @property
    def has_value(self) -> bool:
        """Whether it was given something."""
        return self.value is not NOTHING

    @property
    def has_result(self) -> bool:
        """Whether something came of it."""
        return self.result is not NOTHING

    @property
    def took_ms(self) -> int | None:
        """From its beginning to its end, rests included."""
        return None if self.ended_ms is None else max(0, self.ended_ms - self.at_ms)


@dataclass(slots=True)
class TurnShown:
    """A turn; number 0 is what came before the first."""

    number: int
    at_ms: int
    occasion: str = ""
    versions: tuple[r.Version, ...] = ()
    items: list[Item] = field(default_factory=list)
    ended_ms: int | None = None

    @property
    def newest(self) -> list[Item]:
        """The last items, as many as a page shows."""
        return self.items[-ITEMS_SHOWN:]

    @property
    def tokens(self) -> tuple[int, int] | None:
        """What models took and gave in this turn, where they told."""
        told = [item.tokens for item in self.items if item.tokens]
        return (sum(t[0] for t in told), sum(t[1] for t in told)) if told else None

    @property
    def attempts(self) -> int:
        """Calls that were made in it, again ones included."""
        return sum(item.attempts for item in self.items)

    @property
    def steps(self) -> int:
        """Calls that were asked for."""
        return sum(item.kind == "step" for item in self.items)


ENDS: dict[type, str] = {
    r.ActivityCompleted: COMPLETED,
    r.ActivityFailed: FAILED,
    r.ActivityCancelled: CANCELLED,
    r.ApprovalGranted: "granted",
    r.ApprovalRejected: "rejected",
    r.ApprovalExpired: "expired",
    r.ApprovalAnswered: "answered",
    r.ApprovalVoided: "voided",
    r.ApprovalWithdrawn: "withdrawn",
    r.TimerFired: "fired",
    r.TimerCancelled: "cancelled",
    r.SignalDelivered: "delivered",
    r.InboxTaken: "taken",
    r.WaitWithdrawn: "withdrawn",
    r.JobCompleted: COMPLETED,
    r.JobFailed: FAILED,
    r.JobExpired: "expired",
    r.JobWithdrawn: "withdrawn",
    r.ChildCompleted: COMPLETED,
    r.ChildFailed: FAILED,
    r.ChildCancelled: CANCELLED,
    r.ChildExpired: "expired",
    r.ChildWithdrawn: "withdrawn",
}
"""Facts that end an item, and what it is then."""

STANDS: dict[type, str] = {
    r.ActivityUncertain: UNCERTAIN,
    r.ActivityRetryScheduled: "retrying",
    r.ActivityStarted: "running",
    r.ActivityReturned: "requested",
    r.ActivityRetried: "requested",
}

_BAD = frozenset({r.SessionFailed, r.NondeterminismFound, r.SessionHeld, r.CommandRefused})


def timeline(events: Iterable[r.Event]) -> list[TurnShown]:
    """The turns of these events, the oldest first; those that come before any turn are turn 0."""
    turns: list[TurnShown] = []
    items: dict[str, Item] = {}
    queued: dict[str, tuple[TurnShown, Item]] = {}
    for event in events:
        envelope, body = event.envelope, event.body
        if isinstance(body, r.TurnStarted):
            _begin(turns, queued, envelope, body)
            continue
        if not turns:
            turns.append(TurnShown(0, envelope.at_ms))
        turn = turns[-1]
        if type(body) in OPENS:
            item = _opened(envelope, body)
            items[item.id] = item
            turn.items.append(item)
        elif type(body) in GOES_ON or isinstance(body, r.ActivityStarted | r.ActivityProgressed):
            _go_on(turn, items, envelope, body)
        elif (alone := _alone(envelope, body)) is not None:
            turn.items.append(alone)
            if isinstance(body, r.MessageReceived | r.TriggerReceived):
                queued[alone.id] = turn, alone
        if isinstance(
            body, r.TurnCompleted | r.SessionCompleted | r.SessionFailed | r.SessionReset
        ):
            turn.ended_ms = envelope.at_ms
    return turns


def _begin(
    turns: list[TurnShown],
    queued: dict[str, tuple[TurnShown, Item]],
    envelope: r.Envelope,
    body: r.TurnStarted,
) -> None:
    """A new turn; what started it is told there, and not where it came in."""
    told = ": ".join(filter(None, (body.trigger, body.reason)))
    occasion = "" if body.trigger == MESSAGE else told
    turn = TurnShown(body.turn, envelope.at_ms, occasion, body.versions)
    before, item = queued.pop(body.message_id or "", (None, None))
    if before is not None and item is not None:
        before.items.remove(item)
        turn.items.append(item)
        if not before.items:
            turns.remove(before)
    turns.append(turn)


def _opened(envelope: r.Envelope, body: Any) -> Item:
    at_ms = envelope.at_ms
    match body:
        case r.ActivityRequested():
            item = Item("step", body.activity_id, at_ms, body.name, "requested")
            item.value, item.attempts = as_json(body.arguments), body.attempt
            item.facts = _facts(
                step=f"{body.turn}.{body.step}",
                contract=body.contract,
                queue=body.queue,
                approval=body.proposal_id or body.approval,
                key=body.idempotency_key,
                untrusted="its result is content that nobody vouches for" if body.untrusted else "",
                policies=", ".join(body.policy_ids),
            )
            if body.withheld_ms is not None:
                item.status = "withheld"
        case r.ApprovalRequested():
            item = Item("approval", body.proposal_id, at_ms, body.name, "requested")
            item.value, item.who = as_json(body.arguments), body.approver
            item.facts = _facts(
                contract=body.contract,
                quorum=str(body.quorum) if body.quorum > 1 else "",
                because="; ".join(body.because),
                supersedes=body.supersedes or "",
                digest=body.digest.hex(),
            )
            item.facts += [(f"relies on {v.name}", v.version) for v in body.relies_on]
        case r.TimerSet():
            item = Item("wait", body.timer_id, at_ms, "timer", "set")
        case r.ChildStarted():
            item = Item("wait", body.child_id, at_ms, body.workflow, "open")
            item.value = as_json(body.input)
            item.facts = _facts(child=body.child_id)
        case _:
            id_ = getattr(body, OPENS[type(body)][0])
            item = Item("wait", id_, at_ms, getattr(body, "name", "inbox"), "awaited")
    item.moments.append(Moment(at_ms, OPENS[type(body)][1](envelope, body)))
    return item


def _go_on(turn: TurnShown, items: dict[str, Item], envelope: r.Envelope, body: Any) -> None:
    name = GOES_ON[type(body)][0] if type(body) in GOES_ON else "activity_id"
    id_ = getattr(body, name)
    item = items.get(id_)
    if item is None:  # its beginning is older than what is told
        item = items[id_] = Item(
            "step" if name == "activity_id" else "wait", id_, envelope.at_ms, id_
        )
        turn.items.append(item)
    kind = type(body)
    if kind in GOES_ON:
        words = GOES_ON[kind][1](envelope, body).lstrip(":; ")
        item.moments.append(Moment(envelope.at_ms, words))
    if kind in ENDS:
        item.status, item.ended_ms = ENDS[kind], envelope.at_ms
    elif kind in STANDS:
        item.status = STANDS[kind]
    if getattr(body, "withheld_ms", None) is not None:
        item.status = "withheld"
    match body:
        case r.ActivityCompleted():
            item.failure = None
            item.result, item.attempts = as_json(body.result), body.attempt
            item.tokens = _tokens(item.result)
            item.facts += _facts(worker=body.worker, recovered="yes" if body.recovered else "")
        case r.ActivityFailed() | r.ActivityUncertain():
            item.failure, item.attempts = body.failure, body.attempt
            item.facts += _facts(worker=body.worker)
        case r.ActivityRetryScheduled():
            item.failure, item.attempts = body.failure, body.attempt - 1
        case r.ActivityRetried():
            item.attempts = body.attempt
        case r.ActivityProgressed():
            item.moments.append(Moment(envelope.at_ms, f"progress: {as_json(body.progress)}"))
        case r.ActivityStarted():
            item.moments.append(Moment(envelope.at_ms, f"{body.worker} runs it"))
        case r.ActivityResolved():
            item.status, item.ended_ms = body.resolution, envelope.at_ms
            if body.result is not None:
                item.result = as_json(body.result)
        case r.ApprovalAnswered():
            item.result = as_json(body.answer)
        case r.SignalDelivered():
            item.result = as_json(body.data)
        case r.JobCompleted() | r.ChildCompleted():
            item.result = as_json(body.result)
        case r.JobFailed() | r.ChildFailed():
            item.failure = body.failure
        case _:
            pass


def _alone(envelope: r.Envelope, body: Any) -> Item | None:
    at_ms = envelope.at_ms
    match body:
        case r.MessageReceived():
            item = Item("message", body.message_id, at_ms, "", who=envelope.actor)
            item.value = as_json(body.message)
        case r.ReplySent():
            item = Item("reply", "", at_ms, "", value=as_json(body.message))
        case r.SessionCompleted():
            item = Item("fact", "", at_ms, "the session ended", "completed")
            item.value = as_json(body.outcome)
            item.facts = _facts(verified_by=body.verified_by or "")
        case _ if type(body) in ALONE:
            words = ALONE[type(body)](envelope, body)
            status = "failed" if type(body) in _BAD else ""
            id_ = body.trigger_id if isinstance(body, r.TriggerReceived) else ""
            item = Item("fact", id_, at_ms, words, status)
        case _:
            return None
    return item


def _facts(**found: str) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), text) for name, text in found.items() if text]


def _tokens(result: Any) -> tuple[int, int] | None:
    """What a model's answer says that it took and gave."""
    usage = result.get("usage") if isinstance(result, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("input_tokens", "output_tokens")]
    if not all(isinstance(count, int) for count in counts):
        return None
    return int(counts[0] or 0), int(counts[1] or 0)
