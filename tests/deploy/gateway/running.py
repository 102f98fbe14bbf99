"""The whole thing on a real stack: the refund desk under its supervisor, and gateways as processes of their own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx

from wakeful.deploy.cli.context import kafka
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor

QUEUES = ["default", "payments"]
APP = str(Path(__file__).parents[1] / "desk_app.py")
LIMIT_S = 30.0


@dataclass
class Running:
    """The settings of a running desk; and its gateways."""

    settings: Settings
    more: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        """What each process of it is told."""
        return {**os.environ, **self.settings.to_environ(), "WAKEFUL_HTTP_PORT": "0", **self.more}

    def wakeful(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "wakeful", *words],
            env={**self.environ, **more},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    @property
    def told(self) -> Path:
        """What the gateways wrote for people: a file, since nobody reads a pipe while they run."""
        return self.settings.home / "gateways.log"

    @contextmanager
    def gateway(self, **more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        """A gateway's address, and its process; it ends in order."""
        with self.told.open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "wakeful", "serve", "--json"],
                env={**self.environ, **more},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert process.stdout
        try:
            line = process.stdout.readline()
            if not line:
                raise AssertionError(self.told.read_text())
            yield json.loads(line)["url"], process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=LIMIT_S)
            process.stdout.close()

    def key(self, *roles: str, **options: str) -> str:
        """A fresh API key; the command runs in this process."""
        words = [word for role in roles for word in ("--role", role)]
        words += [word for name, value in options.items() for word in (f"--{name}", value)]
        with mock.patch.dict(os.environ, self.environ), redirect_stdout(io.StringIO()) as told:
            assert invoke(("apikeys", "new", *words)) == Exit.DONE
        return told.getvalue().strip()


@contextmanager
def running(
    endpoints: Endpoints,
    postgres_url: str,
    keys: Path,
    home: Path,
    namespace: str,
    app: str = APP,
) -> Iterator[Running]:
    """A refund desk that runs, or another app."""
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=namespace,
        tenant="acme",
        actor="ann",
        home=home,
        open_policy=True,
        keys=keys,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, QUEUES)
    prepare_views(settings)
    with Supervisor(settings, app, queues=QUEUES, spares_max=0):
        yield Running(settings)


def serving(pid: int) -> int:
    """The process that does the work of this `wakeful serve`."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def ask(url: str, path: str, key: str, body: Any = None, **headers: str) -> httpx.Response:
    """One request; a command where there is a body."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    told["Authorization"] = f"Bearer {key}"
    method = "GET" if body is None else "POST"
    # Without `verify`, which is for https, each request would read the certificates of all authorities.
    return httpx.request(method, url + path, json=body, headers=told, timeout=LIMIT_S, verify=False)
