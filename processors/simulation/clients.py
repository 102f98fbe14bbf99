"""Those outside: people who open, write, approve and cancel, a network that repeats and reorders, and strangers."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

from ...commands import models as m
from ...commands.wire import encode_command
from ...events.blobs import put_payload
from ...events.codec import decode_outcome
from ...events.failures import RAISED
from ...events.headers import record_headers
from ...events.keys import session_key
from ...events.log.protocol import Isolation, LogFault, Place, Record
from ...events.records import Failure, Outcome
from ...events.verdicts import APPROVE, REJECT
from . import arrivals
from .actors import DIGEST_KEY, Scene
from .boards import Board
from .families import Family
from .forgers import TENANT, Forger
from .lodgings import Lodging
from .timetables import Timetable
from .workload import QUEUES, script
from .yards import MAN, Yard

FLOODER = "flood"
FLOODED = session_key(FLOODER, "f0")
FLOOD = 150
"""Commands of one burst."""

STRAY = b"stray"
"""The key of what is no task; no command leads to it, so no model of the commands has it."""

DAY_MS = 86_400_000
RELEASES_MAX = 2
RECOVERS = 0.6
"""Of what is asked where somebody sees stalls everywhere."""
"""Times a session is released after healing: one whose script breaks is held again each time."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A record on its way to the commands topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Clients:
    """Everybody who is not part of the engine."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._producer = scene.log.producer()
        self._reader = scene.log.reader(Isolation.COMMITTED)
        self._reader.assign(
            {Place(scene.topics.outcomes, n): 0 for n in range(scene.plan.partitions)}
        )
        self._identity = scene.identity
        numbers = range(scene.plan.partitions)
        tasks = [Place(scene.topics.activities(queue), n) for queue in QUEUES for n in numbers]
        self._forger = Forger(scene.plan.seed, scene.log, scene.topics, tasks)
        self._board = Board(scene.plan.seed, DIGEST_KEY, scene.blobs)
        self._number = 0
        self._left = scene.plan.commands
        self._opened: set[int] = set()
        self._sent: list[m.Command] = []
        self._letters: list[Letter] = []
        self._proposals: list[Outcome] = []
        self._fresh: list[Outcome] = []
        self._kept: list[Outcome] = []
        self._held: list[str] = []
        self._released: Counter[str] = Counter()
        self._resolver = arrivals.Resolver(scene, self._send)
        self._signaller = arrivals.Signaller(self._send)
        self._yard = Yard(scene, self._from_the_yard)
        self._family = Family(scene, self._send)
        self._lodging = Lodging(scene.plan.seed)
        self._timetable = Timetable(scene, self._send)

    def step(self) -> None:
        """Reads what came out, and does one thing more, or lets one letter arrive."""
        self._listen()
        rng = self._scene.rng
        if self._letters and rng.random() < 0.6:
            self._deliver(self._letters.pop(0 if rng.random() < 0.7 else -1))
        elif self._fresh and rng.random() < 0.7:
            proposal = self._fresh.pop(0)
            if rng.random() < 0.2:
                self._kept.append(proposal)
            else:
                self._decide(proposal)
        elif (
            (rng.random() < 0.5 and self._resolver.step())
            or (self._yard.works and self._yard.step())
            or (self._family.works and self._family.step(self._said))
            or (self._timetable.works and self._timetable.step())
        ):
            pass
        elif self._kept and self._scene.clock.ms > (self._kept[0].expires_at_ms or 0) - 200:
            self._answer(self._kept.pop(0), APPROVE)  # at the last moment, or just after it
        elif self._left > 0:
            self._left -= 1
            self._ask()

    def flood(self) -> None:
        """Another tenant asks for much at once, of a session that is not there."""
        for _ in range(FLOOD):
            self._number += 1
            id_, now_ms = f"c{self._number}", self._scene.clock.ms
            header = m.CommandHeader(FLOODER, "f0", id_, now_ms, "eve", None, "simulation", None)
            self._post(m.Command(header, m.CancelSession("now")))
        self.heal()

    def stray(self, queue: str) -> None:
        """Writes, beside all faults, what nobody can read into the queue's topic of tasks that must not run twice."""
        self._scene.counts["fault: stray task"] += 1
        producer = self._scene.log.producer()
        topic = self._scene.topics.activities(queue, once=True)
        with suppress(LogFault):
            producer.produce(topic, key=STRAY, value=b"no task", headers=())
            producer.flush(0)
        producer.close()

    @property
    def opened(self) -> list[str]:
        """The sessions that somebody has opened."""
        return [f"s{number}" for number in sorted(self._opened)]

    def repair(self, session_id: str, body: m.CommandBody) -> None:
        """What an operator asks of a session."""
        self._send(session_id, body, actor="op")

    def heal(self) -> None:
        """Everything that was sent arrives; whoever still waits for an approval gets it, or not."""
        for letter in self._letters:
            self._deliver(letter)
        self._letters = []

    def calm_step(self) -> None:
        """After healing: people answer what is asked, and release what is held."""
        self._listen()
        while self._fresh:
            proposal = self._fresh.pop(0)
            roll = self._scene.rng.random()
            if self._board.sits:
                meets = self._board.decide if roll < 0.6 else self._board.agree
                meets(proposal, self._from_member)
            elif roll < 0.8:
                self._answer(proposal, APPROVE if roll < 0.55 else REJECT)
        self._resolver.calm_step()
        self._yard.calm_step()
        if (turn := self._board.turn()) is not None:
            self._send(turn[0], m.OpenSession("player"), actor="ann")
            self._send(turn[0], self._said(turn[1]), actor="ann")
        if self._scene.plan.seed % 2 == 0:  # in the others nobody wakes what the engine must wake
            self._signaller.calm_step(self.opened, self._scene.rng)
        while self._held:
            session_id = self._held.pop()
            self._released[session_id] += 1
            if self._released[session_id] <= RELEASES_MAX:
                self._send(session_id, m.ReleaseSession("mended"))
        self.heal()

    @property
    def busy(self) -> bool:
        """Whether something is still to be done."""
        self._listen()
        return bool(self._letters or self._fresh or self._resolver.busy or self._yard.busy)

    def _ask(self) -> None:
        rng = self._scene.rng
        number = rng.randint(1, self._scene.plan.sessions)
        session_id = f"s{number}"
        if number not in self._opened and rng.random() < 0.95:
            self._opened.add(number)
            self._send(session_id, m.OpenSession("player"))
            self._send(session_id, self._message())
            return
        if self._scene.plan.recovers and rng.random() < RECOVERS:
            for _ in range(5):
                self._send(session_id, arrivals.recovery(rng))
            return
        roll = rng.random()
        if roll < 0.38:
            self._send(session_id, self._message())
        elif roll < 0.48:
            self._send(session_id, arrivals.signal(rng))
        elif roll < 0.53:
            self._send(session_id, arrivals.trigger(self._scene))
        elif roll < 0.55:
            self._resolver.resolve_wrongly(session_id)
        elif roll < 0.62:
            self._repeat()
        elif roll < 0.72:
            self._decide_wrongly(session_id)
        elif roll < 0.76:
            self._send(session_id, m.CancelSession("enough"))
        elif roll < 0.80:
            self._send(session_id, m.ReleaseSession("go on"))
        elif roll < 0.84:
            self._send(session_id, m.OpenSession(rng.choice(("player", "nobody"))))
        elif roll < 0.88:
            self._send(f"u{number}", self._message())
        elif roll < 0.92:
            skew_ms = rng.choice((60_000, 3_600_000, -8 * DAY_MS))
            self._send(session_id, self._message(), skew_ms=skew_ms)
        elif roll < 0.94:
            self._send(session_id, self._message(), expected_seq=rng.randint(1, 12))
        else:
            self._be_hostile(session_id)

    def _message(self) -> m.SendMessage:
        words = script(self._scene.rng, sagas=self._scene.plan.sagas)
        return self._said(
            self._lodging.script(self._family.script(self._yard.script(self._board.script(words))))
        )

    def _said(self, text: str) -> m.SendMessage:
        return m.SendMessage(put_payload({"text": text}, TENANT, DIGEST_KEY, self._scene.blobs))

    def _send(
        self,
        session_id: str,
        body: m.CommandBody,
        *,
        skew_ms: int = 0,
        expected_seq: int | None = None,
        command_id: str | None = None,
        actor: str | None = None,
    ) -> None:
        self._number += 1
        header = m.CommandHeader(
            tenant=TENANT,
            session_id=session_id,
            command_id=command_id or f"c{self._number}",
            issued_at_ms=self._scene.clock.ms + skew_ms,
            actor=actor or self._scene.rng.choice(("ann", "bob")),
            on_behalf_of=None,
            channel="simulation",
            expected_seq=expected_seq,
        )
        command = m.Command(header, body)
        self._sent.append(command)
        self._post(command)

    def _post(self, command: m.Command) -> None:
        encoded = encode_command(command)
        header = command.header
        key = session_key(header.tenant, header.session_id)
        headers = record_headers(encoded, header.command_id)
        headers.extend(
            self._identity.sign(command, self._scene.topics.commands, key, encoded.value)
        )
        self._letters.append(Letter(key, encoded.value, tuple(headers)))
        forged = self._forger.forge(command, DIGEST_KEY)
        if forged is not None:
            self._scene.counts["fault: command forged"] += 1
            self._letters.append(Letter(*forged))

    def _repeat(self) -> None:
        """The same command again: at once, at another time, or under the same id with other words."""
        if not self._sent:
            return
        command = self._scene.rng.choice(self._sent)
        roll = self._scene.rng.random()
        if roll < 0.3:
            command = replace(
                command, header=replace(command.header, issued_at_ms=self._scene.clock.ms)
            )
        elif roll < 0.5:
            command = replace(command, body=self._message())
        self._scene.counts["fault: command repeated"] += 1
        self._post(command)

    def _decide(self, proposal: Outcome) -> None:
        """Mostly right; sometimes about another digest, or twice, or both ways."""
        if self._board.sits:
            self._board.decide(proposal, self._from_member)
            return
        roll = self._scene.rng.random()
        if roll < 0.5:
            self._answer(proposal, APPROVE)
        elif roll < 0.65:
            self._answer(proposal, REJECT)
        elif roll < 0.75:
            self._answer(proposal, APPROVE)
            self._answer(proposal, REJECT)
        elif roll < 0.95:
            self._answer(proposal, APPROVE, digest=b"of another action")

    def _from_member(self, session_id: str, body: m.CommandBody, actor: str) -> None:
        self._send(session_id, body, actor=actor)

    def _from_the_yard(self, session_id: str, body: m.CommandBody) -> None:
        self._send(session_id, body, actor=MAN)

    def _decide_wrongly(self, session_id: str) -> None:
        """An old proposal, one that never was, none at all, or one of another session."""
        rng = self._scene.rng
        proposal = rng.choice(self._proposals) if self._proposals else None
        roll = rng.random()
        if proposal is not None and roll < 0.5:
            self._answer(proposal, rng.choice((APPROVE, REJECT)))
        elif proposal is not None and roll < 0.7:
            decision = m.DecideApproval(
                proposal.proposal_id or "", proposal.digest or b"", APPROVE, ""
            )
            self._send(session_id, decision)
        elif proposal is not None and roll < 0.9:
            decision = m.DecideApproval("1.1-0", proposal.digest or b"", APPROVE, "")
            self._send(proposal.session_id, decision)
        else:
            self._send(session_id, m.DecideApproval("", b"", rng.choice((APPROVE, "maybe")), ""))

    def _answer(self, proposal: Outcome, decision: str, digest: bytes | None = None) -> None:
        shown = digest or proposal.digest or b""
        body = m.DecideApproval(proposal.proposal_id or "", shown, decision, "looked at")
        self._send(proposal.session_id, body)

    def _be_hostile(self, session_id: str) -> None:
        rng = self._scene.rng
        self._scene.counts["fault: hostile record"] += 1
        header = m.CommandHeader(
            TENANT, session_id, "evil", self._scene.clock.ms, "eve", None, "x", None
        )
        encoded = encode_command(m.Command(header, self._message()))
        key, headers = session_key(TENANT, session_id), tuple(record_headers(encoded, "evil"))
        match rng.randrange(7):
            case 0:
                letter = Letter(key, rng.randbytes(20), headers)
            case 1:
                headers = tuple((n, b"\1" * 8 if "fingerprint" in n else v) for n, v in headers)
                letter = Letter(key, encoded.value, headers)
            case 2:
                letter = Letter(session_key("other", session_id), encoded.value, headers)
            case 3:
                letter = Letter(key, encoded.value + b"!", headers)
            case 4:
                letter = Letter(None, None, ())
            case 5:
                self._forge(session_id, "1.1")
                return
            case _:
                self._forge(session_id, rng.choice(("9.9", "one", "1.2")))
                return
        self._letters.append(letter)

    def _forge(self, session_id: str, activity_id: str) -> None:
        """A result of an attempt that was never granted."""
        failure = Failure(RAISED, "Forged", "forged", "")
        body = m.FailActivity(activity_id, self._scene.rng.choice((0, 9)), failure, "eve")
        self._send(session_id, body, command_id=f"forged-{self._number}")

    def _deliver(self, letter: Letter) -> None:
        """A lost answer makes the caller send it again."""
        topic = self._scene.topics.commands
        self._scene.overhears(topic, letter.key, letter.value, letter.headers)
        lost: list[LogFault] = []

        def delivered(_place: Place, _offset: int, fault: LogFault | None) -> None:
            if fault is not None:
                lost.append(fault)

        self._producer.produce(
            topic, key=letter.key, value=letter.value, headers=letter.headers, delivered=delivered
        )
        while True:
            self._producer.poll()
            if not lost:
                break
            lost.clear()
            self._producer = self._scene.log.producer()
            self._producer.produce(
                topic,
                key=letter.key,
                value=letter.value,
                headers=letter.headers,
                delivered=delivered,
            )

    def _listen(self) -> None:
        for item in self._reader.poll(100, 0):
            if not isinstance(item, Record):
                continue
            outcome = decode_outcome(item.value, item.headers)
            self._family.hears(outcome)
            if outcome.kind == "approval_wanted":
                self._proposals.append(outcome)
                self._fresh.append(outcome)
            elif outcome.kind == "uncertain":
                self._resolver.told(outcome)
            elif outcome.kind == "held":
                self._held.append(outcome.session_id)
