"""Strangers who can write to the control topic: they publish sets that are not theirs to publish, and old ones again.

A forged record's id begins with `FORGED`; an old one is a copy to the last byte. Nobody may go by either.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...commands.identity import Signed
from ...commands.keyring import ACTIVE, PUBLISHED, Key, Keyring
from ...events import records as r
from ...events.codec import encode_control
from ...events.headers import Header, record_headers
from ...events.log.protocol import Record
from ..control import POLICY_KEY
from .actors import Scene
from .forgers import (
    CAROLS_SETS,
    ENGINE,
    FORGED,
    LEAKED,
    PEOPLE,
    PUBLISHER,
    UNKNOWN,
    WORKER,
)
from .policies import CHOICES, ROOT, is_forged

USURPERS = (22, 27, 32, 35)
"""Of so many kinds of seeds those with usurpers in them."""

KINDS_OF_SEEDS = 37

SHARE = 0.08
"""Of the ticks, those at which one appends a record: a dozen or two in a seed."""

AGAIN = 0.4
"""Share of them that are old sets, as far as there are any."""

CALM_RECORDS = 12
"""So many more come when the faults are over, while people answer what is asked: one per round."""

AHEAD = (0, 1, 5)
"""How many versions a forged set is ahead of the newest."""


class Usurper:
    """His dice are his own: whether a seed has one changes nothing else of its plan."""

    def __init__(self, scene: Scene) -> None:
        self.active = scene.plan.seed % KINDS_OF_SEEDS in USURPERS
        self._rng = random.Random(f"usurper/{scene.plan.seed}")
        self._scene = scene
        self._number = 0
        self._calm = CALM_RECORDS

    def step(self) -> None:
        """Appends a record, now and then."""
        if self.active and self._rng.random() < SHARE:
            self._usurp()

    def calm_step(self) -> None:
        """Goes on for a while when the faults are over."""
        if self.active and self._calm:
            self._calm -= 1
            self._usurp()

    def _usurp(self) -> None:
        records = self._scene.log.dump(self._scene.topics.control)
        genuine = [one for one in records if one.key == POLICY_KEY and not is_forged(one)]
        if genuine and self._rng.random() < AGAIN:
            old = self._rng.choice(genuine)
            self._append(old.value, old.headers, "old policy again")
            return
        self._number += 1
        value, headers = self._rng.choice(WAYS)(self, self._set(genuine))
        self._append(value, headers, "forged policy")

    def named(self, made: r.PolicyPublished) -> tuple[bytes, list[Header]]:
        """The set's value, and the headers by which the simulation knows it for forged."""
        encoded = encode_control(made)
        return encoded.value, record_headers(encoded, f"{FORGED}{self._number}")

    @property
    def here(self) -> tuple[str, str]:
        """Topic and cluster, as they are."""
        return self._scene.topics.control, self._scene.log.cluster_id()

    def _set(self, genuine: Sequence[Record]) -> r.PolicyPublished:
        names = self._rng.choice(CHOICES)
        version = len(genuine) + self._rng.choice(AHEAD)
        roles = (r.RoleMembers("acme", "anybody", names),)
        return r.PolicyPublished(version, 0, ROOT, "", "", roles, ())

    def _append(self, value: bytes | None, headers: Sequence[Header], fault: str) -> None:
        self._scene.log.producer().produce(
            self._scene.topics.control, key=POLICY_KEY, value=value, headers=headers, partition=0
        )
        self._scene.counts[f"fault: {fault}"] += 1


Forgery = tuple[bytes | None, list[Header]]
Way = Callable[[Usurper, r.PolicyPublished], Forgery]


def _unsigned(usurper: Usurper, made: r.PolicyPublished) -> Forgery:
    return usurper.named(made)


def _garbage(usurper: Usurper, made: r.PolicyPublished) -> Forgery:
    """What would be taken for damaged, if a publisher had said it."""
    value, headers = usurper.named(made)
    return value[:-3], headers


def _taken_back(usurper: Usurper, made: r.PolicyPublished) -> Forgery:
    return None, usurper.named(made)[1]


def _by(signer: Key, *, topic: str = "", cluster: str = "") -> Way:
    """A key that is unknown, over, another's or for other things; or the right one in another place."""
    willing = replace(
        signer,
        kinds=frozenset({PUBLISHED}),
        tenants=None,
        actor=None,
        status=ACTIVE,
        not_after_ms=None,
    )

    def way(usurper: Usurper, made: r.PolicyPublished) -> Forgery:
        value, headers = usurper.named(made)
        where = (topic or usurper.here[0], cluster or usurper.here[1])
        return value, [*headers, *_mark(willing, made, value, *where)]

    return way


def _tampered(usurper: Usurper, made: r.PolicyPublished) -> Forgery:
    """The publisher's signature under words of one's own."""
    value, headers = usurper.named(made)
    return value, [*headers, *_mark(PUBLISHER, made, value + b"!", *usurper.here)]


def _mark(
    signer: Key, made: r.PolicyPublished, value: bytes, topic: str, cluster: str
) -> tuple[Header, ...]:
    return Signed(lambda: Keyring((signer,)), cluster).sign_published(
        made, topic, POLICY_KEY, value
    )


WAYS: tuple[Way, ...] = (
    _unsigned,
    _garbage,
    _taken_back,
    _tampered,
    _by(PUBLISHER, topic="sim.other.v1"),
    _by(PUBLISHER, cluster="other"),
    *map(_by, (ENGINE, WORKER, PEOPLE, UNKNOWN, CAROLS_SETS, LEAKED)),
)
