"""The activities of the simulation: all five contracts, retries, signs of life, gates, and ways to go wrong."""

from __future__ import annotations

from ..activities.contracts import Read, Retry, RetryLater, Write
from ..activities.credentials import Access, credentials
from ..activities.definitions import activity
from ..activities.inside import heartbeat, progress
from ..activities.rules import Needs
from .downstream import World

APPROVED_ABOVE = 100
"""Cents that may be refunded without asking anybody."""

STUCK_MS = 8_000
"""How long a stuck activity takes: longer than anybody waits for it."""

CRUNCH_MS = 1_500
"""How long one takes that says now and then how far it has come."""

CANARY = "what nobody may read"
"""Stands in all credentials."""

SILENT = "silent"
"""The mood of one that says nothing for longer than anybody waits."""


@activity(contract=Read(), timeout="5s", schedule_to_close="30s", untrusted=True)
async def think(prompt: str) -> int:
    """A model call: each makes another answer."""
    return World.downstream.answer(prompt)


@activity(contract=Read(), timeout="5s", schedule_to_close="6s")
async def stuck(prompt: str) -> int:
    """Its worker reports when nobody waits any more."""
    return World.downstream.answer(prompt)


@credentials
async def vault(access: Access) -> str:
    """Another secret for each attempt."""
    return f"{CANARY}/{access.key}/{access.attempt}"


@activity(contract=Read(), timeout="5s", schedule_to_close="6s")
async def fragile(prompt: str, *, credentials: str) -> int:
    """Raises, always, and says with what it was called."""
    raise RuntimeError(f"{prompt} broke with {credentials}")


@activity(contract=Write(idempotent=True), queue="payments", timeout="5s", schedule_to_close="6s")
async def pay(cents: int, *, key: str) -> str:
    """A write that nobody guards."""
    return World.downstream.pay(key, f"pay {cents}")


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    timeout="5s",
    schedule_to_close="30s",
    approval=Needs("supervisor", when=lambda cents: cents > APPROVED_ABOVE, expires="4s"),
)
async def refund(cents: int, *, key: str) -> str:
    """A write that a person guards."""
    return World.downstream.pay(key, f"refund {cents}")


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    timeout="5s",
    schedule_to_close="30s",
    approval=Needs("supervisor", when=lambda cents: cents > APPROVED_ABOVE, expires="4s"),
    retry=Retry(attempts=3, initial="1500ms"),
)
async def rebate(cents: int, *, key: str) -> str:
    """The same, of which the first attempt fails: what it rests on has time to change."""
    if World.downstream.call(key) == 1:
        raise ConnectionError("no answer")
    return World.downstream.pay(key, f"rebate {cents}")


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    timeout="5s",
    schedule_to_close="30s",
    approval=Needs("board", expires="4s", quorum=2, four_eyes=True),
)
async def bonus(cents: int, *, key: str) -> str:
    """A write that two people guard, neither of them the one who asked for it."""
    return World.downstream.pay(key, f"bonus {cents}")


@activity(
    contract=Read(),
    timeout="5s",
    schedule_to_close="30s",
    retry=Retry(attempts=3, initial="300ms", factor=2, cap="2s", never=("KeyError",)),
)
async def flaky(mood: str, *, key: str) -> int:
    """A model that is down for two calls, asks to come back later, refuses for good, or never answers."""
    calls = World.downstream.call(key)
    match mood[:1]:
        case "l" if calls == 1:
            raise RetryLater("1s")
        case "n":
            raise KeyError(mood)
        case "x":
            raise RuntimeError(mood)
        case _ if calls < 3 and mood[:1] != "l":
            raise ConnectionError(f"call {calls}")
    return World.downstream.answer(mood)


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    timeout="4s",
    schedule_to_close="4s",
    retry=Retry(attempts=4, initial="200ms", cap="1s"),
)
async def ship(cents: int, *, key: str) -> str:
    """A write whose first acknowledgement is lost: it was done, and the next attempt gets the first receipt."""
    receipt = World.downstream.pay(key, f"ship {cents}")
    if World.downstream.call(key) == 1:
        raise ConnectionError("no answer")
    return receipt


async def find_charge(mood: str, *, key: str) -> str | None:
    """The charge under this key; the mood of its looks stands behind the slash."""
    return World.downstream.bank.find(key, mood.partition("/")[2])


@activity(
    contract=Write(lookup=find_charge, settle="400ms"),
    queue="payments",
    timeout="2s",
    schedule_to_close="10s",
    retry=Retry(attempts=3, initial="100ms", cap="500ms"),
)
async def charge(mood: str, *, key: str) -> str:
    """A write that must not be repeated, and can be looked up."""
    return World.downstream.bank.charge(key, mood.partition("/")[0])


@activity(contract=Write(idempotent=True), queue="payments", schedule_to_close="30s")
async def take_back(mood: str, done_key: str, *, key: str) -> str:
    """The undo of a transfer; it fails where the mood ends so."""
    if mood.endswith("!"):
        raise ConnectionError("nobody takes it back")
    World.downstream.bank.take_back(done_key)
    return World.downstream.pay(key, f"take back {done_key}")


@activity(
    contract=Write(undo=take_back),
    queue="payments",
    timeout="2s",
    schedule_to_close="5s",
    retry=Retry(attempts=3, initial="100ms"),
)
async def transfer(mood: str, *, key: str) -> str:
    """A write that is called once, and undone where nobody knows what came of it."""
    return World.downstream.bank.charge(key, mood)


@activity(contract=Write(), queue="payments", timeout="2s", schedule_to_close="5s")
async def wire(mood: str, *, key: str) -> str:
    """A write that is called once."""
    return World.downstream.bank.charge(key, mood)


@activity(
    contract=Read(),
    heartbeat="1s",
    timeout="10s",
    schedule_to_close="30s",
    retry=Retry(attempts=3, initial="100ms"),
)
async def crunch(mood: str, *, key: str) -> int:
    """Takes long and says how far it is; in one mood it falls silent, in another its first attempt fails half way."""
    done = (progress(int) or 0) + 1
    heartbeat(done)
    if mood == "half" and World.downstream.call(key) == 1:
        raise ConnectionError("half way")
    return done


@activity(contract=Read(), timeout="5s", schedule_to_close="30s")
async def check_outcome(mood: str, *, key: str) -> bool:
    """A verification: it holds, or not at first in this turn, or never."""
    turn = key.rpartition("/")[0]
    return mood == "yes" or (mood == "later" and World.downstream.call(turn) > 1)


@activity(contract=Write(idempotent=True), timeout="5s", schedule_to_close="6s")
async def hire(job_id: str, *, key: str) -> str:
    """Hands a job to somebody else, who is told its id."""
    return World.downstream.hire(key, job_id)


ACTIVITIES = (
    think,
    stuck,
    fragile,
    flaky,
    pay,
    ship,
    rebate,
    refund,
    bonus,
    charge,
    take_back,
    transfer,
    wire,
    crunch,
    check_outcome,
    hire,
)
