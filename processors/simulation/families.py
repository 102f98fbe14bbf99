"""Turns that open children, and people who meet these: they write to them, cancel them, and stop their parents.

Only in some seeds, and by random numbers of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ...commands import models as m
from ...events.records import Outcome
from .actors import Scene
from .plan import limits

FAMILIES = (3, 17, 28, 36)
"""Of so many kinds of seeds those with families, where policies do not come and go meanwhile."""

KINDS = 41

WORDS = (
    *("child:{own}", "child:{own}", "brood:{own}", "rivals:{own}", "orphan:{own}", "strict:{own}"),
    *("child:child:{deep}+complete:up", "brood:child:{deep}+complete:up", "stranger:x"),
    *("halt:complete:ok", "halt:complete:ok"),
)

OWN = (
    *("think:a+complete:ok", "pay:30+complete:ok", "sleep:1+complete:ok", "complete:ok"),
    *("break:g", "sleep:9", "say:hi", "signal:go+complete:ok", "raise:r", "refund:500+complete:ok"),
)
"""Scripts of children: they complete, fail, take too long, stay open, are held, or wait for a person."""

DEEP = ("complete:ok", "sleep:1*complete:ok", "break:g", "sleep:9", "think:a*complete:ok")

Send = Callable[[str, m.CommandBody], None]


def has_families(seed: int) -> bool:
    """Whether sessions of this seed have children."""
    return seed % KINDS in FAMILIES and not limits(seed)


class Family:
    """Adds words to the turns of its seeds, and meddles with the children of which it hears."""

    def __init__(self, scene: Scene, send: Send) -> None:
        seed = scene.plan.seed
        self.works = has_families(seed)
        self._send = send
        self._rng = random.Random(f"family/{seed}")
        self._heard: list[str] = []
        self._stuck: list[tuple[int, str]] = []
        self._scene = scene

    def script(self, text: str) -> str:
        """The same turn, with a child or some before or behind it."""
        if not self.works:
            return text
        rng = self._rng
        words = [
            rng.choice(WORDS).format(own=rng.choice(OWN), deep=rng.choice(DEEP))
            for _ in range(rng.choice((1, 1, 2)))
        ]
        return " ".join([*words, text] if rng.random() < 0.7 else [text, *words])

    def hears(self, outcome: Outcome) -> None:
        """That of a child gives it away; a parent that is held may be cancelled for it, once its children have ended, too."""
        session_id = outcome.session_id
        if not self.works:
            return
        if ":" in session_id and session_id not in self._heard:
            self._heard.append(session_id)
        elif outcome.kind == "held" and self._rng.random() < 0.7:
            self._stuck.append(
                (self._scene.clock.ms + self._rng.choice((0, 1_500, 3_000)), session_id)
            )

    def step(self, say: Callable[[str], m.SendMessage]) -> bool:
        """Does something to a child, or to the session that opened it; whether it did."""
        rng = self._rng
        if self._stuck and self._stuck[0][0] <= self._scene.clock.ms:
            self._send(self._stuck.pop(0)[1], m.CancelSession("it is stuck"))
            return True
        if not self._heard or rng.random() < 0.8:
            return False
        child = rng.choice(self._heard)
        roll = rng.random()
        if roll < 0.35:
            self._send(child, m.CancelSession("nobody needs it"))
        elif roll < 0.6:
            self._send(child.rpartition(":")[0], m.CancelSession("all of it"))
        elif roll < 0.8:
            self._send(child, say("complete:asked"))
        else:
            self._send(child, m.ReleaseSession("go on"))
        return True
