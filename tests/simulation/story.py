"""A small calm world that a test drives by hand: send, run, kill, wait; and at its end every promise is checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from wakeful.commands import models as m
from wakeful.deploy.simulation.checks import check
from wakeful.deploy.simulation.projecting import Database, ProjectorActor
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.payloads import json_payload
from wakeful.processors.simulation.actors import DIGEST_KEY, Actor
from wakeful.processors.simulation.plan import Plan
from wakeful.processors.simulation.worker import WorkerActor
from wakeful.processors.simulation.world import FAR_MS, World

T = TypeVar("T")

CALM = replace(
    Plan.draw(0),
    partitions=1,
    processors=1,
    workers=1,
    projectors=1,
    batch_records=64,
    always_replay=False,
    commands=0,
    fault_rate=0.0,
    late_markers=0.0,
    kills=0.0,
    skews_ms=(0, 0, 0),
    deploys=False,
    guarded=False,
    policies=0,
)


class Story:
    """See the module. Nothing moves but by `run` and `wait`."""

    def __init__(self, **changes: bool | int) -> None:
        self.database = Database()
        plan = replace(CALM, **changes)
        self.world = World(plan, more=lambda scene: [ProjectorActor(scene, 0, self.database)])
        self.processor = self.world.processors[0]
        self.workers = {worker.queue: worker for worker in self.world.workers}
        self.run()

    def run(self) -> None:
        """Until nothing moves, without waiting for what is due later."""
        assert self.world.rest()

    def wait(self, ms: int) -> None:
        """Time passes for those who are up, then they run."""
        self.world.advance(ms)
        self.run()

    def send(self, body: m.CommandBody, *, session: str = "s1", **more: object) -> None:
        """A command arrives; nobody has read it yet."""
        self.world.clients._send(session, body, **more)
        self.world.clients.heal()

    def say(self, script: str, *, session: str = "s1") -> None:
        """A message arrives, and all that follows from it at once happens."""
        self.send(m.SendMessage(json_payload({"text": script}, DIGEST_KEY)), session=session)
        self.run()

    def open(self, script: str, *, session: str = "s1") -> None:
        """A session, and its first message."""
        self.send(m.OpenSession("player"), session=session)
        self.say(script, session=session)

    def decide(
        self, decision: str, asked: r.ApprovalRequested | None = None, *, session: str = "s1"
    ) -> None:
        """A decision about the newest proposal, or this one."""
        proposal = asked or self.last(r.ApprovalRequested, session=session)
        body = m.DecideApproval(proposal.proposal_id, proposal.digest, decision, "")
        self.send(body, session=session)
        self.run()

    def kill_at(self, actor: Actor, point: str) -> None:
        """It will die when it comes there, and start again soon."""
        actor.doom = point

    def down(self, *actors: Actor) -> None:
        """They die now, and stay down until `up`."""
        for actor in actors:
            actor.kill(after_ms=FAR_MS)

    def up(self, *actors: Actor) -> None:
        """They start again."""
        for actor in actors:
            actor.resume_ms = 0

    def events(self, *, session: str = "s1") -> list[r.Event]:
        """The session's history."""
        records = self.world.log.dump(self.world.topics.events)
        events = [decode_event(record.value, record.headers) for record in records]
        return [event for event in events if event.envelope.session_id == session]

    def all(self, kind: type[T], *, session: str = "s1") -> list[T]:
        """Its facts of one kind."""
        return [e.body for e in self.events(session=session) if isinstance(e.body, kind)]

    def last(self, kind: type[T], *, session: str = "s1") -> T:
        """The newest of them."""
        return self.all(kind, session=session)[-1]

    def replies(self, *, session: str = "s1") -> list[str]:
        """What was said."""
        said = self.all(r.ReplySent, session=session)
        return [(body.message.inline or b"").decode() for body in said]

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return self.world.downstream.calls

    def starts(self, queue: str) -> int:
        """Attempts that workers of the queue began."""
        return sum(queue in start.worker for start in self.world.starts)

    def worker(self, queue: str) -> WorkerActor:
        """The queue's worker."""
        return self.workers[queue]

    def finish(self) -> None:
        """Lets everything come to its end, and checks all that is promised."""
        self.world.heal()
        rested = self.world.settle()
        findings, _ = check(self.world, self.database, rested=rested)
        self.world.close()
        assert findings.told == []
