"""Trips whose seats never come: what they do goes into a file, a line for each time, with the time."""

import asyncio
import os
import time
from pathlib import Path

from wakeful import Message, Turn, Write, activity, workflow


def note(what: str, key: str) -> None:
    with Path(os.environ["SAGA_BOOK"]).open("a", encoding="utf-8") as book:
        book.write(f"{what} {key} {time.time()}\n")


@activity(contract=Write(idempotent=True))
async def book(trip: str, *, key: str) -> str:
    note("booked", key)
    return trip


@activity(contract=Write(idempotent=True))
async def unbook(trip: str, done_key: str) -> None:
    note("unbooked", done_key)


@activity(contract=Write(), queue="seats", timeout="20m", schedule_to_close="2h")
async def seat(trip: str, *, key: str) -> str:
    note("began", key)
    try:
        await asyncio.sleep(1_200)
    finally:
        note("stopped", key)
    return trip


@workflow("trips", version=1)
async def trips(turn: Turn, trips_made: int, message: Message) -> int:
    await turn.run(book.call(message.text), compensate=unbook)
    await turn.run(seat.call(message.text), compensate=unbook)
    return trips_made + 1
