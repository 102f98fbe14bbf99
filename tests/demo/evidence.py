"""Evidence of a run where all went well, as a starting point for planted faults."""

from dataclasses import replace

from wakeful.deploy.demo.messages import Incoming
from wakeful.deploy.demo.papers import CallLine, Letter
from wakeful.deploy.demo.payments import Charge
from wakeful.deploy.demo.refund_desk.desk import refund_desk
from wakeful.deploy.demo.report import Evidence, Kill, Promises
from wakeful.events import records as r
from wakeful.events.payloads import json_payload
from wakeful.projections.audit.rebuild import rebuild_rows

TENANT = "local"
KEY = b"a digest key for tests"
STEP_MS = 10
SUMS = {"1": 25_000, "2": 2_500}


def payload(value) -> r.Payload:
    return json_payload(value, KEY)


class Session:
    """Writes the history of one customer, turn by turn."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.events: list[r.Event] = []
        self.calls: list[CallLine] = []
        self.letters: list[Letter] = []
        self.charges: list[Charge] = []
        self.at_ms, self.turn = 0, 0

    def add(self, body) -> None:
        self.at_ms += STEP_MS
        cause = r.Cause("c", 0, len(self.events), "id", None, None)
        where = (TENANT, self.session_id, len(self.events) + 1, self.at_ms)
        envelope = r.Envelope(*where, "a", None, "t", cause, None, None, b"")
        self.events.append(r.Event(envelope, body))

    def key(self, step: int) -> str:
        return f"{TENANT}/{self.session_id}/{self.turn}/{step}"

    def runs(
        self, step: int, name: str, result, *, approval="none", proposal_id=None, recovered=False
    ):
        activity_id = f"{self.turn}.{step}"
        where = (activity_id, self.turn, step, name, "q", "read", payload({}), b"d", self.key(step))
        self.add(r.ActivityRequested(*where, 1, 1_000, 9_999_999, approval, proposal_id))
        self.add(r.ActivityCompleted(activity_id, 1, payload(result), "w", recovered))

    def begins(self, message: Incoming) -> None:
        self.turn += 1
        self.at_ms = 1_000 * message.line
        if self.turn == 1:
            self.add(r.SessionOpened("refund-desk"))
        self.add(r.MessageReceived(message.message_id, payload({"text": message.text})))
        start = (self.turn, "message", "", message.message_id, "refund-desk", 1, ())
        self.add(r.TurnStarted(*start))
        call = f"call-{message.line}"
        self.calls.append(CallLine("start", call, self.key(1), self.at_ms + 1, 7))
        self.calls.append(CallLine("end", call, self.key(1), self.at_ms + 2, 7))
        self.runs(1, refund_desk.thinks.name, {"text": "", "model": "m", "id": call})

    def ends(self, step: int, decision: str) -> None:
        self.add(r.ReplySent(self.turn, step, payload({"decision": decision, "text": "x"})))
        self.add(r.TurnCompleted(self.turn, step, payload({}), (), ()))

    def asked_back(self, message: Incoming) -> None:
        self.begins(message)
        self.ends(2, "asked back")

    def refunded(self, message: Incoming, order_id: str) -> None:
        """Above the limit with an approval, below it found by a look-up."""
        self.begins(message)
        cents = SUMS[order_id]
        large = cents > 10_000
        self.runs(2, "find_order", {"id": order_id, "item": "cup", "cents": cents})
        if large:
            where = ("p", self.turn, 3, "refund", "write", payload({}), b"d", "supervisor", 9_999)
            self.add(r.ApprovalRequested(*where))
            self.add(r.ApprovalGranted("p", b"d", ""))
        approval = {"approval": "granted", "proposal_id": "p"} if large else {"approval": "exempt"}
        self.runs(4, "refund", f"ch_{order_id}", **approval, recovered=not large)
        charge = Charge(id=f"ch_{order_id}", key=self.key(4), order_id=order_id, cents=cents)
        self.charges.append(charge)
        self.runs(5, "write_letter", "name")
        self.letters.append(Letter(self.key(5), "c", "x"))
        self.ends(6, "refunded")


def clean() -> Evidence:
    """Three messages of two customers: two refunds, of which one was approved; one asked back; two kills."""
    first = Incoming(1, "refund order 1", "ann", "s00001")
    second = Incoming(2, "I want a refund", "bob", "s00002")
    third = Incoming(3, "it was 2", "bob", "s00002")
    ann, bob = Session("s00001"), Session("s00002")
    ann.refunded(first, "1")
    bob.asked_back(second)
    bob.refunded(third, "2")
    events = ann.events + bob.events
    return Evidence(
        tenant=TENANT,
        messages=[first, second, third],
        promises=Promises(),
        events=events,
        rows=rebuild_rows(events),
        charges=ann.charges + bob.charges,
        letters=ann.letters + bob.letters,
        calls=ann.calls + bob.calls,
        kills=[Kill("worker", 7, 1_500), Kill("processor", 8, 2_500)],
    )


def changed(evidence: Evidence, kind: type, change, *, which: int = 0) -> Evidence:
    """The log with one event's body changed, or taken out where `change` gives none; the views agree with it."""
    at = [n for n, event in enumerate(evidence.events) if isinstance(event.body, kind)][which]
    event = evidence.events[at]
    body = change(event.body)
    put = [] if body is None else [replace(event, body=body)]
    events = [*evidence.events[:at], *put, *evidence.events[at + 1 :]]
    return replace(evidence, events=events, rows=rebuild_rows(events))
