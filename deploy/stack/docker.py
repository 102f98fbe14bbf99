"""The three services in containers, through testcontainers; used only where an engine answers.

The containers outlive the command that made them, like our processes do: the reaper that
testcontainers would run beside them is off, and the state file remembers their ids.
"""

import os
import socket
from dataclasses import dataclass, field, replace
from functools import partial
from signal import Signals
from typing import Any

from ...events.log import probe as kafka_probe
from ...projections import probe as postgres_probe
from . import processes
from .errors import StackError
from .native_kafka import COMMON, check_cluster
from .native_valkey import ping
from .processes import LOOPBACK
from .provider import READY_LIMIT_S, Place
from .records import Record
from .waiting import EndedError, NotReadyYetError, wait_ready

ENGINE_LIMIT_S = 3
STOP_LIMIT_S = 20
IMAGES = {
    "kafka": "apache/kafka:4.3.1",
    "postgres": "postgres:18",
    "redis": "valkey/valkey:9",
}
INSIDE = {"kafka": 9092, "postgres": 5432, "redis": 6379}


def engine_answers() -> bool:
    """Tell whether there is a Docker engine to use."""
    if not _somebody_listens():
        return False
    try:
        _client().ping()
    except Exception:  # the client raises its own, requests' and urllib3's errors, at any stage
        return False
    return True


def _somebody_listens() -> bool:
    """Ask the engine's Unix socket first: the client would leave one open at each refusal."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not host.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(host.removeprefix("unix://"))
        except OSError:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Docker:
    """One service in a container whose port is bound to loopback."""

    service: str
    password: str = field(default="wakeful", repr=False)
    name: str = "docker"

    def start(self, place: Place, before: Record | None) -> Record:
        """Start the container, the one it was before where there is one; return when it is ready."""
        record = self._again(before) if before else None
        record = record or self._make(place)
        place.remember(record)
        try:
            wait_ready(
                partial(self._prove, place, record),
                is_alive=partial(self.is_alive, record),
                explain=partial(_log_tail, record),
                service=self.service,
                limit_s=READY_LIMIT_S,
            )
        except EndedError as ended:
            raise StackError(str(ended)) from ended
        return record

    def is_alive(self, record: Record) -> bool:
        """Tell whether the container runs."""
        container = _find(record)
        return container is not None and container.status == "running"

    def signal(self, record: Record, number: int) -> bool:
        """Signal the first process of the container."""
        container = _find(record)
        if container is None or container.status != "running":
            return False
        container.kill(signal=Signals(number).name)
        return True

    def stop(self, record: Record) -> None:
        """Stop the container; it keeps its data."""
        container = _find(record)
        if container is not None:
            container.stop(timeout=STOP_LIMIT_S)

    def remove(self, record: Record) -> None:
        """Remove the container and what it stored."""
        container = _find(record)
        if container is not None:
            container.remove(v=True, force=True)

    def _again(self, before: Record) -> Record | None:
        container = _find(before)
        if container is None:
            return None
        container.start()
        return before

    def _make(self, place: Place) -> Record:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        testcontainers_config.ryuk_disabled = True
        port = processes.pick_port(self.service, place.port_wanted(self.service))
        container = DockerContainer(IMAGES[self.service])
        container.with_kwargs(ports={f"{INSIDE[self.service]}/tcp": (LOOPBACK, port)})
        for name, value in self._environment(place, port).items():
            container.with_env(name, value)
        try:
            container.start()
        except Exception as refused:  # see engine_answers
            raise StackError(
                f"docker cannot start {IMAGES[self.service]} ({refused}): pull the image, or set "
                "WAKEFUL_STACK=native to run processes instead"
            ) from refused
        record = Record(
            service=self.service,
            provider=self.name,
            address=self._address(port),
            port=port,
            container=str(container.get_wrapped_container().id),
        )
        return replace(record, cluster_id=place.cluster_id) if self.service == "kafka" else record

    def _address(self, port: int) -> str:
        match self.service:
            case "kafka":
                return f"{LOOPBACK}:{port}"
            case "postgres":
                return f"postgresql://wakeful:{self.password}@{LOOPBACK}:{port}/wakeful"
            case _:
                return f"redis://{LOOPBACK}:{port}/0"

    def _environment(self, place: Place, port: int) -> dict[str, str]:
        match self.service:
            case "kafka":
                return _kafka_environment(place, port)
            case "postgres":
                names = ("POSTGRES_USER", "POSTGRES_DB")
                return dict.fromkeys(names, "wakeful") | {"POSTGRES_PASSWORD": self.password}
            case _:
                return {}

    def _prove(self, place: Place, record: Record, limit_s: float) -> None:
        try:
            match self.service:
                case "kafka":
                    answer = kafka_probe.cluster_id(record.address, limit_s=limit_s)
                    check_cluster(record.address, answer, place.cluster_id)
                    kafka_probe.prove_ready(record.address, limit_s=READY_LIMIT_S / 2)
                case "postgres":
                    postgres_probe.prove_ready(record.address, limit_s=limit_s)
                case _:
                    ping(record.address, limit_s)
        except (kafka_probe.NotReadyError, postgres_probe.NotReadyError) as waiting:
            raise NotReadyYetError(str(waiting)) from waiting


def _kafka_environment(place: Place, port: int) -> dict[str, str]:
    settings = COMMON | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    named = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in settings.items()}
    return {**named, "CLUSTER_ID": place.cluster_id}


def _client() -> Any:
    import docker

    return docker.from_env(timeout=ENGINE_LIMIT_S)


def _find(record: Record) -> Any | None:
    import docker

    try:
        return docker.from_env().containers.get(record.container)
    except docker.errors.NotFound:
        return None
    except docker.errors.DockerException as refused:
        raise StackError(
            f"{record.service} was started in Docker, whose engine does not answer ({refused}): "
            "start the engine, or remove the stack's folder"
        ) from refused


def _log_tail(record: Record) -> str:
    container = _find(record)
    if container is None:
        return "(the container is gone)"
    return str(container.logs(tail=processes.LOG_TAIL_LINES).decode("utf-8", errors="replace"))
