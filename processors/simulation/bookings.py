"""What sagas of the simulation book, and take back: activities over a ledger that remembers in which order."""

from __future__ import annotations

from ..activities.contracts import NothingDone, Retry, Write
from ..activities.definitions import activity
from ..activities.rules import Needs
from .downstream import TooSlow, World


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    schedule_to_close="20s",
    retry=Retry(attempts=2),
)
async def unbook(mood: str, done_key: str, *, key: str) -> str:
    """Takes a booking back; in one mood only the third call does."""
    if mood.endswith("!") and World.downstream.call(key) < 3:
        raise ConnectionError("nobody takes it back")
    return _unbook(mood, done_key, key)


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    schedule_to_close="20s",
    approval=Needs("supervisor", expires="4s", four_eyes=True),
)
async def unbook_dearly(mood: str, done_key: str, *, key: str) -> str:
    """The same, which somebody has to approve, and not the one for whom it was booked."""
    return _unbook(mood, done_key, key)


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    timeout="1s",
    schedule_to_close="3s",
    retry=Retry(attempts=2, initial="200ms"),
)
async def book(mood: str, *, key: str) -> str:
    """A booking that may be repeated; see `Bank` for the letters of its mood."""
    return _book(mood, key)


@activity(contract=Write(), queue="payments", timeout="1s", schedule_to_close="3s")
async def reserve(mood: str, *, key: str) -> str:
    """One that is called once."""
    return _book(mood, key)


def _unbook(mood: str, done_key: str, key: str) -> str:
    World.downstream.bookings.append(("taken back", done_key, key))
    return World.downstream.pay(key, f"take {mood} back")


def _book(mood: str, key: str) -> str:
    at = World.downstream.call(key) - 1
    letter = mood[at : at + 1] or "k"
    if letter == "n":
        raise NothingDone("no room")
    if letter == "f":
        raise ConnectionError("no route")
    World.downstream.bookings.append(("booked", key, key))
    receipt = World.downstream.pay(key, f"book {mood}")
    if letter == "t":
        raise TooSlow
    if letter in "ld":
        raise ConnectionError("no answer")
    return receipt


BOOKINGS = (book, reserve, unbook, unbook_dearly)
