"""A gateway over views and a log that a scribe has filled: for queries, which need no processors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from starlette.testclient import TestClient
from tests.projections.conftest import Scribe, finish

from wakeful.commands.identity import INSECURE
from wakeful.deploy.gateway.api_keys import ApiKeys, changing, new_key
from wakeful.deploy.gateway.app import create_app
from wakeful.deploy.gateway.authentication import Authenticator
from wakeful.deploy.gateway.services import Services
from wakeful.deploy.settings import Settings
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Isolation, Place, TopicSpec
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector

MINE, THEIRS = "t0", "t1"
PROBLEM = "application/problem+json"
SECRET = "secret-of-{}"
PARTITIONS = 2


def secrets_of(tenant: str) -> str:
    """What stands in every text of this tenant that a person wrote."""
    return SECRET.format(tenant)


class Clock:
    """As far on as the scribe."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    def now_ms(self) -> int:
        return self._scribe.now_ms


class Shelves:
    """The application, and the world behind it."""

    def __init__(
        self, folder: Path, url: str, namespace: str, *, scribe: Scribe | None = None
    ) -> None:
        self.url, self.namespace = url, namespace
        install(url, namespace)
        self.settings = Settings(
            kafka="memory:9092", postgres=url, namespace=namespace, digest_key=b"k" * 32
        )
        topics = self.settings.topics
        self.scribe = scribe or Scribe(topic=topics.events, partitions=PARTITIONS)
        self.log = MemoryLog(now_ms=lambda: self.scribe.now_ms)
        names = (topics.events, topics.commands, topics.dead_letters, topics.outcomes)
        self.log.create_topics([TopicSpec(name, PARTITIONS, {}) for name in names])
        self._producer = self.log.producer()
        self._written = 0
        self._keys = folder / "api_keys.json"
        self.committed: dict[Place, int] = {}
        clock = Clock(self.scribe)
        self.services = Services(
            self.settings,
            self.log,
            authenticator=Authenticator(ApiKeys(self._keys), clock.now_ms),
            identity=INSECURE,
            clock=clock,  # type: ignore[arg-type]  # it has what is asked of it
            committed=lambda places: {p: self.committed[p] for p in places if p in self.committed},
        )
        self.client = TestClient(create_app(self.services), raise_server_exceptions=False)
        self._loop = start_blocking_portal(**self.client.async_backend)
        self.client.portal = (
            self._loop.__enter__()
        )  # else each request has a thread and a loop of its own
        self._bearers: dict[tuple[str, str], str] = {}
        self._views = PostgresViews(url, namespace)
        places = [Place(topics.events, n) for n in range(PARTITIONS)]
        reader = self.log.reader(Isolation.COMMITTED)
        self._projector = Projector(
            reader, self._views, places, lambda x: decode_event(x.value, x.headers)
        )
        self._steps = self._projector.steps()

    def write(self) -> None:
        """Puts what the scribe has written since into the log."""
        for record in self.scribe.records[self._written :]:
            self._producer.produce(
                self.settings.topics.events,
                key=record.key,
                value=record.value,
                headers=record.headers,
                partition=record.partition,
            )
        self._producer.flush(1_000)
        self._written = len(self.scribe.records)

    def project(self) -> None:
        """Writes it, and brings it into the views."""
        self.write()
        wanted = {
            place: end
            for place, (_, end) in self.log.ends(
                [Place(self.settings.topics.events, n) for n in range(PARTITIONS)],
                Isolation.COMMITTED,
            ).items()
        }
        finish(
            self._steps,
            lambda: all(self._projector.positions.get(p, 0) >= end for p, end in wanted.items()),
        )

    def get(self, path: str, *, tenant: str = MINE, role: str = "viewer", **more: Any) -> Any:
        """The answer to a query; a problem is one in form, too."""
        answer = self.client.get(
            path if path.startswith("/") else f"/v1/{path}",
            headers={
                "authorization": f"Bearer {self.key(tenant, role)}",
                **more.pop("headers", {}),
            },
            **more,
        )
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == PROBLEM, answer.text
            assert answer.json()["status"] == answer.status_code
        return answer

    def rows(self, path: str, **asked: Any) -> list[dict[str, Any]]:
        """All rows of a list, page by page."""
        found: list[dict[str, Any]] = []
        params = dict(asked.pop("params", {}))
        while True:
            answer = self.get(path, params=params, **asked)
            assert answer.status_code == 200, answer.text
            told = answer.json()
            found += told["rows"]
            if told["next_cursor"] is None:
                return found
            params["cursor"] = told["next_cursor"]

    def key(self, tenant: str, role: str) -> str:
        """An API key."""
        if (tenant, role) not in self._bearers:
            text, kept = new_key(tenant, f"{role}-of-{tenant}", (role,))
            with changing(self._keys) as keys:
                keys.append(kept)
            self._bearers[tenant, role] = text
        return self._bearers[tenant, role]

    def fill(self) -> None:
        """Stories of three tenants, and one of two that have everything, under the same names."""
        self.scribe.tell_many(24, random.Random(5))
        for tenant in (MINE, THEIRS):
            self._tell_all(tenant)
        self.project()

    def _tell_all(self, tenant: str) -> None:
        scribe, key, secret = self.scribe, (tenant, "same-name"), secrets_of(tenant)
        scribe.add(key, r.SessionOpened("desk"), actor=f"{secret}-ann")
        scribe.add(key, r.MessageReceived("m1", scribe.payload({"text": secret})))
        versions = (r.Version("workflow", "1"),)
        scribe.add(key, r.TurnStarted(1, "message", "", "m1", "desk", 1, versions))
        scribe.request(key, "1.1", untrusted=True)
        failure = r.Failure("raised", "ValueError", f"=HYPERLINK({secret})", "")
        scribe.add(key, r.ActivityFailed("1.1", 1, failure, f"={secret}"), actor="worker")
        scribe.add(key, r.CommandRefused("SendMessage", "ordering", "too_old", secret))
        asked = r.ApprovalRequested(
            "1.2-same", 1, 2, "refund", "write", scribe.payload({"note": secret}), b"\1" * 32,
            "supervisor", scribe.now_ms + 60_000,
        )  # fmt: skip
        scribe.add(key, asked)
        owed = (r.Obligation("approval", "1.2-same", "refund", scribe.now_ms + 60_000, "expires"),)
        may = (
            r.NextValid("DecideApproval", True, ""),
            r.NextValid("ReleaseSession", False, "it is not held"),
        )
        scribe.add(key, r.SessionWaiting(1, owed, may))

    def close(self) -> None:
        """Frees what it has open, and drops the views."""
        self.client.close()
        self._loop.__exit__(None, None, None)
        self.services.close()
        self._views.close()
        drop(self.url, self.namespace)
