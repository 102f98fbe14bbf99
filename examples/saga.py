"""A trip of three bookings. If one fails, or the trip is called off, those that were made are taken back, the last one first.

Run it with `python examples/saga.py`: a rehearsal, without Kafka.
"""

from wakeful import Message, Retry, Turn, Write, activity, workflow
from wakeful.testing import rehearse

ONCE_PER_KEY = Write(idempotent=True)


@activity(contract=ONCE_PER_KEY)
async def book_flight(trip: str, *, key: str) -> str:
    return f"flight to {trip}"  # your airline, which books a key once


@activity(contract=ONCE_PER_KEY)
async def cancel_flight(trip: str, done_key: str) -> None:
    print(f"  flight to {trip} taken back ({done_key})")


@activity(contract=ONCE_PER_KEY)
async def book_room(trip: str, *, key: str) -> str:
    return f"room in {trip}"


@activity(contract=ONCE_PER_KEY, retry=Retry(attempts=5))
async def cancel_room(trip: str, done_key: str) -> None:
    print(f"  room in {trip} taken back ({done_key})")


@activity(contract=ONCE_PER_KEY)
async def pay(trip: str, *, key: str) -> str:
    return f"paid for {trip}"


@workflow("trips", version=1)
async def trips(turn: Turn, trips_made: int, message: Message) -> int:
    trip = message.text
    await turn.run(book_flight.call(trip), compensate=cancel_flight)
    await turn.run(book_room.call(trip), compensate=cancel_room)
    await turn.sleep("1h")  # the customer may still call it off
    await turn.run(pay.call(trip))
    await turn.committed()  # from here on the trip stands
    return trips_made + 1


if __name__ == "__main__":
    for told in ("paid", "no cover", "called off"):
        session = rehearse(trips)
        session.send("Rome")
        print(told)
        if told == "called off":
            session.cancel()
        if told == "no cover":
            session.fail_next("pay", "nothing_done", message="no cover")
        session.skip("2h")
        print(f"  {session.status}, in the end")
