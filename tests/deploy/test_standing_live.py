"""On real Kafka: policy is published while an approved call waits in its queue, and no worker makes it any more."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wakeful import Needs, Read, Write, activity
from wakeful.commands.client import Client
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.identity import identity_of
from wakeful.deploy.policies import publish, wait_until_seen
from wakeful.deploy.processes import apply_topics, processors_group
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.failures import TAKEN_OVER
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_survey import members
from wakeful.events.log.protocol import Isolation, Place, Record
from wakeful.processors.activities.worker import Worker
from wakeful.processors.app import gather
from wakeful.processors.policies.sets import default_policies

pytestmark = [pytest.mark.kafka]

APP = str(Path(__file__).with_name("desk_app.py"))
QUEUES = ["default", "payments"]
LIMIT_S = 30.0
FREEZE = """@id("frozen") forbid (principal, action == Action::"execute", resource == Tool::"refund")
unless { context.approved_by.contains(Actor::"local/dora") };"""


class Desk:
    """A processor of its own, workers that come and go, and what the log says."""

    def __init__(self, log: KafkaLog, settings: Settings) -> None:
        self.log, self.settings, self.paid = log, settings, []
        self.events: list[r.EventBody] = []
        self._reader = log.reader(Isolation.COMMITTED)
        places = range(log.partitions(settings.topics.events))
        self._reader.assign({Place(settings.topics.events, n): 0 for n in places})

        @activity(contract=Read())
        async def find_order(order_id: str) -> dict[str, Any]:
            return {"id": order_id, "cents": 25_000}

        @activity(contract=Write(idempotent=True), queue="payments", approval=Needs("supervisor"))
        async def refund(order_id: str, cents: int, *, key: str) -> str:
            self.paid.append(key)
            return f"{cents} paid for {order_id}"

        self._app = gather([find_order, refund], name="desk")

    def client(self, actor: str) -> Client:
        return Client(
            self.log,
            self.settings.topics,
            tenant="local",
            actor=actor,
            channel="test",
            digest_key=self.settings.digest_key,
            identity=identity_of(self.settings, self.log),
            now_ms=SystemClock().now_ms,
        )

    def publish(self, policies: str = "") -> None:
        """In force in the processor when this returns."""
        text = default_policies() + policies
        roles = (r.RoleMembers("local", "supervisor", ("sue",)),)
        offset = publish(
            self.log,
            self.settings,
            r.PolicyPublished(1, 0, "root", "", text, roles, ()),
            identity_of(self.settings, self.log),
        )
        group = processors_group(self.settings)
        wait_until_seen(
            self.log,
            self.settings,
            offset,
            lambda: members(self.settings.kafka_servers, group) or ["not there yet"],
            timeout_s=LIMIT_S,
            progress=lambda _missing: None,
        )

    def until(self, kind: type[r.EventBody], times: int = 1) -> Any:
        """The newest fact of this kind, once there are so many."""
        limit = time.monotonic() + LIMIT_S
        while True:
            found = [body for body in self.events if isinstance(body, kind)]
            if len(found) >= times:
                return found[-1]
            assert time.monotonic() < limit, f"no {kind.__name__} among {self.events}"
            for item in self._reader.poll(100, 100):
                if isinstance(item, Record):
                    self.events.append(decode_event(item.value, item.headers).body)

    @contextmanager
    def worker(self, name: str) -> Iterator[None]:
        worker = Worker(
            self.log,
            self.settings.topics,
            self._app,
            worker_id=name,
            digest_key=self.settings.digest_key,
            now_ms=SystemClock().now_ms,
            identity=identity_of(self.settings, self.log, role="worker"),
        )
        thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
        thread.start()
        try:
            yield
        finally:
            worker.stop()
            thread.join(LIMIT_S)
        assert not thread.is_alive()


@pytest.fixture
def desk(endpoints: Endpoints, tmp_path: Path, keys: Path) -> Iterator[Desk]:
    settings = Settings(
        kafka=endpoints.kafka,
        cluster_id=endpoints.cluster_id,
        namespace=f"standing{os.getpid()}",
        partitions=1,
        home=tmp_path / "run",
        keys=keys,
    )
    with KafkaLog(settings.kafka_servers, client_id=settings.namespace) as log:
        made = apply_topics(log, settings, QUEUES)
        environ = {**os.environ, **settings.to_environ()}
        with Supervisor(
            settings, APP, queues=QUEUES, workers=0, projector=False, spares_max=0, environ=environ
        ):
            yield Desk(log, settings)
        log.delete_topics(made)


def test_what_policy_forbids_while_it_waits_is_never_called_and_asked_for_again(
    desk: Desk,
) -> None:
    desk.publish()
    with desk.client("ann") as ann:
        ann.open("refund-desk", "s1")
        ann.send("s1", "order-7")
    with desk.worker("w1"):
        asked = desk.until(r.ApprovalRequested)
    with desk.client("sue") as sue:
        sue.decide("s1", asked.proposal_id, asked.digest, "approve")
        granted = desk.until(r.ActivityRequested, 2)
        assert (granted.name, granted.withheld_ms) == ("refund", None)  # it lies in the queue
        desk.publish(FREEZE)
        with desk.worker("w2"):
            again = desk.until(r.ApprovalRequested, 2)
            returned = desk.until(r.ActivityReturned)
            assert (returned.reason, returned.policy_ids) == (TAKEN_OVER, ("frozen",))
            assert desk.until(r.ApprovalVoided).proposal_id == asked.proposal_id
            assert again.because == ("refund may not be carried out: forbidden by frozen",)
            desk.publish()
            assert desk.paid == []
            sue.decide("s1", again.proposal_id, again.digest, "approve")
            desk.until(r.SessionCompleted)
    assert desk.paid == ["local/s1/1/3"]
