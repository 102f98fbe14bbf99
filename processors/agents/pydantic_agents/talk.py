"""What a session of such an agent keeps: its messages in Pydantic AI's own JSON, and what its turn has used. Pure.

Rules:
- The list of messages is only appended to, so a request repeats nothing that the one before it held.
- Each call has one result behind it before the model is asked again.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class Talk(BaseModel):
    """The state of a durable agent.

    `messages` is a history as `ModelMessagesTypeAdapter` reads it. `unheard` are texts that no request to the model has
    held yet. `turn` is the turn that is under way, 0 between turns; `began` is how many messages were there before it,
    and `usage` what it has used, as a `RunUsage`.
    """

    messages: list[Any] = []
    unheard: list[str] = []
    turn: int = 0
    began: int = 0
    usage: dict[str, Any] = {}

    def begin(self, turn: int) -> None:
        """A turn begins, and has used nothing."""
        self.turn, self.began, self.usage = turn, len(self.messages), {}

    def heard(self, messages: list[Any], usage: dict[str, Any]) -> None:
        """Takes in what one request to the model added."""
        self.messages.extend(messages)
        self.unheard = []
        self.usage = usage

    def called(self, count: int) -> None:
        """Books calls that tools have answered."""
        self.usage["tool_calls"] = self.usage.get("tool_calls", 0) + count

    def rest(self) -> None:
        """The turn is over."""
        self.turn = self.began = 0
        self.usage = {}
