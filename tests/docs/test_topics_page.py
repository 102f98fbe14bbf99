"""docs/topics.md: its program and commands are run beside a running desk, its tables are the code's; the document is valid AsyncAPI."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from typer.testing import CliRunner

from tests.deploy.gateway.running import running
from tests.docs.test_architecture import kept
from tests.docs.test_security_page import PAGE as SECURITY
from wakeful.commands.keyring import ROLES
from wakeful.commands.wire import COMMANDS
from wakeful.deploy.cli import app
from wakeful.deploy.telling.asyncapi import KINDS, PLAIN, address, asyncapi
from wakeful.events.codec import ATTEMPTS, CONTROL, EVENTS, OUTCOMES, SNAPSHOTS, TASKS
from wakeful.events.topics import Topics

from .readme import ROOT, blocks

PAGE = (ROOT / "docs" / "topics.md").read_text(encoding="utf-8")
VENDOR = Path(__file__).parent / "vendor"
TOPICS = Topics("acme.prod")
DOCUMENT = asyncapi(TOPICS, 12, queues=["payments", "desk", "desk"], min_insync_replicas=2)
CODECS = {
    "commands": COMMANDS,
    "events": EVENTS,
    "activities": TASKS,
    "activities_once": TASKS,
    "attempts": ATTEMPTS,
    "outcomes": OUTCOMES,
    "snapshots": SNAPSHOTS,
    "control": CONTROL,
}


@pytest.fixture(scope="module")
def faults():
    """What the official schema of AsyncAPI has against a document."""
    schema = json.loads((VENDOR / "asyncapi-3.0.0.json").read_text("utf-8"))
    validator = jsonschema_rs.Draft7Validator(schema)
    return lambda document: [
        "/".join(map(str, e.instance_path)) for e in validator.iter_errors(document)
    ]


def rows(heading: str) -> list[list[str]]:
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]


def test_the_document_is_valid_asyncapi(faults):
    assert faults(DOCUMENT) == []


def test_what_is_no_avro_or_no_binding_would_be_found(faults):
    worse = copy.deepcopy(DOCUMENT)
    worse["components"]["messages"]["OpenSession"]["payload"]["schema"]["type"] = "rekord"
    worse["channels"]["events"]["bindings"]["kafka"]["partitions"] = 0
    assert set(faults(worse)) == {"components/messages/OpenSession", "channels/events"}


def test_every_reference_in_it_leads_somewhere():
    text = json.dumps(DOCUMENT)
    named = set(re.findall(r'"\$ref": "#/([^"]+)"', text))
    assert len(named) > 100
    for path in named:
        found = DOCUMENT
        for step in path.split("/"):
            found = found[step]


def test_its_channels_are_the_topics_that_apply_makes():
    specs = {s.name: s for s in TOPICS.specs(["desk"], 12, min_insync_replicas=2)}
    assert {address(TOPICS, kind, "desk") for kind in KINDS} == set(specs)
    for kind in KINDS:
        spec = specs[address(TOPICS, kind, "desk")]
        channel = DOCUMENT["channels"][kind.name]
        assert channel["address"].replace("{queue}", "desk") == spec.name
        told = channel["bindings"]["kafka"]
        assert told["partitions"] == spec.partitions
        config = {name: str(value) for name, value in told["topicConfiguration"].items()}
        assert config | {"cleanup.policy": told["topicConfiguration"]["cleanup.policy"][0]} == dict(
            spec.config
        )
    queues = DOCUMENT["channels"]["activities_once"]["parameters"]["queue"]
    assert queues["enum"] == ["desk", "payments"]


def test_each_channel_has_the_records_that_its_codec_reads_with_all_their_versions():
    for kind in KINDS:
        held = set(DOCUMENT["channels"][kind.name]["messages"])
        if not kind.classes:
            assert held == {PLAIN[kind.name]}
            continue
        codec = CODECS[kind.name]
        assert {f"wakeful.v1.{name}" for name in held} == set(codec._classes)
        for name in held:
            message = DOCUMENT["components"]["messages"][name]
            assert (
                len(message["x-older-schemas"])
                == sum(v.record == f"wakeful.v1.{name}" for v in codec._library.lock.versions) - 1
            )
            encoded_id = codec._library.current(message["name"])
            assert (message["x-schema-id"], message["x-fingerprint"]) == (
                encoded_id.id,
                encoded_id.fingerprint.hex(),
            )


def test_a_role_sends_what_its_key_vouches_for():
    for role in ("client", "gateway", "worker", "processor"):
        sent = DOCUMENT["operations"][f"{role}.sends.commands"]["messages"]
        assert {one["$ref"].rpartition("/")[2] for one in sent} == ROLES[role]
    for role, records in (
        ("publisher", ["PolicyPublished", "RolloutSet"]),
        ("processor", ["PolicySeen", "RolloutSeen"]),
    ):
        sent = DOCUMENT["operations"][f"{role}.sends.control"]["messages"]
        assert [one["$ref"].rpartition("/")[2] for one in sent] == records


def test_who_may_do_what_is_what_the_page_of_security_says():
    table = SECURITY.partition("| role | reads | writes |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        roles, reads, writes = (cell.strip() for cell in row.split("|")[1:4])
        for role in re.sub(r" of policies| \(.*", "", roles).split(", "):
            for action, cell in (("receives", reads), ("sends", writes)):
                told = {
                    name.rpartition(".")[2].removesuffix("_once")
                    for name in DOCUMENT["operations"]
                    if name.startswith(f"{role}.{action}.")
                }
                everything = {kind.name.removesuffix("_once") for kind in KINDS}
                named = set(re.findall(r"`([a-z_]+)(?:\.\*)?`", re.sub(r"\([^)]*\)", "", cell)))
                assert told == (everything if cell == "all" else named), (role, action)


def test_its_table_of_topics_is_that_of_the_code():
    specs = {s.name: s for s in TOPICS.specs(["q"], 12)}
    made = []
    for kind in KINDS:
        spec = specs[address(TOPICS, kind, "q")]
        name = spec.name.removeprefix("acme.prod.").removesuffix(".v1").replace(".q", ".<queue>")
        held = {
            "commands": f"one of {len(kind.classes)} commands",
            "events": f"one of {len(kind.classes)} events",
            "dead_letters": "as it came",
            "watch_windows": "JSON",
            "watch_proposals": "JSON",
        }.get(kind.name, ", ".join(f"`{cls.__name__}`" for cls in kind.classes))
        for_how_long = kept(spec.config).replace("compacted", "the newest")
        told = [spec.config["cleanup.policy"], for_how_long]
        made.append([f"`{name}`", held, *told, ", ".join(kind.written_by), ", ".join(kind.read_by)])
    shown = rows("topic")
    assert [[row[0], *row[2:]] for row in shown] == made
    keys = {name.strip("`"): key for name, key, *_ in shown}
    arch = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    assert all(f"| `{name}` |" in arch for name in keys if "activities" not in name)


def test_its_table_of_headers_names_all_that_a_record_may_have():
    shown = {name for row in rows("header") for name in re.findall(r"`([\w-]+)`", row[0])}
    messages = DOCUMENT["components"]["messages"].values()
    assert shown == {
        name for one in messages for name in one.get("headers", {}).get("properties", ())
    }


def test_the_command_prints_the_document(monkeypatch, tmp_path):
    for name, value in {
        "NAMESPACE": "acme.prod",
        "PARTITIONS": "12",
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(f"WAKEFUL_{name}", value)
    monkeypatch.setenv("WAKEFUL_MIN_INSYNC_REPLICAS", "2")
    printed = CliRunner().invoke(
        app, ["topics", "asyncapi", "--queue", "payments", "--queue", "desk"]
    )
    assert json.loads(printed.output) == DOCUMENT


def pattern(text: str) -> str:
    """What is left out on the page is any text."""
    return ".*".join(map(re.escape, text.strip().split("…")))


@pytest.mark.kafka
@pytest.mark.postgres
def test_its_program_and_commands_say_what_it_shows(
    endpoints, postgres_url, keys, tmp_path_factory
):
    home = tmp_path_factory.mktemp("home")
    if shutil.which("jq") is None:
        pytest.skip("jq, which the page uses, is not installed")
    (shown,) = blocks("console", PAGE)
    commands = [one.partition("\n")[0] for one in shown.split("$ ")[1:]]
    outputs = "".join(one.partition("\n")[2] for one in shown.split("$ ")[1:])
    program = "\n".join(blocks("python", PAGE))
    with running(endpoints, postgres_url, keys, home, f"topics{os.getpid()}") as desk:

        def printed(*words: str, of: str = "") -> str:
            done = subprocess.run(
                words,
                env=desk.environ,
                cwd=home,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            return done.stdout.strip()

        wakeful = f'wakeful() {{ "{sys.executable}" -m wakeful "$@"; }}'
        told = printed("bash", "-c", "\n".join([wakeful, *commands]))
        assert re.fullmatch(pattern(outputs), told)
        told = printed(sys.executable, "-W", "ignore::ResourceWarning", "-c", program)
    assert re.fullmatch(pattern("".join(blocks("text", PAGE))), told, re.DOTALL), told
