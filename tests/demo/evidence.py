"""Evidence of a run where all went well, as a starting point for planted faults."""

from dataclasses import replace

from wakeful.deploy.demo.messages import Incoming
from wakeful.deploy.demo.outbox import Answer, CallLine
from wakeful.deploy.demo.report import Evidence, Kill
from wakeful.events import records as r
from wakeful.events.payloads import json_payload
from wakeful.projections.audit.rebuild import rebuild_rows

TENANT = "local"
KEY = b"a digest key for tests"
STEP_MS = 10
SENT = ("I want a refund", "Where is it?", "hi")
KINDS = ("refund", "question", "other")


def payload(value) -> r.Payload:
    return json_payload(value, KEY)


class Session:
    """Writes the history of one message."""

    def __init__(self, message: Incoming, kind: str) -> None:
        self.message, self.kind = message, kind
        self.events: list[r.Event] = []
        self.at_ms = 1_000 * message.line
        self.key = f"{TENANT}/{message.session_id}/1"

    def add(self, body) -> None:
        self.at_ms += STEP_MS
        cause = r.Cause("c", 0, len(self.events), "id", None, None)
        seq = len(self.events) + 1
        envelope = r.Envelope(
            TENANT, self.message.session_id, seq, self.at_ms, "a", None, "t", cause, None, None, b""
        )
        self.events.append(r.Event(envelope, body))

    def asks(self, step: int, name: str, arguments, approval="none", proposal_id=None) -> None:
        self.add(
            r.ActivityRequested(
                f"1.{step}",
                1,
                step,
                name,
                "q",
                "read",
                payload(arguments),
                b"d",
                f"{self.key}/{step}",
                1,
                1_000,
                9_999_999,
                approval,
                proposal_id,
            )
        )

    def history(self) -> list[r.Event]:
        text, gated = self.message.text, self.kind == "refund"
        self.add(r.SessionOpened("triage"))
        self.add(r.MessageReceived("m", payload({"text": text})))
        self.add(r.TurnStarted(1, "message", "", "m", "triage", 1, ()))
        self.asks(1, "understand", {"text": text})
        judged = {"kind": self.kind, "answer": "x", "call": f"call-{self.message.line}"}
        self.add(r.ActivityCompleted("1.1", 1, payload(judged), "w"))
        if gated:
            asked = ("p", 1, 2, "send_answer", "write", payload({}), b"d", "supervisor", 9_999_999)
            self.add(r.ApprovalRequested(*asked))
            self.add(r.ApprovalGranted("p", b"d", ""))
        approval = ("granted", "p") if gated else ("exempt", None)
        self.asks(3, "send_answer", {"kind": self.kind}, *approval)
        self.add(r.ActivityCompleted("1.3", 1, payload("name"), "w"))
        self.add(r.SessionCompleted(1, 3, payload({}), payload({}), None, 0))
        return self.events

    @property
    def answer(self) -> Answer:
        return Answer(f"{self.key}/3", self.message.session_id, "", self.kind, "x")

    def calls(self) -> list[CallLine]:
        call, key = f"call-{self.message.line}", f"{self.key}/1"
        began_ms = 1_000 * self.message.line + 4 * STEP_MS
        return [
            CallLine("start", call, key, began_ms + 1, 7),
            CallLine("end", call, key, began_ms + 2, 7),
        ]


def clean() -> Evidence:
    """Three messages, three answers, one approval, two kills."""
    messages = [Incoming(line, text, "") for line, text in enumerate(SENT, start=1)]
    sessions = [Session(message, kind) for message, kind in zip(messages, KINDS, strict=True)]
    events = [event for session in sessions for event in session.history()]
    return Evidence(
        tenant=TENANT,
        messages=messages,
        events=events,
        rows=rebuild_rows(events),
        answers=[session.answer for session in sessions],
        calls=[line for session in sessions for line in session.calls()],
        kills=[Kill("worker", 7, 1_500), Kill("processor", 8, 2_500)],
    )


def without_events(evidence: Evidence, session_id: str, *kinds: type) -> Evidence:
    """The log without some events of a session; the views are rebuilt, so that they agree with it."""
    kept = [
        event
        for event in evidence.events
        if event.envelope.session_id != session_id or not isinstance(event.body, kinds)
    ]
    return replace(evidence, events=kept, rows=rebuild_rows(kept))


def with_text(evidence: Evidence, text: str) -> Evidence:
    """The first message as the log has it, with another text."""
    events = list(evidence.events)
    for at, event in enumerate(events):
        if isinstance(event.body, r.MessageReceived):
            events[at] = replace(event, body=replace(event.body, message=payload({"text": text})))
            break
    return replace(evidence, events=events)
