"""A desk that runs for the console's tests: processors, workers, projector and gateway as processes, and who speaks to them."""

import html
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from wakeful.commands.client import Client
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.gateway.api_keys import changing, new_key
from wakeful.deploy.identity import identity_of
from wakeful.deploy.settings import Settings
from wakeful.events.log.protocol import Log
from wakeful.projections.queries import Queries

APP = str(Path(__file__).with_name("desk_app.py"))
LIMIT_S = 30.0


@dataclass
class Running:
    """Where it is, and how to ask it for something without the console."""

    settings: Settings
    log: Log
    url: str
    link: str
    keys: dict[str, str] = field(default_factory=dict)
    visitors: list["Visitor"] = field(default_factory=list)

    def key(self, actor: str, *roles: str, tenant: str | None = None) -> str:
        """An API key of this actor; the same each time."""
        name = f"{tenant}/{actor}/{roles}"
        if name not in self.keys:
            text, kept = new_key(tenant or self.settings.tenant, actor, roles)
            with changing(self.settings.home / "api_keys.json") as keys:
                keys.append(kept)
            self.keys[name] = text
        return self.keys[name]

    def client(self, actor: str) -> Client:
        """Speaks for this actor, past the gateway."""
        return Client(
            self.log,
            self.settings.topics,
            tenant=self.settings.tenant,
            actor=actor,
            channel="test",
            digest_key=self.settings.digest_key,
            identity=identity_of(self.settings, self.log),
            now_ms=SystemClock().now_ms,
        )

    def ask(self, workflow: str, session_id: str, text: Any, actor: str = "maria") -> None:
        """Opens a session, and sends it a message."""
        with self.client(actor) as client:
            client.open(workflow, session_id)
            client.send(session_id, text)

    def until(self, look: Callable[[Queries], Any], what: str) -> Any:
        """What the views say once they say something."""
        limit = time.monotonic() + LIMIT_S
        with Queries(
            self.settings.postgres_url, self.settings.namespace, tenant=self.settings.tenant
        ) as views:
            while not (found := look(views)):
                assert time.monotonic() < limit, f"waited {LIMIT_S:.0f} s for {what}"
                time.sleep(0.05)
            return found

    def approval(self, session_id: str) -> dict[str, Any]:
        """The open approval of this session."""
        return self.until(
            lambda views: views.approvals(session_id=session_id), f"an approval of {session_id}"
        )[0]

    def wants_approval(self, session_id: str, text: str = "it came broken") -> dict[str, Any]:
        """A new session of the refund desk that waits for one; the approval."""
        self.ask("refund-desk", session_id, {"text": text})
        return self.approval(session_id)

    def visitor(self, actor: str, *roles: str, tenant: str | None = None) -> "Visitor":
        """Somebody signed in to the console, without a browser."""
        self.visitors.append(Visitor(self.url, self.key(actor, *roles, tenant=tenant)))
        return self.visitors[-1]


class Visitor:
    """Sends forms as a browser would, without scripts."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=30.0)
        entered = self.http.post("/console/sign-in", data={"api_key": key})
        assert entered.status_code == 303, entered.text

    def get(self, path: str) -> httpx.Response:
        return self.http.get(f"/console/{path}")

    def token(self, path: str) -> dict[str, str]:
        """The words of the last form of a page, which every form must have."""
        page = self.get(path).text
        found = {
            name: re.findall(rf'name="{name}" value="([^"]+)"', page)
            for name in ("form_token", "once")
        }
        return {name: words[-1] if words else "none" for name, words in found.items()}

    def shown(self, path: str) -> str:
        """What an approval's page says that it has shown."""
        return html.unescape(
            re.findall(r'name="was_shown" value="([^"]+)"', self.get(path).text)[0]
        )

    def post(self, path: str, form_of: str, **fields: str) -> httpx.Response:
        """A form of a page, filled in."""
        return self.http.post(f"/console/{path}", data={**self.token(form_of), **fields})


@contextmanager
def served(settings: Settings, log: Log, **more: str) -> Iterator[Running]:
    """The gateway as a process, with `more` in its environment; its standard error is in the home."""
    told = settings.home / f"serve-{len(more)}.log"
    environ = {**os.environ, **settings.to_environ(), "WAKEFUL_HTTP_PORT": "0", **more}
    with told.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "wakeful", "serve", "--console-link"], env=environ, stderr=out
        )
    try:
        limit = time.monotonic() + LIMIT_S
        while "/console/enter/" not in told.read_text():
            assert process.poll() is None, told.read_text()
            assert time.monotonic() < limit, told.read_text()
            time.sleep(0.05)
        url, link = (
            re.search(pattern, told.read_text())[1]
            for pattern in (r"listening on (http://[^;]+);", r"(http://\S+/console/enter/\S+)")
        )
        running = Running(settings, log, url, link)
        yield running
        for visitor in running.visitors:
            visitor.http.close()
    finally:
        process.terminate()
        process.wait(15)
