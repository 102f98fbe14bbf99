"""A hand that can also signal, trigger and resolve, and activities whose contracts leave doubt."""

from __future__ import annotations

from typing import Any

from tests.processors import desk
from tests.processors.desk import KEY, Desk, find_order, kinds, refund

from wakeful import Message, Read, Turn, Write, activity, workflow
from wakeful.commands.models import (
    FailActivity,
    ResolveActivity,
    SendMessage,
    SendSignal,
    StartTurn,
)
from wakeful.events import records as r
from wakeful.events.payloads import json_payload
from wakeful.processors.workflow.claims import Claims
from wakeful.processors.workflow.replay import Rebuilt, rebuild

__all__ = ["Desk", "Hand", "Message", "Turn", "find_order", "kinds", "refund", "workflow"]


class Hand(desk.Hand):
    """See `desk.Hand`."""

    def signal(self, name: str, data: Any = None) -> list[r.EventBody]:
        """A signal from outside."""
        return self.give(SendSignal(name, json_payload(data, KEY)))

    def trigger(self, kind: str, reason: str = "", **data: Any) -> list[r.EventBody]:
        """An occasion that is not a message."""
        return self.give(StartTurn(kind, reason, json_payload(data, KEY)))

    def resolve(self, activity_id: str, resolution: str, value: Any = None) -> list[r.EventBody]:
        """What a person found out."""
        result = json_payload(value, KEY) if resolution == "completed" else None
        return self.give(ResolveActivity(activity_id, resolution, result, "looked"), actor="op")

    def lose(self, activity_id: str, attempt: int = 1) -> list[r.EventBody]:
        """The attempt's worker died, and nobody knows what it did."""
        failure = r.Failure("cut_off", "", "no word", "")
        body = FailActivity(activity_id, attempt, failure, "w1")
        return self.give(body, actor="worker:w1")

    def tell(self, data: Any) -> list[r.EventBody]:
        """A message that is no text."""
        return self.give(SendMessage(json_payload(data, KEY)))

    def bodies(self, kind: type[desk.T]) -> list[desk.T]:
        """All facts of one kind."""
        return [s.event.body for s in self.log if isinstance(s.event.body, kind)]

    @property
    def replies(self) -> list[str]:
        """What was said."""
        return [(said.message.inline or b"").decode() for said in self.bodies(r.ReplySent)]


def says(*texts: str) -> list[str]:
    """Replies as they are stored."""
    return [f'{{"text":"{text}"}}' for text in texts]


def no_doubt_left(hand: Hand) -> None:
    """The history folds to the session, and nothing of it was held."""
    assert hand.refold().state == hand.session.state
    assert not hand.bodies(r.NondeterminismFound) + hand.bodies(r.SessionHeld)


@activity(contract=Write(), schedule_to_close="5m")
async def wire(cents: int) -> str:
    """Moves money, once at most."""
    return f"wired {cents}"


@activity(contract=Write(idempotent=True), schedule_to_close="5m")
async def recall(cents: int, done_key: str) -> str:
    """Takes it back."""
    return f"recalled {cents} of {done_key}"


@activity(contract=Write(undo=recall), schedule_to_close="5m")
async def book(cents: int) -> str:
    """Writes it down; can be undone."""
    return f"booked {cents}"


@activity(contract=Read(), schedule_to_close="5m")
async def adds_up(cents: int) -> bool:
    """Whether the books agree."""
    return cents > 0


ACTIVITIES = (find_order, refund, wire, recall, book, adds_up)


def desk_of(function: Any, version: int = 1) -> Any:
    """The function as the desk's code."""
    return workflow("desk", version=version)(function)


def hand_of(function: Any, *, always_replay: bool = False) -> Hand:
    """A session of the function, not opened yet."""
    return Hand(desk_of(function), *ACTIVITIES, always_replay=always_replay)


def replayed(hand: Hand, code: Any, journal: list[r.Event]) -> Any:
    """What a rebuild of this journal with this code gives."""
    from wakeful.processors.workflow import advance, choosing

    state = hand.session.state
    position = choosing.Position("acme", "s1", state, journal)
    context = advance.context_of(position, desk.Facts(KEY))
    begun = journal[0].body
    data = begun.state if isinstance(begun, r.TurnContinued) else state.data
    return rebuild(
        code,
        context,
        data,
        advance.message_of(state, Claims(context.tenant, context.digest_key, None)),
        journal,
    )


def is_rebuilt(result: Any) -> bool:
    """Whether the code took the same steps."""
    return isinstance(result, Rebuilt)
