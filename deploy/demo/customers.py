"""The customers: each writes, reads the answer, and writes again where there is more to say."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ...commands.client import Client
from ...commands.models import OpenSession
from ...commands.sending import Pending, Unconfirmed
from .messages import Incoming
from .refund_desk.desk import refund_desk


@dataclass(slots=True)
class Customers:
    """Call `write` with how many messages should have been sent by now, and `hear` and `lose` with what came back."""

    client: Client
    messages: Sequence[Incoming]
    sent: int = 0
    answered: int = 0
    _unsent: deque[Incoming] = field(init=False)
    _sent: Counter[str] = field(default_factory=Counter)
    _answers: Counter[str] = field(default_factory=Counter)
    _lost: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._unsent = deque(self.messages)

    @property
    def done(self) -> bool:
        """Whether nobody has anything left to write or to wait for."""
        return self.waits_only_for(())

    def waits_only_for(self, sessions: Collection[str]) -> bool:
        """Whether everybody else has nothing left to write or to wait for."""
        unsent = {message.session_id for message in self._unsent}
        unanswered = {s for s, n in self._sent.items() if self._answers[s] < n}
        return (unsent | unanswered) - self._lost <= set(sessions)

    def text_of(self, session_id: str) -> str:
        """What was written last in this session."""
        count = self._sent[session_id]
        own = [message.text for message in self.messages if message.session_id == session_id]
        return own[count - 1] if count else ""

    def hear(self, session_id: str) -> None:
        """An answer: whoever got it may write again."""
        self._answers[session_id] += 1
        self.answered += 1

    def lose(self, session_id: str) -> None:
        """This session answers no more: what its customer still wanted to write stays unwritten."""
        self._lost.add(session_id)
        self._unsent = deque(m for m in self._unsent if m.session_id != session_id)

    def write(self, due: int) -> None:
        """Sends messages until `due` are sent in all, where nobody has to wait for an answer first."""
        batch = self._next(due - self.sent)
        pending = [(message, self._post(message)) for message in batch]
        for message, (opened, sent) in pending:
            try:
                opened.receipt()
                sent.receipt()
            except Unconfirmed:  # the same ids again: what did arrive is not applied twice
                self._unsent.appendleft(message)
                self._sent[message.session_id] -= 1
                continue
            self.sent += 1

    def _next(self, count: int) -> list[Incoming]:
        chosen: list[Incoming] = []
        kept: list[Incoming] = []
        while self._unsent and len(chosen) < count:
            message = self._unsent.popleft()
            session_id = message.session_id
            if self._sent[session_id] > self._answers[session_id]:
                kept.append(message)
                continue
            self._sent[session_id] += 1
            chosen.append(message)
        self._unsent.extendleft(reversed(kept))
        return chosen

    def _post(self, message: Incoming) -> tuple[Pending, Pending]:
        session_id = message.session_id
        body = self.client.message({"text": message.text, "customer": message.customer})
        opened = self.client.post(session_id, OpenSession(refund_desk.name), f"open-{session_id}")
        return opened, self.client.post(session_id, body, message.message_id)
