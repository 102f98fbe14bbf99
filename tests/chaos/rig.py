"""A namespace on the real stack with real processes, clients that go on, and an observer that watches for doubles."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from psycopg.errors import UndefinedTable

from wakeful.commands.client import Client
from wakeful.commands.models import CompleteActivity
from wakeful.commands.wire import decode_command
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.identity import identity_of
from wakeful.deploy.keyfile import ensure_local_keys
from wakeful.deploy.processes import apply_topics, processors_group
from wakeful.deploy.settings import Settings, load_settings
from wakeful.deploy.supervisor import Supervisor
from wakeful.events import records as r
from wakeful.events.codec import decode_event, decode_outcome
from wakeful.events.keys import effect_key
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_survey import committed_offsets
from wakeful.events.log.protocol import Isolation, Place, Record
from wakeful.projections.audit import Violation, asked_by, audit, evidence_from_log
from wakeful.projections.postgres import stored_rows
from wakeful.projections.queries import Queries
from wakeful.projections.rows import Rows

APP = str(Path(__file__).with_name("app.py"))
QUEUES = ["default"]
DEADLINE_S = 60.0


class Rig:
    """One test's cluster; `running()` starts its processes, `drive` works until all sessions are done."""

    def __init__(
        self,
        *,
        kafka: str,
        postgres: str,
        namespace: str,
        home: Path,
        partitions: int = 2,
        app: str = APP,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ` is what the processes are told in place of what is told here; clients go to `kafka` itself."""
        self.app = app
        self.folder = home / "outside"
        self.folder.mkdir(parents=True)
        self.environ = {
            "WAKEFUL_KAFKA": kafka,
            "WAKEFUL_POSTGRES": postgres,
            "WAKEFUL_REDIS": "redis://127.0.0.1:1/0",
            "WAKEFUL_NAMESPACE": namespace,
            "WAKEFUL_PARTITIONS": str(partitions),
            "WAKEFUL_HOME": str(home / "home"),
            "WAKEFUL_ALWAYS_REPLAY": "1",
            "WAKEFUL_OPEN_POLICY": "1",
            "WAKEFUL_CHAOS_FOLDER": str(self.folder),
            **(environ or {}),
        }
        ensure_local_keys(home / "home" / "keys.json")
        self.settings: Settings = load_settings(self.environ)
        self.topics = self.settings.topics
        self.log = KafkaLog(kafka, client_id="chaos")
        apply_topics(self.log, self.settings, QUEUES)
        self.client = Client(
            self.log,
            self.topics,
            tenant="acme",
            actor="ann",
            channel="test",
            digest_key=self.settings.digest_key,
            identity=identity_of(self.settings, self.log),
            now_ms=SystemClock().now_ms,
        )
        self.sessions: list[str] = []
        self.done: dict[str, r.Outcome] = {}
        self.seen: Counter[tuple[str, int]] = Counter()
        self.wanted: dict[str, r.Outcome] = {}
        self.approves = True
        self._approved: set[str] = set()
        self._reader = self._reader_of(self.topics.events, self.topics.outcomes)

    def running(
        self,
        *,
        pause_s: float = 0.0,
        expires: str = "60s",
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Supervisor:
        """The processes, not started yet; `failpoints` by the names of the children."""
        environ = {
            **os.environ,
            **self.environ,
            **(environ or {}),
            "WAKEFUL_CHAOS_PAUSE_S": str(pause_s),
            "WAKEFUL_CHAOS_EXPIRES": expires,
        }
        return Supervisor(self.settings, self.app, queues=QUEUES, environ=environ, **options)

    def open(self, count: int, text: str = "refund me") -> None:
        """Opens sessions and sends each its message."""
        for number in range(len(self.sessions), len(self.sessions) + count):
            session_id = f"s{number}"
            self.sessions.append(session_id)
            self.client.open("desk", session_id)
            self.client.send(session_id, text + "!" * number)

    def look(self) -> None:
        """Reads what became visible, as any consumer would; approves what is asked for, unless told to wait."""
        for item in self._reader.poll(500, 50):
            if not isinstance(item, Record):
                continue
            if item.topic == self.topics.events:
                event = decode_event(item.value, item.headers)
                self.seen[event.envelope.session_id, event.envelope.seq] += 1
                self.hear(event)
                continue
            outcome = decode_outcome(item.value, item.headers)
            if outcome.kind in ("completed", "failed", "cancelled", "held"):
                self.done[outcome.session_id] = outcome
            elif outcome.kind == "approval_wanted":
                self.wanted[outcome.session_id] = outcome
                if self.approves:
                    self.approve(outcome)

    def hear(self, event: r.Event) -> None:
        """Told of every event that became visible; for rigs that keep accounts of their own."""

    def approve(self, outcome: r.Outcome) -> None:
        """Grants what an outcome asks for, once."""
        if outcome.proposal_id is not None and outcome.session_id not in self._approved:
            self._approved.add(outcome.session_id)
            self.client.decide(
                outcome.session_id, outcome.proposal_id, outcome.digest or b"", "approve"
            )

    def drive(
        self, until: Callable[[], bool] | None = None, *, deadline_s: float = DEADLINE_S
    ) -> None:
        """Looks until all sessions are done, or `until`; fails with what is missing after a while."""
        deadline = time.monotonic() + deadline_s
        wanted = until or (lambda: len(self.done) == len(self.sessions))
        while not wanted():
            self.look()
            if time.monotonic() > deadline:
                open_sessions = sorted(set(self.sessions) - set(self.done))
                raise AssertionError(f"not done after {deadline_s} s; open: {open_sessions}")

    def wait(self, seconds: float) -> None:
        """Lets real time pass, looking all the while: for deadlines that must really be over."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.look()

    def told(self, file: str) -> list[dict[str, Any]]:
        """The lines that activities wrote into a file."""
        path = self.folder / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def violations(self) -> list[Violation]:
        """What does not hold once everything has settled; waits for the projector and the group's offsets."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            late = time.monotonic() > deadline
            try:
                found = self._audit()
            except UndefinedTable:  # the projector has not come up yet
                if late:
                    raise
            else:
                if not found or late:
                    return found
            threading.Event().wait(0.25)

    def assert_all_holds(self) -> None:
        """No invariant is broken, each refund is paid once, and an observer saw no event twice."""
        assert self.violations() == []
        self.look()
        assert [place for place, times in self.seen.items() if times > 1] == []
        assert {o.kind for o in self.done.values()} == {"completed"}
        paid = [line["key"] for line in self.told("payments.ndjson")]
        assert sorted(paid) == sorted(set(paid))
        assert len(paid) == len(self.sessions)
        assert self.model_calls_made_again() == []

    def model_calls_made_again(self) -> list[str]:
        """Keys of model calls that began after the log had a result of the same key, by the log's clock."""
        recorded_ms: dict[str, int] = {}
        for record in evidence_from_log(self.log, self.topics, QUEUES).commands:
            command = decode_command(record.value, record.headers)
            if isinstance(command.body, CompleteActivity):
                header, activity_id = command.header, command.body.activity_id
                key = effect_key(header.tenant, header.session_id, activity_id)
                recorded_ms.setdefault(key, record.timestamp_ms)
        return [
            line["key"]
            for line in self.told("model.ndjson")
            if line["said"] == "began" and line["at_ms"] > recorded_ms[line["key"]] + 1
        ]

    def close(self) -> None:
        """Removes what the test left on the broker."""
        self._reader.close()
        self.client.close()
        self.log.close()

    def _audit(self) -> list[Violation]:
        places = [Place(self.topics.commands, n) for n in range(self.settings.partitions)]
        with Queries(self.settings.postgres_url, self.settings.namespace) as queries:
            positions = queries.positions()
        evidence = evidence_from_log(
            self.log,
            self.topics,
            QUEUES,
            committed=committed_offsets(
                self.settings.kafka_servers, processors_group(self.settings), places
            ),
            rows=self._rows(),
            positions=positions,
            quiescent=True,
        )
        return audit(evidence, asked_by(decode_command))

    def _rows(self) -> Rows:
        return stored_rows(self.settings.postgres_url, self.settings.namespace)

    def _reader_of(self, *topics: str) -> Any:
        reader = self.log.reader(Isolation.COMMITTED)
        reader.assign({Place(t, n): 0 for t in topics for n in range(self.settings.partitions)})
        return reader
