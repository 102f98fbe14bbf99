"""People who do more than say yes or no: they edit, answer, decide together or twice, and tell that data has changed.

Only in some seeds, and by random numbers of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ...commands import models as m
from ...events.blobs import Blobs, put_payload
from ...events.records import Outcome
from ...events.verdicts import APPROVE, EDIT, REJECT, RESPOND
from .forgers import TENANT
from .plan import KINDS_OF_SEEDS, limits

BOARDS = (4, 17, 30)
"""Of so many kinds of seeds those with boards in them."""

MEMBERS = ("ann", "bob", "cid", "dora")

PRICES = "prices"
"""What the actions that rely on something rely on."""

WORDS = ("bonus:700", "bonus:90", "rely:600", "rely:50", "refund:800")

LIMITED = (
    *("think:a", "pay:30", "rely:601", "rely:601", "refund:800", "flaky:d", "flaky:l", "bonus:700"),
    *("charge:k", "charge:fl", "ship:70", "race", "sleep:1"),
)
"""What policies say something about, and time that passes before it is done."""

CALM_WORDS = ("pay:30", "charge:k", "refund:800", "rely:601", "ship:70 pay:30")
"""What is asked for after healing: some of it needs an approval, by a rule or by policy."""

CALM_TURNS = 14
"""A few more than there are sets after healing, so that each meets something that is due."""

Send = Callable[[str, m.CommandBody, str], None]
"""Sends a command to a session, from one of the members."""


class Board:
    """The members, and what they make of a proposal."""

    def __init__(self, seed: int, digest_key: bytes, blobs: Blobs) -> None:
        self._limited = limits(seed)
        self.sits = self._limited or seed % KINDS_OF_SEEDS in BOARDS
        self._rng = random.Random(f"board/{seed}")
        self._digest_key = digest_key
        self._blobs = blobs
        self._versions = 0
        self._turns = random.Random(f"turns/{seed}")
        self._turns_left = CALM_TURNS if self._limited else 0

    def script(self, text: str) -> str:
        """The same turn, with something for the board in it."""
        if not self.sits:
            return text
        if self._limited:
            return " ".join(self._rng.choices(LIMITED, k=self._rng.randint(2, 6)))
        return " ".join([*self._rng.choices(WORDS, k=self._rng.randint(1, 2)), text])

    def turn(self) -> tuple[str, str] | None:
        """After healing, in seeds with limits: one more session, and its turn, while policies come and go."""
        if not self._turns_left:
            return None
        self._turns_left -= 1
        return f"calm{self._turns_left}", self._turns.choice(CALM_WORDS)

    def decide(self, proposal: Outcome, send: Send) -> None:
        """One of their ways with a proposal."""
        rng, session_id = self._rng, proposal.session_id
        first, second = rng.sample(MEMBERS, 2)
        roll = rng.random()
        if roll < 0.25:
            send(session_id, self._decision(proposal, EDIT, {"cents": rng.randint(1, 999)}), first)
        elif roll < 0.33:
            send(session_id, self._decision(proposal, RESPOND, {"text": "why so much?"}), first)
        elif roll < 0.6:  # just before a decision, or just after it
            pair: list[m.CommandBody] = [self.change(), self._decision(proposal, APPROVE)]
            for body in pair if roll < 0.5 else reversed(pair):
                send(session_id, body, first)
        elif roll < 0.65:
            send(session_id, self._decision(proposal, REJECT), first)
        else:
            both = (first, first, second) if roll < 0.85 else (first, second)
            for member in both:
                send(session_id, self._decision(proposal, APPROVE), member)

    def agree(self, proposal: Outcome, send: Send) -> None:
        """All of them say yes."""
        for member in MEMBERS:
            send(proposal.session_id, self._decision(proposal, APPROVE), member)

    def change(self) -> m.ChangeArtifact:
        """The news of another version, or of the one that is known."""
        self._versions += self._rng.random() < 0.8
        return m.ChangeArtifact(PRICES, f"p{self._versions}")

    def _decision(self, proposal: Outcome, decision: str, data: object = None) -> m.DecideApproval:
        stored = None if data is None else put_payload(data, TENANT, self._digest_key, self._blobs)
        shown = proposal.digest or b""
        return m.DecideApproval(proposal.proposal_id or "", shown, decision, "", stored)
