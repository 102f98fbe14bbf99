"""What runs in the simulation: the apps that are deployed, and the scripts that people send."""

from __future__ import annotations

import random
from typing import Any

from ..app import App, gather
from ..schedules.workflow import schedule
from ..workflow.definitions import Workflow
from .bookings import BOOKINGS
from .lodgings import LODGINGS
from .plan import Plan
from .player import changed_player, guarded_player, player, second_player
from .tools import ACTIVITIES, vault

APP = gather([player, schedule, vault, *ACTIVITIES, *BOOKINGS, *LODGINGS], name="simulation")
CHANGED = gather(
    [changed_player, schedule, vault, *ACTIVITIES, *BOOKINGS, *LODGINGS], name="changed"
)
GUARDED = gather(
    [guarded_player, schedule, vault, *ACTIVITIES, *BOOKINGS, *LODGINGS], name="guarded"
)
VERSIONED = gather(
    [player, second_player, schedule, vault, *ACTIVITIES, *BOOKINGS, *LODGINGS], name="versioned"
)
EMPTY = gather([vault, *ACTIVITIES, *BOOKINGS, *LODGINGS], name="without workflows")


class Broken(App):
    """An engine that fails wherever it needs a workflow that runs."""

    def version(self, workflow: str, version: int) -> Workflow[Any] | None:
        """Raises, always."""
        raise RuntimeError(f"{workflow} {version} cannot be looked up")


BROKEN = Broken("broken", APP.workflows, APP.activities)


def app_of(plan: Plan) -> App:
    """What is deployed in this seed, as long as nobody is careless."""
    return VERSIONED if plan.versions else APP


APPS: tuple[App, ...] = (APP, APP, CHANGED, EMPTY, EMPTY, BROKEN)
"""What a careless deploy may bring."""

QUEUES = tuple(APP.queues)

SIGNALS = ("go", "stop")

_USUAL = (
    "think:a",
    "pay:30",
    "refund:50",
    "refund:500",
    "bargain:x",
    "sleep:1",
    "flaky:d",
    "ship:70",
    "say:hi",
    "charge:{mood}",
    "charge:{mood}",
    "wire:{mood}",
    "transfer:{mood}",
    "doubt:{mood}",
    "signal:{signal}",
    "crunch:{crunch}",
    "inbox",
    "again:{loops}",
)
_RARE = (
    "sleep:0.3",
    "stuck:z",
    "fragile:f",
    "flaky:l",
    "flaky:n",
    "flaky:x",
    "await:{signal}",
    "mail",
    "race",
    "hurry",
    "both",
    "version:a",
    "artifact:price-list",
    "doublecheck:{verdict}",
    "break:g",
    "sneak",
    "raise:r",
    "io",
    "exit:x",
    "cling",
    "sleep:5",
)

_MOODS = ("k", "k", "l", "l", "t", "d", "d", "f", "n", "ld", "fl", "fd", "fff", "ddd", "tn", "nl")
_LOOKS = ("", "", "", "/x", "/xx", "/kx", "/xxxxxx")
_UNDOES = ("", "", "", "!")
_CRUNCHES = ("steady", "steady", "silent", "half")
_VERDICTS = ("yes", "later", "no")


_SAGAS = (
    *("book:{mood}", "book:{mood}", "book:{mood}!", "reserve:{mood}", "reserve:{mood}"),
    *("dear:{mood}", "committed", "both-booked:{mood}", "sleep:1", "sleep:5", "break:g", "break:g"),
)


def script(rng: random.Random, *, sagas: bool = False) -> str:
    """A turn: a few words, seldom a bad one, sometimes the last. In `sagas` most of what it does can be taken back."""
    if sagas:
        return " ".join(_filled(rng.choice(_SAGAS), rng) for _ in range(rng.choice((1, 2, 3, 5))))
    words = [
        _filled(rng.choice(_RARE if rng.random() < 0.2 else _USUAL), rng)
        for _ in range(rng.choice((1, 1, 2, 3, 4)))
    ]
    roll = rng.random()
    if roll < 0.12:
        words.append("complete:ok")
    elif roll < 0.2:
        words.append(f"verify:{rng.choice(_VERDICTS)}")
    return " ".join(words)


def _filled(word: str, rng: random.Random) -> str:
    """The word with what the seed puts into it."""
    if "{" not in word:
        return word
    mood = rng.choice(_MOODS)
    if word.startswith("charge"):
        mood += rng.choice(_LOOKS)
    elif word.startswith("transfer"):
        mood += rng.choice(_UNDOES)
    return word.format(
        mood=mood,
        signal=rng.choice(SIGNALS),
        crunch=rng.choice(_CRUNCHES),
        loops=rng.choice((1, 2, 3)),
        verdict=rng.choice(_VERDICTS),
    )
