"""Watchers as processes on a real broker, and a recount of the topic by other means than theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.projections.conftest import Scribe

from wakeful.deploy.processes import apply_topics
from wakeful.deploy.settings import Settings
from wakeful.deploy.telling.reading import to_the_end
from wakeful.deploy.telling.watched import Watched
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Place

LIMIT_S = 60.0
PARTITIONS = 2
COUNTED = ("requested", "completed", "failed", "turns", "held", "cancelled", "sessions_failed")

Recount = Counter[tuple[int, str, str, str]]


def until(true: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < limit, f"waited {LIMIT_S:.0f} s for {what}"
        time.sleep(0.1)


class Rig:
    """A namespace of its own, written to in transactions as a processor does, and its watchers."""

    def __init__(self, kafka: str, namespace: str, home: Path, **given: str) -> None:
        self.settings = Settings(
            kafka=kafka, namespace=namespace, home=home, partitions=PARTITIONS, **given
        )
        self.topics = self.settings.topics
        self.log = KafkaLog(kafka, client_id="watching-rig")
        self.created = apply_topics(self.log, self.settings, ("default",))
        self.scribe = Scribe(topic=self.topics.events, partitions=PARTITIONS)
        self.scribe.now_ms = int(time.time() * 1000) - 60_000
        self.watched = Watched(self.log, (self.topics.watch_windows, self.topics.watch_proposals))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._home, self._written, self._transactions = home, 0, 0

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.log.delete_topics(self.created)
        self.log.close()

    def watch(self, name: str) -> None:
        """Starts a watcher."""
        environ = {**os.environ, **self.settings.to_environ()}
        arguments = ["-m", "wakeful", "watch", "--name", name, "--session-timeout", "1s"]
        with (self._home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *arguments], env=environ, stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self, name: str) -> int:
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(LIMIT_S)

    def write(self, *, aborted: bool = False, at_once: int = 40) -> None:
        """What the scribe has said since; in small transactions, so that markers lie between events."""
        records = self.scribe.records[self._written :]
        self._written = len(self.scribe.records)
        self._transactions += 1
        producer = self.log.transactional(f"{self.settings.namespace}-rig-{self._transactions}")
        producer.start()
        for start in range(0, len(records), at_once):
            producer.begin()
            for one in records[start : start + at_once]:
                producer.produce(
                    self.topics.events,
                    key=one.key,
                    value=one.value,
                    headers=one.headers,
                    partition=one.partition,
                )
            if aborted:
                producer._client.flush(10)  # the brokers have them before they are told to forget
                break
            producer.commit()
        producer.abandon()

    def recount(self) -> Recount:
        """Per minute, tenant, tool and outcome, from the topic as it is, in one naive pass."""
        found: Recount = Counter()
        names: dict[tuple[str, str], str] = {}
        words = {r.ActivityCompleted: "completed", r.ActivityFailed: "failed"}
        words |= {r.ActivityCancelled: "cancelled"}
        alone = {r.TurnCompleted: "turns", r.SessionCompleted: "turns", r.SessionHeld: "held"}
        alone |= {r.SessionFailed: "sessions_failed"}
        places = {Place(self.topics.events, n): 0 for n in range(PARTITIONS)}
        for record in to_the_end(self.log, places):
            event = decode_event(record.value, record.headers)
            envelope, body = event.envelope, event.body
            at = (envelope.at_ms // 60_000, envelope.tenant)
            if isinstance(body, r.ActivityRequested):
                names[envelope.session_id, body.activity_id] = body.name
                found[*at, body.name, "requested"] += 1
            elif word := words.get(type(body)):
                found[*at, names[envelope.session_id, body.activity_id], word] += 1
            elif word := alone.get(type(body)):
                found[*at, "", word] += 1
        return found

    def windows(self) -> Recount:
        """The same, as the watchers have told it."""
        found: Recount = Counter()
        for key, counts in self.watched.look().windows():
            for word in COUNTED:
                if counts.get(word):
                    found[key.start_ms // 60_000, key.tenant, key.tool, word] += counts[word]
        return found

    def speakers(self) -> set[str]:
        """Which watchers spoke of a partition last."""
        rows = self.watched.look().rows
        return {row["watcher"] for key, row in rows.items() if key[0] == "said"}
