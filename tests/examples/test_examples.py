"""The examples: what they may import, and that they run."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import load_settings
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.log.kafka import KafkaLog
from wakeful.processors.app import load_app

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = {
    "plain_kafka.py": 60,
    "hello.py": 25,
    "refund_desk.py": 50,
    "contracts.py": 80,
    "contracts_tour.py": 200,
}
LIMIT_S = 60.0


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_every_example_is_short() -> None:
    lengths = {
        p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in EXAMPLES.glob("*.py")
    }
    assert {name for name, lines in lengths.items() if lines > LINES_MAX.get(name, 0)} == set()


def test_the_plain_example_needs_kafka_and_avro_alone() -> None:
    others = imported(EXAMPLES / "plain_kafka.py") - sys.stdlib_module_names
    assert others == {"confluent_kafka", "fastavro"}


@pytest.mark.parametrize("name", ["hello.py", "refund_desk.py"])
def test_agents_need_the_front_door_alone(name: str) -> None:
    assert imported(EXAMPLES / name) == {"wakeful", "pydantic"}


@pytest.mark.slow
def test_hello_answers_and_remembers(endpoints, postgres_url, namespace, tmp_path) -> None:
    environ = {
        **os.environ,
        "WAKEFUL_HOME": str(tmp_path),
        "WAKEFUL_KAFKA": endpoints.kafka,
        "WAKEFUL_POSTGRES": postgres_url,
        "WAKEFUL_REDIS": endpoints.redis,
        "WAKEFUL_NAMESPACE": namespace,
    }
    settings, target = load_settings(environ), str(EXAMPLES / "hello.py")
    queues = load_app(target).queues
    with KafkaLog(endpoints.kafka, client_id=namespace) as log:
        apply_topics(log, settings, queues)
    prepare_views(settings)
    with Supervisor(settings, target, queues=queues, environ=environ):
        wakeful(environ, "session", "open", "hello", "--session", "one")
        said = [
            wakeful(environ, "session", "send", "one", text, "--wait") for text in ("hi", "you")
        ]
    assert "you said: hi (question 1)" in said[0]
    assert "you said: you (question 2)" in said[1]


def wakeful(environ: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "wakeful", *arguments],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
