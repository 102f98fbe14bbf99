"""What else reaches sessions: signals, triggers, and a person who looks up what became of uncertain activities."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from ...commands import models as m
from ...events.blobs import put_payload
from ...events.payloads import json_payload
from ...events.records import Outcome
from ...events.verdicts import COMPLETED, FAILED
from .actors import DIGEST_KEY, Scene
from .workload import SIGNALS, script

UNKNOWN_SIGNAL = "nobody-asks-for-this"
TRIGGERS = ("cron", "webhook")
SIGNALS_IN_CALM = 3
"""Signals of each name that a session is sent after healing, so that some waits end."""

Send = Callable[[str, m.CommandBody], None]


def signal(rng: random.Random) -> m.SendSignal:
    """One that somebody may wait for, or not; its data is sometimes of another kind."""
    name = UNKNOWN_SIGNAL if rng.random() < 0.1 else rng.choice(SIGNALS)
    data = rng.choice(("now", "later", 7))
    return m.SendSignal(name, json_payload(data, DIGEST_KEY))


def trigger(scene: Scene) -> m.StartTurn:
    """A turn without a message."""
    rng = scene.rng
    data = put_payload(
        {"text": script(rng, sagas=scene.plan.sagas)}, "acme", DIGEST_KEY, scene.blobs
    )
    return m.StartTurn(rng.choice(TRIGGERS), "it was time", data)


class Resolver:
    """Looks into the bank's books, and says what became of an uncertain activity: at once, late, or twice."""

    def __init__(self, scene: Scene, send: Send) -> None:
        self._scene = scene
        self._send = send
        self._open: list[tuple[int, str, str]] = []
        self._settled: list[tuple[str, str]] = []

    @property
    def busy(self) -> bool:
        """Whether somebody waits for its word."""
        return bool(self._open)

    def told(self, outcome: Outcome) -> None:
        """Takes note of an uncertain activity."""
        rng = self._scene.rng
        activity_id = (outcome.detail or "").removeprefix("activity ").partition(":")[0]
        after_ms = rng.choice((0, 0, 500, 4_000))
        self._open.append((self._scene.clock.ms + after_ms, outcome.session_id, activity_id))

    def step(self) -> bool:
        """Resolves one that it has looked at for long enough; whether there was one."""
        for entry in self._open:
            if entry[0] <= self._scene.clock.ms:
                self._open.remove(entry)
                self._resolve(*entry[1:])
                return True
        return False

    def calm_step(self) -> None:
        """After healing: nobody is kept waiting."""
        while self._open:
            _, session_id, activity_id = self._open.pop()
            self._resolve(session_id, activity_id)

    def resolve_wrongly(self, session_id: str) -> None:
        """One that is not uncertain, or not any more, or never was."""
        rng = self._scene.rng
        if self._settled and rng.random() < 0.5:
            self._say(*rng.choice(self._settled))
        else:
            self._say(session_id, rng.choice(("1.1", "1.2", "9.9", "one")))

    def _resolve(self, session_id: str, activity_id: str) -> None:
        self._settled.append((session_id, activity_id))
        self._say(session_id, activity_id)
        if self._scene.rng.random() < 0.2:
            self._say(session_id, activity_id)

    def _say(self, session_id: str, activity_id: str) -> None:
        key = f"acme/{session_id}/{activity_id.replace('.', '/')}"
        downstream = self._scene.downstream
        charged = [charge.receipt for charge in downstream.bank.charges.get(key, ())]
        charged += [
            booked for what, booked, _ in downstream.bookings if (what, booked) == ("booked", key)
        ]
        if charged:
            receipt = json_payload(charged[0], DIGEST_KEY)
            body = m.ResolveActivity(activity_id, COMPLETED, receipt, "it is in the books")
        else:
            body = m.ResolveActivity(activity_id, FAILED, None, "it is not in the books")
        self._send(session_id, body)


def recovery(rng: random.Random) -> m.RecoverSession:
    """A trigger about something that may run, or not, or not any more; now and then about the session."""
    if rng.random() < 0.2:
        return m.RecoverSession("", 0, "it stands still")
    activity_id = f"{rng.choice((1, 1, 2, 3))}.{rng.choice((1, 1, 2, 3))}"
    return m.RecoverSession(activity_id, rng.choice((1, 1, 1, 2, 3)), "nothing was seen of it")


class Signaller:
    """After healing, sends each session that was opened a few signals of each name."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._left: Counter[str] = Counter()

    def calm_step(self, sessions: list[str], rng: random.Random) -> None:
        """One signal of each name for each, the first few times."""
        for session_id in sessions:
            if self._left[session_id] < SIGNALS_IN_CALM:
                self._left[session_id] += 1
                for name in SIGNALS:
                    data = json_payload(rng.choice(("now", "later")), DIGEST_KEY)
                    self._send(session_id, m.SendSignal(name, data))
