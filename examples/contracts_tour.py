"""The tour: runs contracts.py, loses the first answer of each call on its way back, and tells what each contract does.

It starts a stack, a worker, a processor and two payment services of its own, and ends all of them.
"""

import json
import os
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from wakeful.commands.client import Client
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.demo.payments import Service, read_book
from wakeful.deploy.identity import identity_of
from wakeful.deploy.processes import apply_topics
from wakeful.deploy.settings import Settings, load_settings
from wakeful.deploy.stack import Stack, StackError
from wakeful.deploy.supervisor import Supervisor
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Isolation, Place, Record

APP, QUEUES = str(Path(__file__).with_name("contracts.py")), ["default"]
CONTRACTS = {
    "is_refunded": "Read()",
    "refund_by_key": "Write(idempotent=True)",
    "refund_looked_up": "Write(lookup=find)",
    "refund_undone": "Write(undo=take_back)",
    "refund_once": "Write()",
}
ASKED = {"refunds": "refund", "look_ups": "look-up", "undo_requests": "undo"}
LIMIT_S = 60.0


class Tour:
    """One namespace with its processes; the log, the services and their books say what happened."""

    def __init__(self, log: KafkaLog, settings: Settings, services: list[Service]) -> None:
        self._services = services
        self._topics = settings.topics
        self._log = log
        self.client = Client(
            log,
            settings.topics,
            tenant="tour",
            actor="you",
            channel="tour",
            digest_key=settings.digest_key,
            identity=identity_of(settings, log),
            now_ms=SystemClock().now_ms,
        )

    def visit(self, name: str) -> dict[str, Any]:
        """One session that runs one activity, to its end or to the person it waits for."""
        before = self._asked()
        self.client.open("contracts", name)
        self.client.send(name, name)
        events = self._follow(name)
        request = next(body for body in events if isinstance(body, r.ActivityRequested))
        ends = [body for body in events if getattr(body, "activity_id", "") == request.activity_id]
        charges = self.charges(request.idempotency_key)
        after = self._asked()
        return {
            "contract": CONTRACTS[name],
            "attempts": max(body.attempt for body in ends),
            "asked": {word: after[word] - before[word] for word in after},
            "charges": len(charges),
            "undone": sum(charge.undone for charge in charges),
            "recovered": any(getattr(body, "recovered", False) for body in ends),
            "ended": _ended(events[-1]),
            "doubt": self._resolve(name, events, charges) if _waits(events[-1]) else None,
        }

    def charges(self, key: str) -> list[Any]:
        """What the services' books say of this key."""
        return [charge for one in self._services for charge in read_book(one.file).of(key)]

    def _resolve(self, name: str, events: list[Any], charges: list[Any]) -> dict[str, Any]:
        """What a person does: sees it, looks into the book, says what is true."""
        doubt = next(body for body in events if isinstance(body, r.ActivityUncertain))
        found = charges[0].id if charges else None
        self.client.resolve(
            name, doubt.activity_id, "completed" if found else "failed", found, "seen in the book"
        )
        failure = doubt.failure
        return {
            "sees": f"{name}, activity {doubt.activity_id}, is uncertain: {failure.message}",
            "finds": found,
            "ended": _ended(self._follow(name, beyond=len(events))[-1]),
        }

    def _follow(self, session_id: str, beyond: int = 0) -> list[Any]:
        """The session's facts, once it has ended or waits for somebody; `beyond` so many that are known."""
        reader = self._log.reader(Isolation.COMMITTED)
        reader.assign({Place(self._topics.events, 0): 0})
        give_up, found = time.monotonic() + LIMIT_S, []
        try:
            while len(found) <= beyond or not (_ended(found[-1]) or _waits(found[-1])):
                if time.monotonic() > give_up:
                    raise SystemExit(f"{session_id} has not ended within {LIMIT_S} s: {found[-1:]}")
                for item in reader.poll(500, 100):
                    if isinstance(item, Record):
                        event = decode_event(item.value, item.headers)
                        if event.envelope.session_id == session_id:
                            found.append(event.body)
            return found
        finally:
            reader.close()

    def _asked(self) -> dict[str, int]:
        """How often the services were asked for what."""
        numbers = [json.load(urlopen(f"{one.url}/summary"))["requests"] for one in self._services]
        return {ASKED[what]: sum(one[what] for one in numbers) for what in ASKED}


def main() -> None:
    """Everything from start to end."""
    with ExitStack() as ending:
        home = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="wakeful-tour-")))
        namespace = f"tour-{secrets.token_hex(3)}"
        own = {"HOME": str(home), "NAMESPACE": namespace, "PARTITIONS": "1", "OPEN_POLICY": "1"}
        environ = {**os.environ, **{f"WAKEFUL_{name}": value for name, value in own.items()}}
        stack = Stack(home, environ=environ)
        ending.callback(stack.reset)
        print("starting what the tour needs, which takes a few seconds", file=sys.stderr)
        try:
            stack.up()
        except StackError as error:
            raise SystemExit(f"no stack: {error}") from error
        settings = load_settings(environ)
        log = ending.enter_context(KafkaLog(settings.kafka_servers, client_id=namespace))
        topics = apply_topics(log, settings, QUEUES)
        ending.callback(log.delete_topics, topics)
        careless = ending.enter_context(Service(home / "careless.ndjson"))
        careful = ending.enter_context(Service(home / "careful.ndjson", "--dedupe"))
        environ |= {"TOUR_PAYMENTS": careless.url, "TOUR_CAREFUL_PAYMENTS": careful.url}
        running = Supervisor(settings, APP, queues=QUEUES, projector=False, environ=environ)
        ending.enter_context(running)
        tour = Tour(log, settings, [careless, careful])
        ending.callback(tour.client.close)
        story = [tour.visit(name) for name in CONTRACTS]
    if "--json" in sys.argv[1:]:
        print(json.dumps(story))
    else:
        print("\n".join(line for stop in story for line in lines(stop)))


def lines(stop: dict[str, Any]) -> list[str]:
    """One stop of the tour in words."""
    asked = ", ".join(f"{n} {word}{'s' * (n > 1)}" for word, n in stop["asked"].items() if n)
    charged = f"charged {stop['charges']}{', undone' * bool(stop['undone'])}"
    ended = (stop["ended"] or "waits for a person") + ", recovered" * stop["recovered"]
    attempts = f"{stop['attempts']} attempt{'s' * (stop['attempts'] > 1)}"
    told = [f"{stop['contract']:<23} {attempts:<11} {asked:<20} {charged:<18} {ended}"]
    if doubt := stop["doubt"]:
        told += [
            f"  a person sees         {doubt['sees']}",
            f"  looks into the book   {doubt['finds'] or 'nothing was charged'}",
            f"  and says so           {doubt['ended']}",
        ]
    return told


def _ended(body: r.EventBody) -> str:
    match body:
        case r.SessionCompleted():
            return str(json.loads(body.outcome.inline or b"null"))
        case r.SessionFailed():
            return f"failed: {body.failure.message}"
        case r.SessionHeld():
            return f"held: {body.detail}"
        case _:
            return ""


def _waits(body: r.EventBody) -> bool:
    return isinstance(body, r.SessionWaiting) and any(
        obligation.kind == "uncertain" for obligation in body.obligations
    )


if __name__ == "__main__":
    main()
