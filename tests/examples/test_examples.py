"""The examples: what they may import, and that they run."""

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import load_settings
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.log.kafka import KafkaLog
from wakeful.processors.app import load_app
from wakeful.testing import rehearse

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = {
    "plain_kafka.py": 64,
    "hello.py": 25,
    "agent.py": 25,
    "pydantic_agent.py": 45,
    "mcp_desk.py": 30,
    "mcp_server.py": 35,
    "refund_desk/__init__.py": 10,
    "refund_desk/desk.py": 160,
    "refund_desk/shop.py": 70,
    "contracts.py": 80,
    "contracts_tour.py": 200,
    "saga.py": 65,
    "fanout.py": 65,
    "sandbox.py": 145,
    "approvals.py": 75,
    "approvals_stage.py": 225,
    "approvals_tour.py": 290,
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
        str(p.relative_to(EXAMPLES)): len(p.read_text(encoding="utf-8").splitlines())
        for p in EXAMPLES.rglob("*.py")
    }
    assert {name for name, lines in lengths.items() if lines > LINES_MAX.get(name, 0)} == set()


def test_the_plain_example_needs_kafka_and_avro_alone() -> None:
    others = imported(EXAMPLES / "plain_kafka.py") - sys.stdlib_module_names
    assert others == {"confluent_kafka", "fastavro"}


def test_hello_needs_the_front_door_alone() -> None:
    assert imported(EXAMPLES / "hello.py") == {"wakeful"}


def test_the_saga_takes_back_what_was_booked_and_leaves_what_was_paid() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "saga.py")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    back = [
        "  room in Rome taken back (rehearsal/session-1/1/2)",
        "  flight to Rome taken back (rehearsal/session-1/1/1)",
    ]
    assert done.stdout.splitlines() == [
        *("paid", "  Suspended, in the end"),
        *("no cover", *back, "  Failed, in the end"),
        *("called off", *back, "  Cancelled, in the end"),
    ]


def test_the_magazine_is_written_by_children_of_children() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "fanout.py")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout.splitlines() == ["whales (2100 words), seals (2100 words)"]


def test_the_sandbox_is_killed_and_its_variables_are_there_in_the_next() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "sandbox.py")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout.splitlines() == ["(attached)", "21", "(reattached)", "42", "Cancelled"]


def test_the_shop_of_the_refund_desk_knows_nothing_of_wakeful() -> None:
    assert "wakeful" not in imported(EXAMPLES / "refund_desk" / "shop.py")


@pytest.mark.slow
def test_the_plain_example_says_what_to_start_where_nothing_answers(tmp_path: Path) -> None:
    ring = {"keys": [{"kid": "k1", "role": "client", "status": "active", "secret": "00"}]}
    (tmp_path / "keys.json").write_text(json.dumps(ring), encoding="utf-8")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, and never listening
        broker = f"127.0.0.1:{nobody.getsockname()[1]}"
        keys = {"WAKEFUL_HOME": str(tmp_path), "WAKEFUL_KEYS": ""}
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "plain_kafka.py")],
            env={**os.environ, **keys, "WAKEFUL_KAFKA": broker},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == 1
    assert f"no answer from kafka at {broker}: start it with `wakeful up`" in done.stderr


def test_the_agent_asks_the_model_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_MODEL", "m-1")
    named = load_app(str(EXAMPLES / "agent.py")).workflows["agent"][1]
    assert ("model", "m-1") in named.versions


def test_the_agent_looks_asks_pays_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_MODEL", raising=False)
    session = rehearse(str(EXAMPLES / "agent.py"))
    session.send("it came broken")
    session.approve(by="sue")
    session.send("and once more")
    session.reject(by="sue")
    assert session.replies == ["It is on its way.", "I may not do that."]
    assert [call.arguments for call in session.calls("pay_back")] == [{"cents": 25_000}]


def test_the_agent_with_tools_of_an_mcp_server_looks_asks_and_pays() -> None:
    """Its server is faked here; docs/mcp.md runs the real one."""
    paid = []
    fakes = {
        "desk_find_order": lambda order_id: {"item": "lamp"},
        "desk_refund": lambda order_id, cents: paid.append(cents) or "paid back",
    }
    session = rehearse(str(EXAMPLES / "mcp_desk.py"), activities=fakes)
    session.send("it came broken")
    session.approve(by="sue")
    assert (session.replies, paid) == (["It is on its way."], [25_000])
    assert [call.arguments for call in session.calls("desk_refund")] == [
        {"order_id": "7", "cents": 25_000}
    ]


@pytest.mark.slow
def test_hello_asks_pays_and_remembers(endpoints, postgres_url, namespace, keys, tmp_path) -> None:
    environ = {
        **os.environ,
        "WAKEFUL_HOME": str(tmp_path),
        "WAKEFUL_KAFKA": endpoints.kafka,
        "WAKEFUL_POSTGRES": postgres_url,
        "WAKEFUL_REDIS": endpoints.redis,
        "WAKEFUL_NAMESPACE": namespace,
        "WAKEFUL_OPEN_POLICY": "1",
        "WAKEFUL_KEYS": str(keys),
    }
    settings, target = load_settings(environ), str(EXAMPLES / "hello.py")
    queues = load_app(target).queues
    with KafkaLog(endpoints.kafka, client_id=namespace) as log:
        apply_topics(log, settings, queues)
    prepare_views(settings)
    with Supervisor(settings, target, queues=queues, environ=environ, spares_max=0):
        wakeful(environ, "session", "open", "hello", "--session", "one")
        small = wakeful(environ, "session", "send", "one", "too late", "--wait")
        asked = wakeful(environ, "session", "send", "one", "it came broken", "--wait", "--json")
        (proposal,) = json.loads(asked)["approvals"]
        approve = ("approval", "approve", proposal["proposal_id"], "--session", "one", "--wait")
        large = wakeful(environ, *approve)
    assert "9.00 paid back as local/one/1/2: refund 1" in small
    assert "250.00 paid back as local/one/2/3: refund 2" in large


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
