"""An operator in some seeds: sets rollouts that come and go, takes sessions back, and pins them to a version.

And a stranger, who appends rollouts that nobody vouches for, and old ones again. By random numbers of their own: whether a
seed has them changes nothing else about it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ...commands import models as m
from ...events import records as r
from ...events.codec import decode_control, decode_event, encode_control
from ...events.errors import Undecodable
from ...events.headers import record_headers
from ...events.log.protocol import Record
from ...events.sharing import wholes
from ..rollouts import is_rollout, rollout_key
from .actors import GROUP, Scene
from .forgers import FORGED, TENANT
from .policies import ROOT, is_forged

PLAYER = "player"

ROLLOUTS: tuple[tuple[int | None, int, int | None], ...] = (
    *((1, 100, None), (2, 100, None), (2, 40, 1), (2, 75, 1), (1, 40, 2), (None, 100, None)),
    *((3, 100, None), (3, 40, 1)),  # nobody has loaded it
)
"""Version, percentage, and version of the rest."""

AT_LAST = (2, 40, 1)
"""What holds in the end: both versions are loaded."""

PINS = (1, 2, 2, 9, None)

ROLLOUT_SHARE, REPAIR_SHARE = 0.05, 0.06
"""Of the ticks, those at which one is set, and those at which a session is repaired."""

CALM_REPAIRS = 5

Send = Callable[[str, m.CommandBody], None]


class Operator:
    """See the module."""

    def __init__(self, scene: Scene, send: Send, opened: Callable[[], Sequence[str]]) -> None:
        self.active = scene.plan.versions
        self._rng = random.Random(f"operator/{scene.plan.seed}")
        self._scene, self._send, self._opened = scene, send, opened
        self._number = 0
        self._pinned: set[str] = set()
        self._calm = CALM_REPAIRS

    def step(self) -> None:
        """Does something at some ticks."""
        if not self.active:
            return
        rng = self._rng
        if rng.random() < ROLLOUT_SHARE:
            self._roll_out(rng)
        if rng.random() < REPAIR_SHARE:
            self._repair()

    def heal(self) -> None:
        """What is rolled out is loaded, and nobody is pinned to what is not."""
        if not self.active:
            return
        self._set(*AT_LAST)
        for session_id in sorted(self._pinned):
            self._send(session_id, m.PinSession(None, "it is over"))

    def calm_step(self) -> None:
        """After healing: a few more repairs, and a rollout among them."""
        if not self.active or not self._calm:
            return
        self._calm -= 1
        if self._calm == 2:
            self._set(2, 75, 1)
        self._reset()

    def behind(self) -> list[str]:
        """Processors that have not told of the newest rollout."""
        newest, seen = -1, dict[str, int]()
        for record in self._scene.log.dump(self._scene.topics.control):
            if is_rollout(record):
                newest = record.offset
                continue
            try:
                told = decode_control(record.value, record.headers)
            except Undecodable:
                continue
            if isinstance(told, r.RolloutSeen):
                seen[told.processor] = max(seen.get(told.processor, -1), told.rollout_offset)
        names = [f"{GROUP}-{n}" for n in range(self._scene.plan.processors)]
        return [name for name in names if self.active and seen.get(name, -2) < newest]

    def _roll_out(self, rng: random.Random) -> None:
        roll = rng.random()
        genuine = [
            record
            for record in self._scene.log.dump(self._scene.topics.control)
            if is_rollout(record) and not is_forged(record)
        ]
        if roll < 0.15 and genuine:
            old = rng.choice(genuine)
            self._scene.counts["fault: old rollout"] += 1
            self._append(old.key or b"", old.value, old.headers)
        elif roll < 0.3:
            self._scene.counts["fault: forged rollout"] += 1
            made = self._made(self._number + rng.choice((0, 1, 5)), rng.choice(ROLLOUTS))
            encoded = encode_control(made)
            headers = record_headers(encoded, f"{FORGED}/rollout")
            self._append(rollout_key(PLAYER), encoded.value, headers)
        else:
            self._set(*rng.choice(ROLLOUTS))

    def _set(self, version: int | None, percent: int, rest: int | None) -> None:
        self._number += 1
        made = self._made(self._number, (version, percent, rest))
        encoded, topic = encode_control(made), self._scene.topics.control
        mark = self._scene.identity.sign_published(made, topic, rollout_key(PLAYER), encoded.value)
        headers = [*record_headers(encoded, f"rollout/{self._number}"), *mark]
        self._append(rollout_key(PLAYER), encoded.value, headers)
        self._scene.counts["rollouts set"] += 1

    @staticmethod
    def _made(number: int, what: tuple[int | None, int, int | None]) -> r.RolloutSet:
        return r.RolloutSet(number, 0, ROOT, "", PLAYER, *what)

    def _append(
        self, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        topic = self._scene.topics.control
        self._scene.log.producer().produce(
            topic, key=key, value=value, headers=list(headers), partition=0
        )

    def _repair(self) -> None:
        opened = self._opened()
        if not opened:
            return
        session_id = self._rng.choice(opened)
        if self._rng.random() < 0.4:
            version = self._rng.choice(PINS)
            self._pinned.add(session_id)
            self._send(session_id, m.PinSession(version, "as it was"))
        else:
            self._reset()

    def _reset(self) -> None:
        """Mostly to a turn that has ended; sometimes to one that has not, or with the state of another."""
        rng, opened = self._rng, self._opened()
        if not opened:
            return
        session_id = rng.choice(opened)
        ends: dict[int, r.Payload | None] = {0: None, **self._ends(session_id)}
        to_turn = rng.choice(list(ends))
        state = ends[to_turn]
        if rng.random() < 0.15:
            to_turn, state = to_turn + rng.choice((0, 1, 40)), rng.choice(list(ends.values()))
        again = rng.random() < 0.7
        self._send(session_id, m.ResetSession(to_turn, state, again, "mended"))

    def _ends(self, session_id: str) -> dict[int, r.Payload]:
        """By turn, what it has left, as the committed events say."""
        records = self._scene.log.dump(self._scene.topics.events)
        events = (decode_event(record.value, record.headers) for record in records)
        own = (
            e for e in events if (e.envelope.tenant, e.envelope.session_id) == (TENANT, session_id)
        )
        bodies = (event.body for event in wholes(own))
        return {body.turn: body.state for body in bodies if isinstance(body, r.TurnCompleted)}


class RolledOut:
    """What the control topic says, record by record, to somebody who knows which records are forged and asks no key."""

    def __init__(self) -> None:
        self.newest: tuple[r.RolloutSet, int] | None = None

    def take(self, record: Record) -> None:
        """One record more: neither a forged one counts, nor one that is older than what is in force."""
        if not is_rollout(record) or is_forged(record):
            return
        said = decode_control(record.value, record.headers)
        if isinstance(said, r.RolloutSet) and (
            self.newest is None or said.number >= self.newest[0].number
        ):
            self.newest = (said, record.offset)


def rolled_out(
    records: Sequence[Record], control_offset: int | None
) -> tuple[r.RolloutSet, int] | None:
    """What was in force where the control topic was read up to this end, and where it lies."""
    told = RolledOut()
    for record in records:
        if record.offset < (control_offset or 0):
            told.take(record)
    return told.newest
