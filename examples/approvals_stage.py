"""The stage of the tour of approvals: its processes, those who ask and decide, and what the log says of it."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from wakeful.commands.client import Client
from wakeful.commands.identity import Insecure
from wakeful.commands.keyring import Key
from wakeful.commands.signatures import KEY_HEADER, SIGNATURE_HEADER, sign, signed_bytes
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.identity import identity_of
from wakeful.deploy.policies import publish, wait_until_seen
from wakeful.deploy.processes import processors_group
from wakeful.deploy.settings import Settings
from wakeful.deploy.supervisor import Supervisor
from wakeful.events import records as r
from wakeful.events.codec import decode_event, decode_outcome
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_survey import members
from wakeful.events.log.protocol import Isolation, Place, Record
from wakeful.processors.policies.sets import default_policies

APP, QUEUES = str(Path(__file__).with_name("approvals.py")), ["default"]
ROLES = {"supervisor": ["sue", "eve"], "board": ["bob", "eve", "rita"], "reviewer": ["rob"]}
WORDS = {
    r.ApprovalGranted: "approved",
    r.ApprovalVoted: "one vote",
    r.ApprovalRejected: "rejected",
    r.ApprovalAnswered: "answered",
    r.ApprovalVoided: "void",
    r.ApprovalRequested: "asked anew",
}
LIMIT_S = 60.0


class Signing(Insecure):
    """Signs with this key whatever it is given, whether the key may say so or not."""

    def __init__(self, key: Key, cluster_id: str, *, spoilt: bool = False) -> None:
        self._key, self._cluster, self._spoilt = key, cluster_id, spoilt

    def sign(self, _command: Any, topic: str, key: bytes, value: bytes) -> tuple[Any, ...]:
        message = signed_bytes(self._cluster, topic, key, value + b"!" * self._spoilt)
        mark = sign(self._key.algorithm, self._key.secret or b"", message)
        return (KEY_HEADER, self._key.kid.encode()), (SIGNATURE_HEADER, mark)


class Tour:
    """One namespace with its processes; the log and the book say what happened."""

    def __init__(
        self, log: KafkaLog, settings: Settings, environ: dict[str, str], keys: list[Key]
    ) -> None:
        self._log, self._settings, self._environ = log, settings, environ
        self.cluster_id = log.cluster_id()
        self.keys = {key.kid: key for key in keys} | {key.role: key for key in reversed(keys)}
        self._worker = ExitStack()
        self._places = [Place(t, 0) for t in (settings.topics.events, settings.topics.outcomes)]
        self._reader = log.reader(Isolation.COMMITTED)
        self._reader.assign(dict.fromkeys(self._places, 0))
        self._read = dict.fromkeys(self._places, 0)
        self._events: list[r.Event] = []
        self._refused: dict[str, r.Outcome] = {}

    def client(self, actor: str, *, identity: Any = None, ago_ms: int = 0) -> Client:
        """Somebody who asks for things; `identity` signs in another way than this stack's own."""
        now_ms = SystemClock().now_ms
        return Client(
            self._log,
            self._settings.topics,
            tenant="tour",
            actor=actor,
            channel="tour",
            digest_key=self._settings.digest_key,
            identity=identity or identity_of(self._settings, self._log),
            now_ms=lambda: now_ms() - ago_ms,
        )

    def ask(self, workflow: str, session: str, text: str = "it broke", by: str = "ann") -> Any:
        """A session that has come to what it asks of people first."""
        with self.client(by) as client:
            client.open(workflow, session)
            client.send(session, text)
        return self.until(session, r.ApprovalRequested)

    def decide(self, session: str, asked: Any, by: str, word: Any = "approve", **more: Any) -> str:
        """What came of a decision, in words; `digest` of another action, or another client, where they are given."""
        digest = more.pop("digest", asked.digest)
        client = more.pop("client", None) or self.client(by)
        with client:
            receipt = client.decide(session, asked.proposal_id, digest, word, **more)
        return self._verdict(receipt.command_id)

    def again(self, session: str, asked: Any) -> str:
        """The record of the decision that was taken, put into the log once more, byte for byte."""
        topic = self._settings.topics.commands
        reader, producer = self._log.reader(Isolation.COMMITTED), self._log.producer()
        reader.assign({Place(topic, 0): 0})
        self.until(session, r.ReplySent)  # and all that follows from it
        (granted,) = [e for e in self._of(session) if isinstance(e.body, r.ApprovalGranted)]
        found: list[Record] = []
        while not found:
            items = [one for one in reader.poll(500, 100) if isinstance(one, Record)]
            found = [one for one in items if one.offset == granted.envelope.cause.offset]
        same = found[0]
        producer.produce(topic, key=same.key, value=same.value, headers=same.headers, partition=0)
        producer.flush(10_000)
        reader.close()
        producer.close()
        known = len(self._of(session))
        last = self.decide(session, asked, "sue", digest=b"\0" * 32)  # comes behind it in the log
        return "nothing" if len(self._of(session)) == known + 1 else f"more than {last}"

    def until(self, session: str, kind: type, times: int = 1) -> Any:
        """The newest fact of this kind in this session, once there are so many."""

        def found() -> list[Any]:
            return [e.body for e in self._of(session) if isinstance(e.body, kind)]

        self._wait(lambda: len(found()) >= times, f"{kind.__name__} number {times} of {session}")
        return found()[-1]

    def reply(self, session: str) -> str:
        """What the session has said, once it has."""
        said = self.until(session, r.ReplySent)
        return str(json.loads(said.message.inline)["text"])

    def voided(self, session: str) -> str:
        """Why its newest proposal that is void is so."""
        return "; ".join(self.until(session, r.ApprovalVoided).drift)

    def publish(self, policies: str = "") -> None:
        """The default set and these, in force in the processor when this returns."""
        roles = tuple(r.RoleMembers("tour", role, tuple(who)) for role, who in ROLES.items())
        text = default_policies() + policies
        made = r.PolicyPublished(1, 0, "you", "", text, roles, ())
        wait_until_seen(
            self._log,
            self._settings,
            publish(self._log, self._settings, made, identity_of(self._settings, self._log)),
            lambda: (
                members(self._settings.kafka_servers, processors_group(self._settings)) or ["?"]
            ),
            timeout_s=LIMIT_S,
            progress=lambda _missing: None,
        )

    def worker_comes(self) -> None:
        """From here on activities run."""
        home = self._settings.home / "worker"
        given = self._settings.model_copy(update={"home": home})
        options: Any = {"processors": 0, "projector": False, "spares_max": 0}
        running = Supervisor(given, APP, queues=QUEUES, environ=self._environ, **options)
        self._worker.enter_context(running)

    def worker_goes(self) -> None:
        """It drains, and ends."""
        self._worker.close()

    def __enter__(self) -> Self:
        self.worker_comes()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker_goes()
        self._reader.close()

    def done(self, session: str) -> str:
        """How often something was really done for this session."""
        book = Path(self._environ["TOUR_BOOK"])
        lines = book.read_text("utf-8").splitlines() if book.exists() else []
        times = sum(line.startswith(f"tour/{session}/") for line in lines)
        return {0: "never", 1: "once"}.get(times, f"{times} times")

    def _of(self, session: str) -> list[r.Event]:
        return [e for e in self._events if e.envelope.session_id == session]

    def _verdict(self, command_id: str) -> str:
        """From the events of the command; from its outcome where it left none."""

        def facts() -> list[Any]:
            return [e.body for e in self._events if e.envelope.cause.command_id == command_id]

        def is_told() -> bool:
            refused = self._refused.get(command_id)
            return bool(facts()) or (refused is not None and refused.seq is None)

        self._wait(is_told, f"what came of {command_id}")
        words = [WORDS[type(body)] for body in facts() if type(body) in WORDS]
        words += [f"refused: {b.reason}" for b in facts() if isinstance(b, r.CommandRefused)]
        return ", ".join(words) or f"refused: {self._refused[command_id].reason}"

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + LIMIT_S
        while not true():
            if time.monotonic() > give_up:
                raise SystemExit(f"not within {LIMIT_S:g} s: {what}")
            self._read_on()

    def _read_on(self) -> None:
        """To the ends that are there now: what one transaction wrote is then here as a whole."""
        ends = self._log.ends(self._places, Isolation.COMMITTED)
        while any(self._read[place] < end for place, (_, end) in ends.items()):
            for item in self._reader.poll(500, 50):
                is_record = isinstance(item, Record)
                self._read[Place(item.topic, item.partition)] = item.offset + is_record
                if isinstance(item, Record):
                    self._take(item)

    def _take(self, record: Record) -> None:
        if record.topic == self._settings.topics.events:
            self._events.append(decode_event(record.value, record.headers))
            return
        outcome = decode_outcome(record.value, record.headers)
        if outcome.kind == "refused" and outcome.command_id is not None:
            self._refused[outcome.command_id] = outcome
