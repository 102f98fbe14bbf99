"""Plays the outside world: customers who write, a supervisor who approves, and somebody with `kill -9`.

It speaks to the engine as anybody would: commands in, outcomes out. Nothing that it counts goes into the report.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from ...commands.client import Client
from ...commands.models import OpenSession
from ...commands.sending import Pending, Unconfirmed
from ...events.codec import decode_outcome
from ...events.log.protocol import Isolation, Log, Place, Record
from ...events.records import Outcome
from ...events.topics import Topics
from ..exits import Stopped
from ..supervisor import Supervisor
from .messages import Incoming
from .outbox import CALLS
from .report import Kill
from .triage import NAME
from .view import Progress, View, ask

POLL_MS = 50
RECORDS_MAX = 500

SEND_S = 5.0
"""The messages come over about so long, but never slower than `SEND_PER_S_MIN`."""

SEND_PER_S_MIN = 20.0

APPROVE_AFTER_S = 0.4
"""The supervisor's moment of thought."""

HELD_BACK = 4
"""A quarter of the messages comes after the kills, so that these are in the middle."""

KILL_APART_S = 1.0
KILL_PATIENCE_S = 2.0
"""How long a kill waits for a model call that it can cut."""

STALL_S = 60.0
"""Nothing moves for so long: the run is over, and the report says what is missing."""

VICTIMS = ("worker-models-0", "processor-0", "worker-outbox-0")


class CallWatch:
    """Which model calls are under way, read from the end of the file that workers append to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._open: set[str] = set()

    def look(self) -> int:
        """How many are open now."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            file.seek(self._at)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            said = json.loads(line)
            (self._open.add if said["at"] == "start" else self._open.discard)(said["call"])
        return len(self._open)


@dataclass(slots=True)
class _Proposal:
    outcome: Outcome
    due_s: float


@dataclass(slots=True)
class Drive:
    """One run, in one thread: call `run`, then read `kills`."""

    log: Log
    topics: Topics
    supervisor: Supervisor
    customers: Client
    decider: Client
    outbox: Path
    messages: Sequence[Incoming]
    view: View
    asks: bool
    now_ms: Callable[[], int]
    progress: Progress = field(init=False)
    kills: list[Kill] = field(default_factory=list)
    _unsent: deque[Incoming] = field(init=False)
    _texts: dict[str, str] = field(init=False)
    _proposals: dict[str, _Proposal] = field(default_factory=dict)
    _finished: set[str] = field(default_factory=set)
    _calls: CallWatch = field(init=False)
    _begun_s: float | None = None
    _kill_due_s: float | None = None
    _moved_s: float = 0.0
    _restarts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.progress = Progress(len(self.messages))
        self._unsent = deque(self.messages)
        self._texts = {message.session_id: message.text for message in self.messages}
        self._calls = CallWatch(self.outbox / CALLS)

    def run(self) -> bool:
        """Until every session has ended; false when nothing moves any more."""
        reader = self.log.reader(Isolation.COMMITTED)
        try:
            count = self.log.partitions(self.topics.outcomes)
            reader.assign({Place(self.topics.outcomes, number): 0 for number in range(count)})
            self._moved_s = monotonic()
            while len(self._finished) < len(self.messages):
                for item in reader.poll(RECORDS_MAX, POLL_MS):
                    if isinstance(item, Record):
                        self._hear(decode_outcome(item.value, item.headers))
                self._send_due()
                self._decide_due()
                self._kill_due()
                self._tell_restarts()
                self.view.progress(self.progress)
                if monotonic() - self._moved_s > STALL_S:
                    return False
            return True
        finally:
            reader.close()

    def _hear(self, outcome: Outcome) -> None:
        self._moved_s = monotonic()
        if self._begun_s is None:
            self._begun_s = self._moved_s
        match outcome.kind:
            case "approval_wanted" if outcome.proposal_id:
                key = f"{outcome.session_id}/{outcome.proposal_id}"
                self._proposals[key] = _Proposal(outcome, self._moved_s + APPROVE_AFTER_S)
                self.progress.waiting = len(self._proposals)
            case "completed" | "failed" | "cancelled":
                self._finished.add(outcome.session_id)
                self.progress.finished = len(self._finished)
            case "held" | "refused" | "uncertain":
                self.view.line(f"{outcome.session_id} {outcome.kind}: {outcome.detail}")
            case _:
                pass  # a reply is in the outbox

    def _send_due(self) -> None:
        batch = [self._unsent.popleft() for _ in range(self._due() - self.progress.sent)]
        pending = [(message, self._post(message)) for message in batch]
        for message, (opened, sent) in pending:
            try:
                opened.receipt()
                sent.receipt()
            except Unconfirmed:
                self._unsent.appendleft(
                    message
                )  # the same ids: what did arrive is not applied twice
                continue
            self.progress.sent += 1

    def _due(self) -> int:
        """How many should be sent by now: one until all processes have proved to be there, then one by one."""
        total = len(self.messages)
        if self._begun_s is None:
            return 1
        rate = max(SEND_PER_S_MIN, total / SEND_S)
        due = min(total, 1 + int((monotonic() - self._begun_s) * rate))
        if not self.kills and self._kill_due_s is not None:
            due = min(due, total - 1)  # nothing to cut yet: more messages, and so more calls
        elif len(self.kills) < len(VICTIMS):
            due = min(due, max(1, total - total // HELD_BACK))
        return max(due, self.progress.sent)

    def _post(self, message: Incoming) -> tuple[Pending, Pending]:
        session_id = message.session_id
        body = self.customers.message({"text": message.text, "customer": message.customer})
        opened = self.customers.post(session_id, OpenSession(NAME), f"open-{session_id}")
        return opened, self.customers.post(session_id, body, f"message-{session_id}")

    def _decide_due(self) -> None:
        now_s = monotonic()
        for key, proposal in list(self._proposals.items()):
            if proposal.due_s > now_s:
                continue
            decision = self._ask(proposal.outcome) if self.asks else "approve"
            try:
                self._decide(proposal.outcome, decision)
            except Unconfirmed:
                continue  # asked again under the same id at the next look
            del self._proposals[key]
            self.progress.waiting = len(self._proposals)
            self.progress.approved += 1

    def _ask(self, outcome: Outcome) -> str:
        arguments = {} if outcome.message is None else self.decider.load(outcome.message)
        wrote = self._texts.get(outcome.session_id, "")
        decision = ask(self.view, wrote, outcome.detail or "", arguments)
        self._moved_s = monotonic()
        if decision == "all":
            self.asks = False
            return "approve"
        return decision

    def _decide(self, outcome: Outcome, decision: str) -> None:
        self.decider.decide(
            outcome.session_id,
            outcome.proposal_id or "",
            outcome.digest or b"",
            "reject" if decision == "reject" else "approve",
            command_id=f"decide-{outcome.proposal_id}",
        )

    def _tell_restarts(self) -> None:
        for name, count in self.supervisor.restarts.items():
            if count > self._restarts.get(name, 0):
                self._restarts[name] = count
                self.view.line(f"{name} is started again")

    def _kill_due(self) -> None:
        now_s, open_calls = monotonic(), self._calls.look()
        if len(self.kills) == len(VICTIMS):
            return
        if self._kill_due_s is None:
            if len(self._finished) < len(self.messages) // 4 or not self.progress.sent:
                return
            self._kill_due_s = now_s
        victim = VICTIMS[len(self.kills)]
        if now_s < self._kill_due_s:
            return
        in_call = victim == VICTIMS[0]
        if in_call and not open_calls and now_s < self._kill_due_s + KILL_PATIENCE_S:
            return
        try:
            pid = self.supervisor.kill(victim)
        except Stopped:
            return  # it is down at the moment: the next look
        self.kills.append(Kill(victim, pid, self.now_ms()))
        self.progress.kills = len(self.kills)
        self._kill_due_s = now_s + KILL_APART_S
        told = f" in the middle of {open_calls} model calls" if in_call and open_calls else ""
        self.view.line(f"kill -9 {pid} ({victim}){told}")
