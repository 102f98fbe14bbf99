"""A gateway in a process of its own, and clients of its streams."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from wakeful.commands.client import Client as Commands
from wakeful.deploy.cli.context import kafka
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.gateway.api_keys import changing, new_key
from wakeful.deploy.identity import identity_of
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.supervisor import Supervisor

from .running import serving

APP = str(Path(__file__).parents[1] / "live_app.py")
SECRET = "c4nary-s3cret-0123456789"

TIMEOUT_S = 60.0
"""Machines may be busy."""


def until(true, what) -> None:
    """Waits for it; `what` says, or is a function that says, what was waited for."""
    limit = time.monotonic() + TIMEOUT_S
    while not true():
        shown = what() if callable(what) else what
        assert time.monotonic() < limit, f"waited {TIMEOUT_S:.0f} s for {shown}"
        time.sleep(0.01)


@dataclass(frozen=True)
class Frame:
    """One event of a stream."""

    kind: str
    id: str | None
    data: dict


class Gateway:
    """`wakeful serve`, on a port that it keeps over restarts."""

    def __init__(self, settings: Settings, **environ: str) -> None:
        self.settings = settings
        self.url = ""
        self._port = 0
        self._environ = environ
        self._process: subprocess.Popen | None = None

    def key(self, *roles: str, tenant: str = "acme", actor: str = "ann") -> str:
        """An API key."""
        return self.keep(tenant, actor, roles)[0]

    def keep(self, tenant: str, actor: str, roles: tuple[str, ...]):
        text, kept = new_key(tenant, actor, roles)
        self.settings.home.mkdir(parents=True, exist_ok=True)
        with changing(self.settings.home / "api_keys.json") as keys:
            keys.append(kept)
        return text, kept

    def start(self) -> None:
        environ = {**os.environ, **self.settings.to_environ(), **self._environ}
        environ["WAKEFUL_HTTP_PORT"] = str(self._port)
        path = self.settings.home / "gateway.log"
        path.touch()
        before = path.stat().st_size
        with path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wakeful", "serve"],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def listening() -> bool:
            text = path.read_bytes()[before:].decode()
            assert self._process.poll() is None, text
            found = re.search(r"listening on (http://[^;\s]+)", text)
            if found:
                self.url = found[1]
            return found is not None

        until(listening, "the gateway to listen")
        self._port = urlsplit(self.url).port

    @property
    def pid(self) -> int:
        """Of the process that serves."""
        return serving(self._process.pid)

    def is_up(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process that serves, and first the one that would start it again."""
        pid = self.pid
        self._process.kill()
        with suppress(ProcessLookupError):  # it ends by itself then
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> float:
        """How many seconds it took to end, in good order."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(TIMEOUT_S)
        return time.monotonic() - began

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def get(self, path: str, key: str | None, **headers: str):
        """Status and JSON of an answer that ends."""
        connection = self.connection()
        connection.request("GET", path, headers=with_key(key, headers))
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, json.loads(body), dict(answer.getheaders())

    def is_watched(self) -> bool:
        """Whether somebody is connected."""
        return self.connections() > 0

    def connections(self) -> int:
        """How many the gateway has not closed."""
        port, closed = f":{self._port:04X}", {"06", "0A"}  # TIME_WAIT, LISTEN
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(at[1].endswith(port) and at[3] not in closed for at in lines)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=TIMEOUT_S)


def with_key(key: str | None, headers: dict[str, str]) -> dict[str, str]:
    return {**headers, **({"Authorization": f"Bearer {key}"} if key else {})}


class Client:
    """Reads one stream, and comes back with the last id when it breaks, as a browser does."""

    def __init__(
        self, gateway: Gateway, path: str, key: str, *, last_id: str | None = None
    ) -> None:
        self.gateway, self.path, self.key = gateway, path, key
        self.last_id = last_id
        self.frames: list[Frame] = []
        self.comments = 0
        self.connects = 0
        self.error: BaseException | None = None
        self.closed = False
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self.closed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(TIMEOUT_S)

    def kinds(self) -> list[str]:
        return [one.kind for one in self.frames]

    def seqs(self) -> list[int]:
        return [int(one.id) for one in self.frames if one.id is not None]

    def has(self, kind: str, count: int = 1) -> bool:
        assert self.error is None, self.error
        return self.kinds().count(kind) >= count

    def until(self, kind: str, count: int = 1) -> "Client":
        """Waits until it has so many events of a type."""
        until(
            lambda: self.has(kind, count),
            lambda: f"{count} {kind} of {self.path}, which has {self.kinds()}",
        )
        return self

    def _read(self) -> None:
        while not self.closed:
            try:
                self._connect()
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
            except BaseException as error:
                self.error = error
                return
            if self.frames and self.frames[-1].kind in ("end", "problem"):
                return

    def _connect(self) -> None:
        connection = self.gateway.connection()
        headers = {} if self.last_id is None else {"Last-Event-ID": self.last_id}
        with closing(connection):
            connection.request("GET", self.path, headers=with_key(self.key, headers))
            self._socket = connection.sock
            with connection.getresponse() as answer:
                if answer.status == 503:
                    time.sleep(0.1)
                    return
                if answer.status != 200:
                    raise AssertionError(answer.read().decode())
                assert answer.headers["content-type"].startswith("text/event-stream")
                self.connects += 1
                self._hear(answer)

    def _hear(self, answer: http.client.HTTPResponse) -> None:
        kind, id_, data = "", None, ""
        for raw in answer:
            line = raw.decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if line == "":
                if id_ is not None:
                    self.last_id = id_
                if kind:
                    self.frames.append(Frame(kind, id_, json.loads(data)))
                kind, id_, data = "", None, ""
            elif name == "event":
                kind = value
            elif name == "id":
                id_ = value
            elif name == "data":
                data += value
            elif line.startswith(":"):
                self.comments += 1


@contextmanager
def live_rig(endpoints, postgres_url, keys, home):
    """Settings, a supervisor over the app, and a client that speaks for ann of tenant acme."""
    (home / "secret").write_text(SECRET)
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"{home.name}n{os.getpid()}",
        tenant="acme",
        home=home / "run",
        open_policy=True,
        keys=keys,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, ["default"])
        prepare_views(settings)
        environ = {**os.environ, "LIVE": str(home)}
        identity = identity_of(settings, log, role="gateway")
        with Supervisor(
            settings, APP, queues=["default"], environ=environ, spares_max=0
        ) as supervisor:
            yield Rig(settings, supervisor, log, identity, home)


class Rig:
    def __init__(self, settings, supervisor, log, identity, home):
        self.settings, self.supervisor, self._home = settings, supervisor, home
        self._log, self._identity = log, identity

    def commands(self, tenant="acme"):
        return Commands(
            self._log,
            self.settings.topics,
            tenant=tenant,
            actor="ann",
            channel="test",
            digest_key=self.settings.digest_key,
            identity=self._identity,
            now_ms=SystemClock().now_ms,
        )

    def open(self, *sessions, tenant="acme"):
        """Opens sessions, and waits until the views have them."""
        with self.commands(tenant) as client:
            for one in sessions:
                client.open("says", one)
        with psycopg.connect(self.settings.postgres_url, autocommit=True) as asked:
            until(
                lambda: (
                    asked.execute(
                        f"SELECT count(*) FROM {self.settings.namespace}.sessions "
                        "WHERE tenant = %s AND session_id = ANY(%s)",
                        (tenant, list(sessions)),
                    ).fetchone()
                    == (len(sessions),)
                ),
                "the sessions in the views",
            )

    def say(
        self,
        session,
        mood="ok",
        words=("We ", "will ", "see."),
        pause_ms=0,
        tenant="acme",
        waits=False,
    ):
        with self.commands(tenant) as client:
            told = {"session": session, "mood": mood, "words": list(words), "pause_ms": pause_ms}
            client.send(session, told | {"waits": waits})

    def heard(self, session, client, text, attempt="kept"):
        """Waits until a client has been shown all of an attempt's text, then lets the attempt end."""

        def shown():
            at = 1 + max(
                (n for n, one in enumerate(client.frames) if one.kind == "token-reset"), default=-1
            )
            return "".join(one.data["text"] for one in client.frames[at:] if one.kind == "token")

        until(lambda: shown() == text, lambda: f"the text {text!r}, not {shown()!r}")
        self.let_go(session, attempt)

    def let_go(self, session, attempt="kept"):
        """Lets an attempt that waits end."""
        (self._home / f"{session}-{attempt}").touch()
