"""What runs in the simulation: one workflow that plays a script, its activities, and the world they act on.

A message's text is a script such as `think sleep:2 refund:500 say:done`, so that a seed can write any turn.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from ..activities.contracts import Read, Retry, RetryLater, Write
from ..activities.definitions import Needs, activity
from ..app import App, gather
from ..workflow.definitions import Message, Workflow, workflow
from ..workflow.errors import ActivityError
from ..workflow.turn import Turn

APPROVED_ABOVE = 100
"""Cents that may be refunded without asking anybody."""

STUCK_MS = 8_000
"""How long a stuck activity takes: longer than anybody waits for it."""


@dataclass(slots=True)
class Downstream:
    """The world outside: a model that never says the same twice, and a payment system that honours its keys."""

    calls: int = 0
    effects: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    called: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def answer(self, prompt: str) -> int:
        """What a model says this time."""
        self.calls += 1
        return self.calls * 7 + len(prompt)

    def call(self, key: str) -> int:
        """How often it was called under this key by now, this time included."""
        self.called[key] += 1
        return self.called[key]

    def pay(self, key: str, what: str) -> str:
        """Done once per key; a repeat gets the first receipt."""
        self.attempts[key] += 1
        return self.effects.setdefault(key, f"receipt {len(self.effects) + 1} for {what}")


class World:
    """Where activities find the world of the schedule that runs now."""

    downstream = Downstream()


class Memory(BaseModel):
    """What survives between turns."""

    turns: int = 0
    cents: int = 0
    answers: int = 0
    played: int = 0
    """Words of the message's script that earlier stretches of the turn have played."""


@activity(contract=Read(), timeout="5s", schedule_to_close="30s")
async def think(prompt: str) -> int:
    """A model call: each makes another answer."""
    return World.downstream.answer(prompt)


@activity(contract=Read(), timeout="5s", schedule_to_close="6s")
async def stuck(prompt: str) -> int:
    """Its worker reports when nobody waits any more."""
    return World.downstream.answer(prompt)


@activity(contract=Read(), timeout="5s", schedule_to_close="6s")
async def fragile(prompt: str) -> int:
    """Raises, always."""
    raise RuntimeError(f"{prompt} broke")


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
    timeout="5s",
    schedule_to_close="4s",
    retry=Retry(attempts=4, initial="200ms", cap="1s"),
)
async def ship(cents: int, *, key: str) -> str:
    """A write whose first acknowledgement is lost: it was done, and the next attempt gets the first receipt."""
    receipt = World.downstream.pay(key, f"ship {cents}")
    if World.downstream.call(key) == 1:
        raise ConnectionError("no answer")
    return receipt


@workflow("player", version=1)
async def player(turn: Turn, memory: Memory, message: Message) -> Memory:
    """Plays the message's script, word by word."""
    cents, answers = memory.cents, memory.answers
    for at, word in enumerate(message.text.split()):
        if at < memory.played:
            continue
        step, _, argument = word.partition(":")
        if step == "refund":
            cents += await _refund(turn, int(argument))
        elif step == "bargain":  # what is proposed depends on what the model says
            answers += 1
            cents += await _refund(turn, 200 + await turn.run(think.call(argument)))
        elif step == "think":
            answers += 1
            await turn.say(f"{await turn.run(think.call(argument))}")
        elif step == "again":
            await turn.say("on we go")
            gone = Memory(turns=memory.turns, cents=cents, answers=answers, played=at + 1)
            return turn.again(gone)
        else:
            await _other(turn, step, argument)
    return Memory(turns=memory.turns + 1, cents=cents, answers=answers)


async def _refund(turn: Turn, cents: int) -> int:
    action = refund.call(cents)
    if not (await turn.approval(action)).granted:
        await turn.say("declined")
        return 0
    await turn.run(action)
    return cents


async def _other(turn: Turn, step: str, argument: str) -> None:
    match step:
        case "say":
            await turn.say(argument)
        case "sleep":
            await turn.sleep(float(argument))
            await turn.say(f"{turn.now():%H:%M:%S} {turn.uuid()}")
        case "pay":
            await turn.run(pay.call(int(argument)))
        case "stuck":
            try:
                await turn.run(stuck.call(argument))
            except ActivityError as error:
                await turn.say(error.failure.kind)
        case "ship":
            await turn.say(await turn.run(ship.call(int(argument))))
        case "flaky":
            try:
                await turn.say(f"{await turn.run(flaky.call(argument))}")
            except ActivityError as error:
                await turn.say(f"{error.failure.type} {turn.now():%H:%M:%S}")
        case "fragile":
            try:
                await turn.run(fragile.call(argument))
            except ActivityError as error:
                await turn.say(error.failure.kind)
        case "break":  # nobody catches it: the session fails
            await turn.run(fragile.call(argument))
        case "sneak":  # gated, and nobody asked
            await turn.run(refund.call(5_000))
        case "raise":
            raise ValueError(argument)
        case "exit":
            sys.exit(argument)
        case "cling":  # catches what drops it, and still asks
            try:
                await turn.sleep(1)
            except BaseException:
                await turn.say("clings")
                raise
        case "io":
            await asyncio.sleep(1)
        case "complete":
            await turn.complete({"outcome": argument})
        case _:
            await turn.say(f"{step}?")


@workflow("player", version=1)
async def changed_player(turn: Turn, memory: Memory, message: Message) -> Memory:
    """The same version with other steps: what a careless deploy brings."""
    await turn.say("before anything else")
    return await player.function(turn, memory, message)


ACTIVITIES = (think, stuck, fragile, flaky, pay, ship, refund)
APP = gather([player, *ACTIVITIES], name="simulation")
CHANGED = gather([changed_player, *ACTIVITIES], name="changed")
EMPTY = gather(ACTIVITIES, name="without workflows")


class Broken(App):
    """An engine that fails wherever it needs a workflow that runs."""

    def version(self, workflow: str, version: int) -> Workflow[Any] | None:
        """Raises, always."""
        raise RuntimeError(f"{workflow} {version} cannot be looked up")


BROKEN = Broken("broken", APP.workflows, APP.activities)

APPS: tuple[App, ...] = (APP, APP, CHANGED, EMPTY, EMPTY, BROKEN)
"""What a deploy may bring."""

QUEUES = tuple(APP.queues)

_USUAL = (
    "think:a",
    "think:b",
    "pay:30",
    "refund:50",
    "refund:500",
    "bargain:x",
    "sleep:1",
    "flaky:d",
    "ship:70",
    "say:hi",
    "again",
)
_RARE = (
    "sleep:0.3",
    "stuck:z",
    "fragile:f",
    "flaky:l",
    "flaky:n",
    "flaky:x",
    "break:g",
    "sneak",
    "raise:r",
    "io",
    "exit:x",
    "cling",
    "sleep:5",
)


def script(rng: random.Random) -> str:
    """A turn: a few words, seldom a bad one, sometimes the last."""
    words = [
        rng.choice(_RARE if rng.random() < 0.2 else _USUAL)
        for _ in range(rng.choice((1, 1, 2, 3, 4)))
    ]
    if rng.random() < 0.15:
        words.append("complete:ok")
    return " ".join(words)
