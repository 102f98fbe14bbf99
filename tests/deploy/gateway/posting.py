"""A gateway over a whole small cluster in memory, whose processors take steps while somebody waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from starlette.testclient import TestClient
from tests.processors.desk import KEY
from tests.processors.loops import Cluster

from wakeful.commands.wire import decode_command
from wakeful.deploy.gateway.api_keys import ApiKeys, changing, new_key
from wakeful.deploy.gateway.app import create_app
from wakeful.deploy.gateway.authentication import Authenticator
from wakeful.deploy.gateway.hooks import Hooks
from wakeful.deploy.gateway.oidc import Oidc
from wakeful.deploy.gateway.oidc_sign_in import SignIns
from wakeful.deploy.gateway.services import Services
from wakeful.deploy.settings import Settings
from wakeful.events.codec import decode_event
from wakeful.events.log.protocol import Isolation, Place
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2"
"""A database that does not answer: commands do not need one."""

PROBLEM = "application/problem+json"


class Gateway:
    """The application, and the world behind it. With a database's URL it has views, and a projector that keeps them."""

    def __init__(
        self,
        folder: Path,
        *,
        url: str | None = None,
        oidc: Oidc | None = None,
        sign_ins: SignIns | None = None,
        hooks: Path | None = None,
        behind_max_s: float = 60.0,
        body_max: int = 1024 * 1024,
    ) -> None:
        self.cluster = Cluster(partitions=2)
        self.cluster.start()
        self.working = True
        self._api_keys = folder / "api_keys.json"
        self._views: PostgresViews | None = None
        self._projector = None if url is None else self._projecting(url)
        self.settings = Settings(
            kafka="memory:9092",
            postgres=url or NOWHERE,
            namespace=self.cluster.topics.namespace,
            digest_key=KEY,
        )
        self.services = Services(
            self.settings,
            Stepping(self),  # type: ignore[arg-type]  # the log, with steps in between
            authenticator=Authenticator(
                ApiKeys(self._api_keys), self.cluster.clock.now_ms, oidc=oidc
            ),
            identity=self.cluster.identity,
            clock=self.cluster.clock,  # type: ignore[arg-type]  # it has what is asked of it
            hooks=Hooks(hooks),
            sign_ins=sign_ins,
            committed=self._committed,
            behind_max_s=behind_max_s,
            body_max=body_max,
        )
        self.client = TestClient(
            create_app(self.services), base_url="http://127.0.0.1", raise_server_exceptions=False
        )
        self._loop = start_blocking_portal(**self.client.async_backend)
        self.client.portal = (
            self._loop.__enter__()
        )  # else each request has a thread and a loop of its own
        self.user = self.key("user")

    def key(self, *roles: str, tenant: str = "acme", actor: str = "ann", **more: Any) -> str:
        """A fresh API key."""
        text, kept = new_key(tenant, actor, roles, **more)
        with changing(self._api_keys) as keys:
            keys.append(kept)
        return text

    def post(self, path: str, body: Any, *, key: str | None = None, **headers: str) -> Any:
        """A command; headers with underscores for dashes."""
        return self.client.post(f"/v1{path}", json=body, headers=self.headers(key, **headers))

    def get(self, path: str, *, key: str | None = None, **headers: str) -> Any:
        """A query."""
        where = path if path.startswith("/v1") else f"/v1{path}"
        return self.client.get(where, headers=self.headers(key, **headers))

    def headers(self, key: str | None = None, **headers: str) -> dict[str, str]:
        """Those of a request."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        return {"authorization": f"Bearer {key or self.user}", **told}

    def open(self, session_id: str = "s1", workflow: str = "desk", **headers: str) -> None:
        """A session that is there."""
        said = {"workflow": workflow, "session_id": session_id}
        answer = self.post("/sessions", said, Prefer="wait=5", **headers)
        assert (answer.status_code, answer.json()["state"]) == (200, "applied"), answer.text

    def asked_of(self, session_id: str) -> int:
        """Commands to this session that came in here, and that the log has."""
        records = self.cluster.log.dump(self.cluster.topics.commands)
        headers = [decode_command(x.value, x.headers).header for x in records]
        return sum((h.session_id, h.channel) == (session_id, "http") for h in headers)

    def fate(self, accepted: Any, *, key: str | None = None) -> dict[str, Any]:
        """What became of a command that was answered with 202."""
        assert accepted.status_code == 202, accepted.text
        answer = self.get(accepted.json()["status_url"], key=key)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def run(self, steps: int = 40) -> None:
        """Lets processors and the projector work."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """A step of each, unless they are stopped."""
        if not self.working:
            return
        self.working = False  # what looks on in here must not step again
        try:
            self.cluster.run(1)
            if self._projector is not None:
                next(self._projector)
            self.services.backlog.look()
        finally:
            self.working = True

    def close(self) -> None:
        """Frees what it has open."""
        self.client.close()
        self._loop.__exit__(None, None, None)
        self.services.close()
        if self._views is not None:
            self._views.close()

    def _committed(self, places: Sequence[Place]) -> Mapping[Place, int]:
        found = self.cluster.log.group_offsets(f"{self.cluster.topics.namespace}.processors")
        return {place: found[place] for place in places if place in found}

    def _projecting(self, url: str) -> Any:
        topics, log = self.cluster.topics, self.cluster.log
        places = [Place(topics.events, n) for n in range(log.partitions(topics.events))]
        views = self._views = PostgresViews(url, topics.namespace)
        return Projector(
            log.reader(Isolation.COMMITTED),
            views,
            places,
            lambda r: decode_event(r.value, r.headers),
        ).steps()


class Stepping:
    """The log of the cluster; whoever reads from it lets the cluster work meanwhile."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._log = gateway.cluster.log

    def reader(self, isolation: Isolation = Isolation.COMMITTED, **_: Any) -> Any:
        """A reader that does so."""
        return _Reader(self._gateway, self._log.reader(isolation))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class _Reader:
    def __init__(self, gateway: Gateway, reader: Any) -> None:
        self._gateway, self._reader = gateway, reader

    def poll(self, records_max: int, timeout_ms: int) -> Any:
        with suppress(AttributeError):  # before the services are made
            self._gateway.step()
        return self._reader.poll(records_max, timeout_ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def problem(answer: Any, status: int, reason: str) -> str:
    """The detail of an answer that must be this problem."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == PROBLEM, answer.headers
    told = answer.json()
    assert told["type"] == f"urn:wakeful:problem:{reason}", told
    assert told["status"] == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    return str(told["detail"])
