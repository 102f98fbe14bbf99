"""The stories of the lifecycle on a real broker: all of their commands in one log, which a processor decides."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import confluent_kafka
import pytest

from tests.processors import test_lifecycle as lifecycle
from tests.processors.desk import KEY, Hand
from wakeful.commands.check import Facts, Refusal
from wakeful.commands.models import Command, CommandBody, CommandHeader
from wakeful.commands.policy import EVERYBODY
from wakeful.commands.wire import encode_command
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.telling.reading import to_the_end
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.evolve import evolve
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Place, TopicSpec
from wakeful.events.state import State
from wakeful.events.topics import Topics
from wakeful.events.transitions import MOVERS, ROWS
from wakeful.processors import handler as handler_module
from wakeful.processors.app import App, gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopSettings

PARTITIONS = 2
LIMIT_S = 60.0
DECIDE = handler_module.decide

DATED = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "31536000000"}
"""Each command comes when its story says, which may be a day after the one before it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A command of a story: when it comes, on which code of the story, and whether the engine fails over it."""

    command: Command
    at_ms: int
    deploy: int
    faulty: bool

    @property
    def id(self) -> tuple[str, str]:
        return self.command.header.session_id, self.command.header.command_id


class Noting(Hand):
    """A hand that notes what it sends; `apps` is the code that the story began on, and what it went on with."""

    def __init__(self, session_id: str, now_ms: int) -> None:
        super().__init__(session_id=session_id)
        self.now_ms = now_ms
        self.sent: list[Sent] = []
        self.apps: list[App] = [self.app]

    def redeploy(self, *declared: object) -> None:
        """See `Hand`."""
        super().redeploy(*declared)
        if self.sent:
            self.apps.append(self.app)
        else:
            self.apps = [self.app]

    def attempt(self, body: CommandBody, **given: Any) -> tuple[list[r.EventBody], Refusal | None]:
        """Notes the command, and gives it."""
        out = super().attempt(body, **given)
        id_ = given.get("command_id") or f"c{self.offset}"
        header = CommandHeader(
            *("acme", self.session_id, id_, self.now_ms, given.get("actor", "ann")),
            *(None, "test", None),
        )
        faulty = handler_module.decide is not DECIDE
        self.sent.append(
            Sent(Command(header, body), self.now_ms, len(self.apps) - 1, faulty=faulty)
        )
        return out


def played(monkeypatch: pytest.MonkeyPatch) -> dict[str, Noting]:
    """Every story in memory, each with a session of its own, as of a moment ago."""
    now_ms = int(time.time() * 1000) - 60_000
    found: dict[str, Noting] = {}
    for number, story in enumerate(lifecycle.STORIES.values()):
        hand = found[f"s{number}"] = Noting(f"s{number}", now_ms)
        story(hand, monkeypatch)
    return found


def merged(apps: Iterable[App]) -> App:
    """What all of these declare."""
    declared: dict[str, object] = {}
    for app in apps:
        declared |= {f"workflow {n}": w for n, of in app.workflows.items() for w in of.values()}
        declared |= {f"activity {a.name}": a for a in app.activities.values()}
    return gather(tuple(declared.values()))


class Deployed:
    """Topics on a broker, and processors that run one after another on the code of that day."""

    def __init__(self, kafka: str, namespace: str) -> None:
        self.log = KafkaLog(kafka, client_id=namespace)
        self.topics, self.servers = Topics(namespace), kafka
        for spec in self.topics.specs(("default",), PARTITIONS):
            more = DATED if spec.name == self.topics.commands else {}
            self.log.create_topics([TopicSpec(spec.name, spec.partitions, {**spec.config, **more})])

    def send(self, sent: Iterable[Sent]) -> None:
        """As a client in another language would: its own time, and the partition that its library chooses."""
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "partitioner": "murmur2_random"}
        )
        for one in sent:
            encoded = encode_command(one.command)
            producer.produce(
                self.topics.commands,
                key=session_key("acme", one.command.header.session_id),
                value=encoded.value,
                headers=list(record_headers(encoded, one.command.header.command_id)),
                timestamp=one.at_ms,
            )
        assert producer.flush(30) == 0

    def run(self, app: App, facts: dict[str, list[str]]) -> None:
        """A processor, until each session's events begin with these facts."""
        settings = LoopSettings(
            f"{self.topics.namespace}.processors", f"{self.topics.namespace}.processors.0", None
        )
        handler = CommandHandler(app, Facts(KEY, policy=EVERYBODY))
        loop = Loop(self.log, self.topics, handler, settings, SystemClock())
        limit = time.monotonic() + LIMIT_S
        for point in loop.steps():
            assert time.monotonic() < limit, self.missing(facts)
            if point == "p.stored" and not self.missing(facts):
                loop.stopping = True

    def missing(self, facts: dict[str, list[str]]) -> dict[str, list[str]]:
        """Of the sessions that are not there yet, what they have."""
        names = {s: [type(e.body).__name__ for e in found] for s, found in self.events().items()}
        return {
            session: names.get(session, [])
            for session, expected in facts.items()
            if names.get(session, [])[: len(expected)] != expected
        }

    def events(self) -> dict[str, list[r.Event]]:
        """The committed events of each session."""
        found: dict[str, list[r.Event]] = {}
        for record in to_the_end(
            self.log, {Place(self.topics.events, n): 0 for n in range(PARTITIONS)}
        ):
            event = decode_event(record.value, record.headers)
            found.setdefault(event.envelope.session_id, []).append(event)
        return found


def walked(events: Iterable[r.Event]) -> set[tuple[str | None, str, str]]:
    """The arrows of one session's history."""
    found: set[tuple[str | None, str, str]] = set()
    state: State | None = None
    for event in events:
        before = state.status if state is not None else None
        state = evolve(state, event)
        if type(event.body) in MOVERS:
            found.add((before, type(event.body).__name__, state.status))
    return found


def test_every_arrow_is_walked_on_kafka_by_the_facts_that_it_has_in_memory(
    kafka: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories = played(monkeypatch)
    sent = sorted((one for hand in stories.values() for one in hand.sent), key=lambda s: s.at_ms)
    faulty = {one.id for one in sent if one.faulty}
    assert len(faulty) > 5

    def failing(session: Any, command: Command, *given: Any) -> Any:
        if (command.header.session_id, command.header.command_id) in faulty:
            raise ZeroDivisionError("the engine's own fault")
        return DECIDE(session, command, *given)

    monkeypatch.setattr(handler_module, "decide", failing)
    deployed = Deployed(kafka, namespace)
    for deploy in range(max(len(hand.apps) for hand in stories.values())):
        apps = [hand.apps[deploy] for hand in stories.values() if deploy < len(hand.apps)]
        now = [one for one in sent if one.deploy == deploy]
        deployed.send(now)
        last = {one.command.header.session_id: one.id[1] for one in now}
        facts = {s: facts_until(stories[s], command_id) for s, command_id in last.items()}
        deployed.run(merged(apps), facts)

    arrows = set().union(*(walked(events) for events in deployed.events().values()))
    table = {(source, event.__name__, to) for source, event, to in ROWS}
    assert arrows - table == set()
    assert table - arrows == set()
    deployed.log.delete_topics([spec.name for spec in deployed.topics.specs(("default",), 1)])
    deployed.log.close()


def facts_until(hand: Noting, command_id: str) -> list[str]:
    """What the session had come to in memory when it had been given this command."""
    ends = [n for n, s in enumerate(hand.log, 1) if s.event.envelope.cause.command_id == command_id]
    return [type(s.event.body).__name__ for s in hand.log[: ends[-1] if ends else len(hand.log)]]
