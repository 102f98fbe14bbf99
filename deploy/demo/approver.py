"""The supervisor who is asked about large refunds: a script with a rule, or the person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

from rich.text import Text

from ...commands.client import Client
from ...commands.sending import Unconfirmed
from ...events.records import Outcome
from .view import View, printable

THINKS_S = 0.4
"""The script's moment of thought."""

TOO_MUCH_CENTS = 100_000
"""The script says no to what is above."""

Decision = Literal["approve", "reject"]


@dataclass(slots=True)
class Approver:
    """Call `hear` with each proposal, and `decide` often. `wrote` gives a customer's message by the session.

    The first `leaves` are left to somebody else, in the console, until they are taken back.
    """

    client: Client
    view: View
    asks: bool
    wrote: Callable[[str], str]
    leaves: int = 0
    left: dict[str, str] = field(default_factory=dict)
    """Sessions with one that is left, and where: `<session>/<proposal>`."""
    decided_elsewhere: str | None = None
    """A session whose one that was left has its answer."""
    _left: dict[str, Outcome] = field(default_factory=dict)
    _open: dict[str, tuple[Outcome, float]] = field(default_factory=dict)

    def hear(self, outcome: Outcome) -> None:
        """A proposal, which is decided a moment later; a repeat changes nothing."""
        key = f"{outcome.session_id}/{outcome.proposal_id}"
        if key in self.left.values():
            return
        if self.leaves:
            self.leaves -= 1
            self.left[outcome.session_id] = key
            self._left[outcome.session_id] = outcome
            self.view.line(f"a refund of {outcome.session_id} is left to you, in the console")
            return
        self._open.setdefault(key, (outcome, monotonic() + THINKS_S))

    def hear_reply(self, session_id: str) -> None:
        """An answer: whoever it was left to has decided."""
        if self.left.pop(session_id, None) is not None:
            self.decided_elsewhere = session_id

    def take_back(self) -> None:
        """Decides itself what is left; if somebody does so at the same moment, the first decision counts."""
        self.leaves = 0
        for session_id, key in self.left.items():
            self._open[key] = (self._left[session_id], monotonic())
        self.left.clear()

    def decide(self) -> int:
        """Decides what is due; gives how many."""
        now_s, count = monotonic(), 0
        for key, (outcome, due_s) in list(self._open.items()):
            if due_s > now_s:
                continue
            try:
                self._send(outcome, self._decision(outcome))
            except Unconfirmed:
                continue  # under the same id at the next look
            del self._open[key]
            count += 1
        return count

    def _decision(self, outcome: Outcome) -> Decision:
        action = {} if outcome.message is None else self.client.load(outcome.message)
        if not self.asks:
            return "reject" if action["cents"] > TOO_MUCH_CENTS else "approve"
        said = ask(self.view, self.wrote(outcome.session_id), action, len(self._open))
        if said == "rest":
            self.asks = False
            return self._decision(outcome)
        return said

    def _send(self, outcome: Outcome, decision: Decision) -> None:
        self.client.decide(
            outcome.session_id,
            outcome.proposal_id or "",
            outcome.digest or b"",
            decision,
            command_id=f"decide-{outcome.proposal_id}",
        )


def ask(
    view: View, wrote: str, action: dict[str, Any], waiting: int = 1
) -> Decision | Literal["rest"]:
    """Shows message and action, and asks for a decision: approve, reject, or leave the rest to the script."""
    words: dict[str, Decision | Literal["rest"]] = {
        "y": "approve",
        "yes": "approve",
        "n": "reject",
        "no": "reject",
        "r": "rest",
        "rest": "rest",
    }
    with view.paused() as console:
        more = f", {waiting - 1} more after it" if waiting > 1 else ""
        told = f"{action['cents'] / 100:.2f} for order {printable(str(action['order_id']))}"
        console.print(Text(f"\na customer wrote: {printable(wrote)}"), soft_wrap=True)
        console.print(Text(f"the agent wants to refund {told}{more}", style="bold"), soft_wrap=True)
        while True:
            console.print("refund? \\[y]es, \\[n]o, \\[r]est by the script: ", end="")
            answer = sys.stdin.readline()
            if not answer:
                raise KeyboardInterrupt
            decided = words.get(answer.strip().lower())
            if decided:
                return decided
            console.print("answer y, n or r")
