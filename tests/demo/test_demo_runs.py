"""The whole demo on a real stack: a few messages, kills and lost answers, and nothing lost or charged twice."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from wakeful.deploy.demo.payments import read_book
from wakeful.deploy.exits import Exit

MESSAGES = (
    {"customer": "ann", "text": "The headphones of order 1001 broke. I want my money back."},
    {"text": "Where is my parcel?"},
    {"customer": "ivo", "text": "Refund order 1009, please."},
    {"customer": "c2", "text": "half a character \ud83d, a nul \x00, and an é"},
    {"customer": "wim", "text": "refund refund refund"},
    {"customer": "c3", "text": ""},
    {"customer": "wim", "text": "1024"},
    {"customer": "c4", "text": "I want my money back."},
)
LIMIT_S = 240  # a machine may be busy


def demo(*arguments: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wakeful", "demo", *arguments],
        env={**os.environ, "WAKEFUL_HOME": str(home), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.chaos
def test_nothing_is_lost_or_done_twice(endpoints, postgres_url, tmp_path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(map(json.dumps, MESSAGES)))
    run = demo(
        "--json",
        "--input",
        str(path),
        home=tmp_path / "home",
        WAKEFUL_KAFKA=endpoints.kafka,
        WAKEFUL_POSTGRES=postgres_url,
        WAKEFUL_REDIS=endpoints.redis,
        WAKEFUL_ALWAYS_REPLAY="1",
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"the console, for one sign-in .*: http://\S+/console/enter/\S+", run.stderr)
    assert "yours to decide" not in run.stderr
    report = json.loads(run.stdout)
    expected = {
        "messages": 8,
        "completed_turns": 8,
        "asked_back": 2,
        "repeated_model_calls": 0,
        "refunds_due": 3,
        "charges": 3,
        "duplicate_charges": 0,
        "letters": 3,
        "lost_messages": 0,
        "duplicate_answers": 0,
        "approvals": 1,
        "kills": 3,
        "refold_equals_views": True,
        "audit_violations": 0,
        "problems": [],
    }
    assert {name: report[name] for name in expected} == expected
    assert not topics_of(report["namespace"], endpoints.kafka), (
        "a broker of others is left as it was"
    )
    charges = read_book(Path(report["folder"]) / "book.ndjson").charges
    assert sorted(charge.order_id for charge in charges) == ["1001", "1009", "1024"]


def topics_of(namespace: str, bootstrap: str) -> list[str]:
    shown = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)
    return [name for name in shown.topics if name.startswith(f"{namespace}.")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"text": "fine"}\n{"text"', "some.jsonl:2: not json"),
        ("", "holds no message"),
        (None, "no such file"),
    ],
)
def test_an_input_that_will_not_do_is_told_before_anything_starts(
    content: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.jsonl"
    if content is not None:
        path.write_text(content)
    run = demo("--json", "--input", str(path), home=tmp_path / "home")
    assert (run.returncode, run.stdout) == (Exit.USAGE, "")
    assert said in run.stderr
    assert not (tmp_path / "home").exists()


def test_a_person_is_asked_on_a_terminal_only(tmp_path: Path) -> None:
    run = demo("--ask", home=tmp_path / "home")
    assert run.returncode == Exit.USAGE
    assert "--ask needs a terminal" in run.stderr


def test_a_model_that_cannot_be_asked_is_told_before_anything_starts(tmp_path: Path) -> None:
    run = demo(home=tmp_path / "home", WAKEFUL_MODEL="localhost:11434")
    assert run.returncode == Exit.USAGE
    assert "WAKEFUL_MODEL=localhost:11434" in run.stderr
    assert not (tmp_path / "home").exists()
