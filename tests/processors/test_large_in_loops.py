"""Large payloads through whole processes: the loop in memory, and the real one; a folder is the store of both."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from tests.processors.large import MB, fetch_page, pile, publish
from tests.processors.loops import Cluster
from wakeful.commands.check import Facts
from wakeful.commands.client import Client
from wakeful.commands.models import ReleaseSession
from wakeful.commands.outcomes import wait_for_outcome
from wakeful.commands.policy import EVERYBODY
from wakeful.deploy.clock import SystemClock
from wakeful.events import records as r
from wakeful.events.blob_patience import TRANSACTION_LIMIT_MS, PatientBlobs, open_blobs
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.topics import Topics
from wakeful.processors.activities.performing import perform
from wakeful.processors.activities.runner import Call, Runner
from wakeful.processors.activities.worker import Worker
from wakeful.processors.app import gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopSettings

KEY = b"a tenant's digest key"

T = TypeVar("T")


class LargeCluster(Cluster):
    """A cluster whose processors share a folder of blobs."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder=folder, **options)
        self.blobs_folder = folder / "blobs"
        self.app = gather((pile, fetch_page, publish))

    def start(self, ordinal: int = 0, **_: Any) -> None:
        blobs = open_blobs(self.blobs_folder.as_uri(), limit_ms=TRANSACTION_LIMIT_MS)
        handler = CommandHandler(self.app, Facts(KEY, blobs=blobs, policy=EVERYBODY))
        settings = LoopSettings("desk.processors", f"desk.processors.{ordinal}", self.folder)
        self.loops[ordinal] = Loop(self.log, self.topics, handler, settings, self.clock)
        self.running[ordinal] = self.loops[ordinal].steps()

    def client(self) -> Client:
        return Client(
            self.log,
            self.topics,
            tenant="acme",
            actor="ann",
            channel="test",
            digest_key=KEY,
            blobs=open_blobs(self.blobs_folder.as_uri()),
            now_ms=lambda: self.clock.ms,
        )

    def answer_large(self) -> int:
        """Runs every task not answered yet, as a worker beside the same folder; gives how many."""
        blobs = open_blobs(self.blobs_folder.as_uri())
        runner = Runner(self.app.activities, worker_id="w1", digest_key=KEY, blobs=blobs)
        tasks = [task for task in self.tasks() if task.idempotency_key not in self._answered]
        for task in tasks:
            self._answered.add(task.idempotency_key)
            call = runner.prepare(task)
            assert isinstance(call, Call), call
            body = asyncio.run(perform(runner, call))
            self.send(body, task.session_id, f"{task.idempotency_key}#{task.attempt}", "worker:w1")
        return len(tasks)

    def last(self, session_id: str, kind: type[T]) -> T:
        """The session's newest fact of this kind."""
        bodies = [e.body for e in self.events(session_id)]
        return next(body for body in reversed(bodies) if isinstance(body, kind))


class InThread:
    """A worker of this cluster, on real time, until it is stopped."""

    def __init__(self, log: Any, topics: Topics, app: Any, blobs: PatientBlobs) -> None:
        self.worker = Worker(
            log,
            topics,
            app,
            worker_id="w1",
            digest_key=KEY,
            blobs=blobs,
            now_ms=SystemClock().now_ms,
        )
        self._thread = threading.Thread(target=lambda: asyncio.run(self.worker.run()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()


def test_a_large_turn_survives_eviction_and_a_lost_blob_holds_it_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.processors.live.RUNNING_MAX", 1)
    monkeypatch.setattr("wakeful.processors.live.PARKED_MAX", 1)
    cluster = LargeCluster(tmp_path)
    cluster.start()
    cluster.run(60)
    with cluster.client() as client:
        client.open("pile", "s1")
        client.send("s1", "m" * 5 * MB)
        cluster.run(30)
        assert cluster.answer_large() == 1
        cluster.run(30)
        assert cluster.facts("s1")[-2:] == ["ReplySent", "TurnCompleted"]
        state = cluster.last("s1", r.TurnCompleted).state
        lost = (cluster.blobs_folder / state.ref).read_bytes()
        (cluster.blobs_folder / state.ref).unlink()
        cluster.kill()
        cluster.start()
        client.send("s1", "second")
        client.open("pile", "s2")
        client.send("s2", "m" * MB)
        cluster.run(80)
        assert cluster.facts("s1")[-1] == "SessionHeld"
        assert cluster.last("s1", r.SessionHeld).reason == "payload_missing"
        assert cluster.facts("s2")[-1] == "ActivityRequested"
        (cluster.blobs_folder / state.ref).write_bytes(lost)
        cluster.send(ReleaseSession("restored"), "s1")
        cluster.run(30)
        assert cluster.facts("s1")[-1] == "ActivityRequested"
        assert cluster.answer_large() == 2
        cluster.run(30)
        assert cluster.facts("s1")[-1] == cluster.facts("s2")[-1] == "TurnCompleted"


@pytest.mark.kafka
def test_a_large_message_result_and_state_on_kafka(
    kafka: str, namespace: str, tmp_path: Path
) -> None:
    url = tmp_path.as_uri()
    topics, app = Topics(namespace), gather((pile, fetch_page, publish))
    with KafkaLog(kafka, client_id=namespace) as log:
        log.create_topics(topics.specs(app.queues, 1))
        facts = Facts(KEY, blobs=open_blobs(url, limit_ms=TRANSACTION_LIMIT_MS))
        settings = LoopSettings(f"{namespace}.processors", f"{namespace}.processors.0", None)
        loop = Loop(log, topics, CommandHandler(app, facts), settings, SystemClock())
        processor = threading.Thread(target=lambda: [None for _ in loop.steps()])
        processor.start()
        try:
            with (
                InThread(log, topics, app, open_blobs(url)),
                Client(
                    log,
                    topics,
                    tenant="acme",
                    actor="ann",
                    channel="test",
                    digest_key=KEY,
                    blobs=open_blobs(url),
                    now_ms=SystemClock().now_ms,
                ) as client,
            ):
                client.open("pile", "s1")
                client.send("s1", "m" * 5 * MB)
                first = _wait(log, topics, "reply")
                client.send("s1", {"text": "", "last": True})
                ended = _wait(log, topics, "completed")
                assert first.outcome.message.inline is None
                assert client.load(first.outcome.message)["seen"] == 5 * MB
                assert client.load(ended.outcome.message) == {"all": "r" * 2 * MB}
        finally:
            loop.stopping = True
            processor.join(20)


def _wait(log: KafkaLog, topics: Topics, kind: str) -> Any:
    return wait_for_outcome(
        log, topics, "acme", "s1", kinds=[kind, "held", "failed"], timeout_ms=30_000
    )
