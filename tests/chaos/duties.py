"""Load with known expectations: sessions of several kinds, each told what to do, and what must have come of each."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

from tests.chaos.accounts import ONCE, PaymentsRig
from wakeful.commands.models import CommandBody
from wakeful.deploy.demo.payments import Book
from wakeful.events import records as r
from wakeful.events.errors import Transient
from wakeful.events.keys import partition_of, session_key
from wakeful.events.log.protocol import LogFault

APP = str(Path(__file__).with_name("duties_app.py"))
KINDS = ("pays", "asks", "sleeps", "hands_out", "delegates", "pays", "asks")
IN_FLIGHT = 12
PER_SECOND_MAX = 8.0
SENDERS = 8
AGAIN_S = 0.2
"""Between two tries of a command that the log did not confirm: under the same id."""

GATED = "refund_gated"
LOOKED_UP = "refund_looked_up"


class Duties(PaymentsRig):
    """See the module. `step` is called again and again by one thread; `probe` may be asked for by another."""

    def __init__(self, **where: Any) -> None:
        super().__init__(app=APP, **where)
        self.kinds: dict[str, tuple[str, int]] = {}
        self.confirmed = 0
        self.faults: Counter[str] = Counter()
        self.newest_s = monotonic()
        """When an event was seen last."""
        self._jobs: set[str] = set()
        self._opened_s = 0.0
        self._senders = ThreadPoolExecutor(SENDERS)
        self._sent: list[Future[None]] = []
        self._closing = threading.Event()
        self._wanted: list[Probe] = []
        self._probes: list[Probe] = []
        self._guard = threading.Lock()

    def step(self, *, load: bool = True) -> None:
        """Looks at what became visible, answers what it asks for, and opens sessions while few are in flight."""
        try:
            self.look()
        except (LogFault, Transient) as fault:
            self.faults[type(fault).__name__] += 1
            self._closing.wait(AGAIN_S)
        self._look_at_probes()
        self._sent = [one for one in self._sent if not _is_over(one)]
        now_s = monotonic()
        if (
            load
            and len(self.open_now()) < IN_FLIGHT
            and now_s - self._opened_s > 1 / PER_SECOND_MAX
        ):
            self._opened_s = now_s
            number = len(self.kinds)
            self.begin(f"s{number}", KINDS[number % len(KINDS)], number)

    def begin(self, session_id: str, kind: str, number: int) -> None:
        """Opens a session and tells it its duty; both go out again under their ids until the log has them."""
        self.kinds[session_id] = kind, number
        self.sessions.append(session_id)
        opening = self.client.opening("duty", session_id)
        duty = self.client.message({"kind": kind, "number": number})
        self.send(opening, (session_id, duty, f"duty-{session_id}"))

    def send(self, *commands: tuple[str, CommandBody, str]) -> None:
        """Hands commands to a sender, one after another."""
        self._sent.append(self._senders.submit(self._send, commands))

    def probe(self) -> Probe:
        """Asks for a session in each partition, from now on: `over` once all of them have ended."""
        with self._guard:
            probe = Probe(monotonic())
            self._wanted.append(probe)
            return probe

    def open_now(self) -> set[str]:
        """Sessions that have not ended and wait for more than a person."""
        return {
            session_id
            for session_id in self.kinds.keys() - self.done.keys()
            if not self._waits_for_a_person(session_id)
        }

    def settled(self) -> bool:
        """Whether all is sent, and all have ended or wait for nothing but a person."""
        return not self._sent and not self.open_now()

    def hear(self, event: r.Event) -> None:
        """Keeps the accounts, and does the jobs."""
        super().hear(event)
        self.newest_s = monotonic()
        with self._guard:
            for probe in self._probes:
                probe.first_s = probe.first_s or self.newest_s
        body, session_id = event.body, event.envelope.session_id
        if isinstance(body, r.JobAwaited) and body.job_id not in self._jobs:
            self._jobs.add(body.job_id)
            film = self.client.job_body(body.job_id, {"film": self.kinds[session_id][1]})
            self.send((session_id, film, f"job-{session_id}"))

    def approve(self, outcome: r.Outcome) -> None:
        """Grants or declines what an outcome asks for, by the number of its session."""
        session_id = outcome.session_id
        if outcome.proposal_id is None or session_id in self._approved:
            return
        self._approved.add(session_id)
        decision = "approve" if is_granted(self.kinds[session_id][1]) else "reject"
        body = self.client.decision_body(
            outcome.proposal_id, outcome.digest or b"", decision, "", None
        )
        self.send((session_id, body, f"decision-{session_id}"))

    def close(self) -> None:
        """Ends the senders, too."""
        self._closing.set()
        self._senders.shutdown(cancel_futures=True)
        super().close()

    def broken(self, book: Book) -> Iterator[str]:
        """What did not come of it as was expected, by outcomes, the accounts and the service's own book."""
        for session_id, (kind, number) in self.kinds.items():
            outcome = self.done.get(session_id)
            if outcome is None or outcome.kind != "completed" or outcome.message is None:
                yield f"{session_id} ({kind}) did not complete: {outcome}"
                continue
            did = json.loads(outcome.message.inline or b"null")["did"]
            told = EXPECTED[kind](self, session_id, number, did)
            if told:
                yield f"{session_id} ({kind}) did {did}, expected {told}"
        paid = {key: [charge.id for charge in found] for key, found in book.charges_by_key.items()}
        keys = set()
        for one in self.accounts.values():
            keys.add(one.key)
            found = paid.get(one.key, [])
            sure = one.name in (LOOKED_UP, GATED) or one.end == "completed"
            if one.name == "think" and not found:
                continue
            if len(found) > 1 or (sure and found != [one.receipt]):
                yield f"{one.key} ({one.name}, {one.end}) has receipt {one.receipt}, the book {found}"
            if one.end == "failed" and found:
                yield f"{one.key} failed for certain, and the book has {found}"
        yield from (f"{key} was paid, and nobody asked for it" for key in paid.keys() - keys)

    def _send(self, commands: tuple[tuple[str, CommandBody, str], ...]) -> None:
        for session_id, body, command_id in commands:
            while not self._closing.is_set():
                try:
                    self.client.post(session_id, body, command_id).receipt()
                except (Transient, LogFault) as fault:
                    self.faults[type(fault).__name__] += 1
                    self._closing.wait(AGAIN_S)
                else:
                    self.confirmed += 1
                    break

    def _look_at_probes(self) -> None:
        with self._guard:
            wanted, self._wanted = self._wanted, []
        for probe in wanted:
            for partition in range(self.settings.partitions):
                session_id = self._id_in(partition)
                probe.sessions.append(session_id)
                self.begin(session_id, "thinks", len(self.kinds))
            with self._guard:
                self._probes.append(probe)
        for probe in self._probes:
            if all(session_id in self.done for session_id in probe.sessions):
                probe.over.set()
        with self._guard:
            self._probes = [probe for probe in self._probes if not probe.over.is_set()]

    def _id_in(self, partition: int) -> str:
        """An id of a new session that lies in this partition."""
        number = 0
        while True:
            session_id = f"p{len(self.kinds)}-{number}"
            key = session_key(self.client.tenant, session_id)
            if partition_of(key, self.settings.partitions) == partition:
                return session_id
            number += 1


class Probe:
    """A session in each partition; `first_s` is when any event was seen after `since_s`."""

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.first_s = 0.0
        self.sessions: list[str] = []
        self.over = threading.Event()


def is_granted(number: int) -> bool:
    """Whether the supervisor approves."""
    return number % 3 != 0


def _is_over(sent: Future[None]) -> bool:
    if sent.done():
        sent.result()
        return True
    return False


def _paid(rig: Duties, session_id: str, number: int, did: Any) -> Any:
    del number
    receipts = {one.name: one for one in rig.accounts.values() if one.session_id == session_id}
    once = receipts[ONCE]
    expected = [receipts[LOOKED_UP].receipt, once.receipt or "not paid"]
    return None if did == expected else expected


def _asked(rig: Duties, session_id: str, number: int, did: Any) -> Any:
    found = [one.receipt for one in rig.accounts.values() if one.session_id == session_id]
    expected = found[0] if is_granted(number) and len(found) == 1 else "rejected"
    return None if did == expected and len(found) == is_granted(number) else expected


def _exactly(expected: Callable[[int], Any]) -> Callable[[Duties, str, int, Any], Any]:
    def check(rig: Duties, session_id: str, number: int, did: Any) -> Any:
        del rig, session_id
        return None if did == expected(number) else expected(number)

    return check


EXPECTED: dict[str, Callable[[Duties, str, int, Any], Any]] = {
    "pays": _paid,
    "asks": _asked,
    "sleeps": _exactly(lambda number: 2 * number),
    "thinks": _exactly(lambda number: 2 * number),
    "hands_out": _exactly(lambda number: {"film": number}),
    "delegates": _exactly(lambda number: [2 * number, 2 * (number + 1)]),
}
"""What a session of each kind must have done: null, or what was expected instead."""
