"""Rooms that sessions hold over their turns: activities that furnish, look into and clear them, and turns that use them.

Only in some seeds, and by random numbers of their own.
"""

from __future__ import annotations

import random

from ..activities.contracts import Read, ResourceLost, Retry, Write
from ..activities.definitions import activity
from ..workflow.errors import ActivityError
from ..workflow.resources import Resource
from ..workflow.turn import Turn
from .downstream import World
from .plan import limits

LODGINGS_IN = (17, 25, 28, 32)
"""Of so many kinds of seeds those whose sessions hold rooms, where policies do not come and go meanwhile."""

KINDS = 43

ROOM = "room"

TTL = "3s"

WORDS = frozenset({"room", "stay", "rooms", "vacate", "inn"})

_SCRIPTS = (
    *("room:k", "room:k", "room:x", "stay:4", "stay:2", "rooms:x", "rooms:x", "vacate:k"),
    *("sleep:3.5", "inn:k break:g", "inn:k book:k break:g", "room:k complete:ok", "room:k raise:r"),
)


@activity(contract=Write(idempotent=True), queue="payments", timeout="2s", schedule_to_close="8s")
async def furnish(mood: str, *, key: str) -> str:
    """Opens a room, once per key: its handle is the receipt."""
    return World.downstream.pay(key, mood)


@activity(contract=Write(idempotent=True), queue="payments", timeout="2s", schedule_to_close="8s")
async def refurnish(handle: str, *, key: str) -> str:
    """Opens another one in the place of this."""
    return World.downstream.pay(key, handle)


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    schedule_to_close="20s",
    retry=Retry(attempts=2),
)
async def clear(handle: str, *, key: str) -> str:
    """Closes a room; one that is gone is closed."""
    World.downstream.rooms.close(handle, key)
    return World.downstream.pay(key, handle)


@activity(contract=Read(), timeout="2s", schedule_to_close="6s", retry=Retry(attempts=3))
async def look_in(handle: str, mood: str, *, key: str) -> str:
    """Looks into a room; in one mood it burns down before the first look, in another the first look fails by itself."""
    rooms = World.downstream.rooms
    if mood == "s" and World.downstream.call(key) == 1:
        raise ConnectionError("no light")
    if mood == "x" and World.downstream.call(key) == 1:
        rooms.burn(handle)
    if not rooms.is_open(handle):
        raise ResourceLost(ROOM)
    return handle


LODGINGS = (furnish, refurnish, clear, look_in)


def has_lodgings(seed: int) -> bool:
    """Whether sessions of this seed hold rooms."""
    return seed % KINDS in LODGINGS_IN and not limits(seed)


class Lodging:
    """Adds words to the turns of its seeds."""

    def __init__(self, seed: int) -> None:
        self.works = has_lodgings(seed)
        self._rng = random.Random(f"lodging/{seed}")

    def script(self, text: str) -> str:
        """The same turn, with rooms before or behind it."""
        if not self.works:
            return text
        rng = self._rng
        words = rng.choices(_SCRIPTS, k=rng.choice((1, 1, 2, 3)))
        return " ".join([*words, text] if rng.random() < 0.7 else [text, *words])


async def lodge(turn: Turn, step: str, argument: str) -> None:
    """One of these words; the argument is the mood of the look, or how long to stay."""
    try:
        match step:
            case "room":
                await turn.say(await _seen(turn, argument))
            case "stay":  # it may expire meanwhile
                held = await _room(turn)
                await turn.sleep(float(argument))
                await turn.say(f"{held.how} {(await _room(turn)).how}")
            case "rooms":  # two look at once, and both may find it gone
                await turn.say(list(await turn.gather(_seen(turn, argument), _seen(turn, "s"))))
            case "vacate":
                await turn.release(await _room(turn))
            case _:
                await turn.say((await _room(turn)).how)
    except ActivityError as error:
        await turn.say(f"{error.failure.kind} {error.lost}")


async def _seen(turn: Turn, mood: str) -> str:
    """What is seen in the room; it is furnished again once, where it is gone."""
    held = await _room(turn)
    try:
        await turn.run(look_in.call(held.handle, mood))
    except ActivityError as error:
        if error.lost is None:
            raise
        again = await _room(turn)
        return f"{held.how} {again.how}"
    return held.how


async def _room(turn: Turn) -> Resource[str]:
    return await turn.resource(
        ROOM,
        attach=furnish.call(f"turn {turn.number}"),
        ttl=TTL,
        reconstruct=refurnish.call if turn.number % 2 else None,
        release=clear,
    )
