"""Schedules in the simulation, and people who meet these: they pause, trigger and end them, and now and then all sleep for a while.

Only in some seeds, and by random numbers of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ...commands import models as m
from ...events.payloads import json_payload
from ..schedules.spec import CONTROL, WORKFLOW
from ..schedules.times import moment
from .actors import DIGEST_KEY, Scene
from .plan import limits

TIMETABLES = (9, 31)
"""Of so many kinds of seeds those with schedules, where policies do not come and go meanwhile."""

KINDS = 47

LASTS_MS = 600_000
"""After so long every schedule has ended, so that the world comes to rest."""

LEAPS_MAX = 5
LEAPS_MS = (20_000, 50_000, 70_000, 150_000)
"""How long everybody sleeps at once: a minute or more is what a schedule misses."""

SCRIPTS = ("say:hi", "think:a", "sleep:3", "pay:30", "sleep:0.3 say:hi", "complete:ok")

Send = Callable[..., None]


def has_timetables(seed: int) -> bool:
    """Whether there are schedules in this seed."""
    return seed % KINDS in TIMETABLES and not limits(seed)


class Timetable:
    """Makes three schedules, one of which asks a session that others write to as well, and meddles with them."""

    def __init__(self, scene: Scene, send: Send) -> None:
        self.works = has_timetables(scene.plan.seed)
        self._scene = scene
        self._send = send
        self._rng = random.Random(f"timetable/{scene.plan.seed}")
        self._made = 0
        self._leaps = 0

    def step(self) -> bool:
        """Makes one more, says something to one, or lets all sleep; whether it did."""
        rng = self._rng
        if self._made < 3:
            self._made += 1
            self._make(self._made)
            return True
        roll = rng.random()
        if roll < 0.1 and self._leaps < LEAPS_MAX:
            self._leaps += 1
            self._scene.counts["fault: all asleep"] += 1
            self._scene.clock.ms += rng.choice(LEAPS_MS)
        elif roll < 0.16:
            do = rng.choice(("pause", "resume", "resume", "trigger", "trigger", "nonsense"))
            body = m.SendSignal(CONTROL, json_payload({"do": do}, DIGEST_KEY))
            self._send(f"schedule.{rng.randint(1, 3)}", body)
        elif roll < 0.165:
            self._send(f"schedule.{rng.randint(1, 3)}", m.CancelSession("no more"))
        else:
            return False
        return True

    def _make(self, number: int) -> None:
        rng, session_id = self._rng, f"schedule.{number}"
        spec: dict[str, Any] = {
            "name": f"t{number}",
            "cron": rng.choice(("* * * * *", "*/2 * * * *", "14-20 22 * * *")),
            "timezone": rng.choice(("UTC", "Asia/Kathmandu") if number < 3 else ("UTC",)),
            "workflow": "nobody" if rng.random() < 0.05 else "player",
            "data": {"text": rng.choice(SCRIPTS)},
            "catch_up": rng.choice(("all", "all", "all", "last", "none")),
            "until": moment(self._scene.clock.ms + LASTS_MS).isoformat(),
        }
        if number == 2:
            spec |= {"session": "s1", "overlap": rng.choice(("skip", "allow"))}
        self._send(session_id, m.OpenSession(WORKFLOW))
        self._send(session_id, m.SendMessage(json_payload(spec, DIGEST_KEY)))
