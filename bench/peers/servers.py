"""What a peer needs besides its worker, and how its driver reaches it: it stays up through all rounds."""

import os
import secrets
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import until
from bench.peers.install import Missing, Peer
from bench.rig import Bed
from wakeful.deploy.stack.processes import (
    LOOPBACK,
    Proc,
    is_alive,
    pick_port,
    plain_environment,
    spawn,
    stop,
    tail,
)
from wakeful.projections import probe

READY_LIMIT_S = 120.0
END_LIMIT_S = 20.0

OFFLINE = 'mount --bind /dev/null /etc/resolv.conf; exec "$@"'
"""In a mount namespace of its own: the server asks for newer versions at its start, and finds nobody to ask."""


@dataclass(frozen=True, slots=True)
class Served:
    """The servers' pids by part, the arguments of the peer's worker, and what its driver's side takes."""

    parts: Mapping[str, Sequence[int]]
    worker: Sequence[str]
    given: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def served(peer: Peer, bed: Bed) -> Iterator[Served]:
    """Runs what the peer needs until it is left."""
    match peer.name:
        case "dbos":
            with _database(bed) as url:
                postgres = bed.servers.get("postgres", [])
                yield Served({"postgres": postgres}, [url], {"url": url})
        case "restate":
            with _restate_server(peer, bed) as found:
                yield found
        case _:
            raise ValueError(f"no peer {peer.name!r}: there are dbos and restate")


@contextmanager
def _database(bed: Bed) -> Iterator[str]:
    """A database of its own on the stack's server, whose durability is Postgres's default: fsync at each commit."""
    name = f"bench_dbos_{secrets.token_hex(4)}"
    url = probe.create_database(bed.postgres, name)
    try:
        yield url.replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        probe.drop_database(bed.postgres, name)


@contextmanager
def _restate_server(peer: Peer, bed: Bed) -> Iterator[Served]:
    ports = {name: pick_port(name, None) for name in ("ingress", "admin", "fabric", "service")}
    urls = {name: f"http://{LOOPBACK}:{port}" for name, port in ports.items()}
    home = bed.home / "restate"
    home.mkdir(exist_ok=True)
    log = home / "server.log"
    environ = {
        **plain_environment(),
        "RESTATE_NODE_NAME": "bench",
        "RESTATE_BASE_DIR": str(home),
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_IP": LOOPBACK,
        "RESTATE_BIND_PORT": str(ports["fabric"]),
        "RESTATE_INGRESS__BIND_PORT": str(ports["ingress"]),
        "RESTATE_ADMIN__BIND_PORT": str(ports["admin"]),
        "RESTATE_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "RESTATE_LOG_FILTER": "warn",
    }
    server = spawn([*_offline(), str(peer.server)], log=log, cwd=home, environ=environ)
    try:
        _wait_ready(server, [f"{urls['admin']}/health", f"{urls['ingress']}/restate/health"], log)
        given = {name: urls[name] for name in ("ingress", "admin", "service")}
        yield Served({"server": [server.pid]}, [str(ports["service"])], given)
    finally:
        stop(server, signal.SIGTERM, END_LIMIT_S)


def _wait_ready(server: Proc, addresses: Sequence[str], log: Path) -> None:
    """Returns once all of them answer; raises `Missing` where the server has ended, or takes too long."""
    try:
        until(
            lambda: not is_alive(server) or all(map(_answers, addresses)),
            "restate-server answers",
            limit_s=READY_LIMIT_S,
            look_s=0.1,
        )
    except TimeoutError as late:
        raise Missing(f"{late}; the end of its log is\n{tail(log)}") from late
    if not is_alive(server):
        raise Missing(f"restate-server ended at its start; the end of its log is\n{tail(log)}")


def _offline() -> list[str]:
    """What keeps a server on this machine, where we may: it takes root and `unshare`."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        return []
    return [unshare, "-m", "sh", "-c", OFFLINE, "sh"]


def _answers(url: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False
