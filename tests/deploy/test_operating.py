"""Commands for whoever operates a running app, over real Kafka and Postgres: explain, ledger, dlq, doctor."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import split
from typing import Any

import psycopg
import pytest
from tests.deploy import audit_page

from wakeful.deploy.cli.context import kafka
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.log.protocol import TopicSpec
from wakeful.projections.schemas import Schemas

APP = str(Path(__file__).with_name("desk_app.py"))
QUEUES = ["default", "payments"]

Cli = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module")
def desk(
    endpoints: Endpoints, postgres_url: str, tmp_path_factory: pytest.TempPathFactory, keys: Path
) -> Iterator[Settings]:
    """The refund desk, running in a namespace of its own."""
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"ops{os.getpid()}",
        tenant="acme",
        actor="ann",
        home=tmp_path_factory.mktemp("run"),
        open_policy=True,
        keys=keys,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, QUEUES)
    prepare_views(settings)
    with Supervisor(settings, APP, queues=QUEUES, spares_max=0):
        yield settings


@pytest.fixture
def cli(desk: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs commands; gives its code, its output (decoded where it is JSON), and what it told people."""
    for name, value in desk.to_environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wakeful.deploy.cli.asking.DECIDED_MS", 30_000)  # machines may be busy
    monkeypatch.setattr("wakeful.deploy.cli.showing.VIEWS_MS", 20_000)

    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = invoke(arguments)
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments else out, err

    return run


def test_a_refund_is_explained_while_it_waits_and_once_it_is_paid(cli: Cli) -> None:
    cli("session", "open", "refund-desk", "--session", "r1")
    code, _, err = cli("session", "send", "r1", "order-7", "--wait", "--timeout", "20")
    assert code == Exit.DONE, err
    step = re.search(r"'wakeful (approval approve \S+ --session r1)'", err)
    assert step, err
    code, out, _ = cli("explain", "r1")
    assert code == Exit.DONE
    assert out.startswith("r1 (refund-desk v1) waits in turn 1; its last event was at ")
    assert "ann said “order-7”" in out
    assert f"'wakeful {step[1]}'" in out
    assert "ReleaseSession: the session is not held" in out
    code, _, err = cli(*step[1].split(), "--wait", "--timeout", "20")
    assert code == Exit.DONE, err
    code, told, _ = cli("explain", "r1", "--json")
    assert (code, told["waits_for"], told["held"]) == (Exit.DONE, [], None)
    assert {one["command"] for one in told["next"]} == set()
    (ended,) = {one["reason"] for one in told["not_next"] if one["command"] == "SendMessage"}
    assert ended == "the session is completed: open a new one"

    code, rows, _ = cli("ledger", "r1", "--json")
    assert code == Exit.DONE
    refund = next(row for row in rows if row["approval"] == "granted")
    assert (refund["approved_by"], refund["status"]) == ("ann", "completed")
    assert refund["took_ms"] >= 0
    assert cli("ledger", "r1", "--status", "failed")[1] == ""


def test_a_held_session_is_explained_with_its_way_out(cli: Cli) -> None:
    cli("session", "open", "buggy", "--session", "b1")
    cli("session", "send", "b1", "hello", "--wait", "--timeout", "20")
    cli("session", "send", "b1", "later")
    code, out, _ = cli("explain", "b1")
    assert code == Exit.DONE
    assert "is held in turn 1" in out
    assert "held: workflow_raised" in out
    assert "RuntimeError: a bug of the workflow" in out
    assert "then 'wakeful session release b1'; then the command kept meanwhile is decided" in out
    assert "kept a SendMessage of ann until it is released" in out
    assert cli("explain", "nobody")[0] == Exit.NOT_FOUND


def test_a_command_that_came_too_early_is_sent_back_once_its_session_is_open(cli: Cli) -> None:
    code, _, _ = cli("session", "send", "w1", "order-7")
    assert code == Exit.NOT_FOUND
    _, letters, _ = cli("dlq", "list", "--json")
    (letter,) = (row["id"] for row in letters if row["key"] == "acme/w1")
    cli("session", "open", "refund-desk", "--session", "w1")
    code, done, _ = cli("dlq", "redrive", letter, "--yes", "--json")
    assert (code, done["redriven"]) == (Exit.DONE, [letter])
    code, _, err = cli("session", "cancel", "w1")  # decided after what was sent back
    assert code == Exit.DONE, err
    _, told, _ = cli("explain", "w1", "--json")
    said = [line["text"] for chapter in told["story"] for line in chapter["lines"]]
    assert next(text for text in said if "order-7" in text) == "ann said “order-7”"
    code, done, _ = cli("dlq", "redrive", letter, "--yes", "--json")
    assert (code, done["redriven"], done["before"][letter]["by"]) == (Exit.DONE, [], "ann")
    _, letters, _ = cli("dlq", "list", "--json")
    assert letter not in {row["id"] for row in letters}
    code, verified, _ = cli("audit", "verify", "--json")
    assert (code, verified["violations"]) == (Exit.DONE, [])


def test_an_auditor_gets_what_the_page_about_audits_shows(
    desk: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Cli
) -> None:
    monkeypatch.setenv("WAKEFUL_TENANT", "audited")  # the other tests' sessions are not looked at
    cli("session", "open", "refund-desk", "--session", "desk-1")
    code, _, err = cli("session", "send", "desk-1", "order-7", "--wait", "--timeout", "20")
    step = re.search(r"'wakeful (approval approve \S+ --session desk-1)'", err)
    assert step, err
    assert cli(*step[1].split(), "--wait", "--timeout", "20")[0] == Exit.DONE
    monkeypatch.chdir(tmp_path)
    shutil.copy(APP, "desk.py")
    failed = set()
    for command, lines in audit_page.commands():
        if command.startswith("wakeful "):
            code, out, err = cli(*split(command)[1:])
            shown = f"{out}\n{err}"
            if code != Exit.DONE:
                failed.add((command, code))
        else:
            shown = audit_page.asked(command, tmp_path)
        said = audit_page.plain(shown, desk.namespace)
        for line in lines:
            assert audit_page.plain(line, desk.namespace).rstrip() in said, (command, line, shown)
    assert failed == {
        ("wakeful audit verify --file changed.jsonl", Exit.REFUSED),
        ("wakeful audit diff --file desk-1.jsonl --against other.py", Exit.REFUSED),
    }


def test_a_record_that_the_database_refused_is_told_by_audit_and_doctor(
    cli: Cli, desk: Settings
) -> None:
    schemas = Schemas(desk.namespace)
    gap = (desk.topics.events, 0, 4, "refused", "22P02: no such text")
    with psycopg.connect(desk.postgres_url, autocommit=True) as connection:
        put = schemas.fill("INSERT INTO {live}.gaps VALUES (%s, %s, %s, %s, %s)")
        connection.execute(put, gap)
        try:
            code, verified, _ = cli("audit", "verify", "--json")
            sick, found, _ = cli("doctor")
        finally:
            connection.execute(schemas.fill("DELETE FROM {live}.gaps"))
    (violation,) = verified["violations"]
    assert (code, violation["invariant"], violation["offset"]) == (Exit.REFUSED, 34, 4)
    assert violation["what"].endswith("22P02: no such text")
    assert sick != Exit.DONE
    assert "1 events are not, or not wholly, in the views, the first at 0@4 (refused)" in found


def test_the_doctor_finds_a_running_app_in_order(cli: Cli) -> None:
    assert cli("session", "open", "refund-desk", "--session", "d1")[0] == Exit.DONE  # it runs
    code, out, err = cli("doctor")
    assert code == Exit.DONE, out
    advised = sum(line.startswith("advice ") for line in out.splitlines())
    if advised:  # there may be dead letters of other tests here
        looks = sum(not line.startswith(" ") for line in out.splitlines())
        assert err == f"nothing is wrong; advice on {advised} of {looks}\n"
    else:
        assert err == "all is well\n"
    verdicts = {line[9:26].strip(): line.split()[0] for line in out.splitlines() if line[0] != " "}
    names = ("kafka", "postgres", "redis", "topics", "clock", "stored events", "views", "keys")
    assert {name: verdicts[name] for name in names} == dict.fromkeys(names, "ok")
    assert verdicts["lag of processors"] == verdicts["lag of projector"] == "ok"
    code, found, _ = cli("doctor", "--json")
    assert (code, found["wrong"]) == (Exit.DONE, 0)


def test_the_doctor_names_topics_that_are_missing_or_set_otherwise_and_views_that_are_not_there(
    cli: Cli, desk: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = f"ill{os.getpid()}"
    monkeypatch.setenv("WAKEFUL_NAMESPACE", namespace)
    ill = desk.model_copy(update={"namespace": namespace})
    specs = ill.topics.specs(["default"], ill.partitions)
    with kafka(ill, may_be_empty=True) as log:
        for spec in specs:
            config = dict(spec.config)
            if spec.name == ill.topics.commands:
                config["retention.ms"] = "3600000"
            if spec.name != ill.topics.outcomes:
                log.create_topics([TopicSpec(spec.name, spec.partitions, config)])
    code, found, _ = cli("doctor", "--json")
    wrong = {one["what"]: one["to_do"] for one in found["findings"] if one["verdict"] == "wrong"}
    assert code == Exit.REFUSED
    short = f"{ill.topics.commands}: retention.ms is 3600000, not 604800000"
    assert "--add-config retention.ms=604800000" in wrong.pop(short)
    assert "'wakeful topics apply'" in wrong.pop(f"{ill.topics.outcomes} is missing")
    ((views, to_do),) = wrong.items()
    assert "the views in" in views
    assert "'wakeful projector'" in to_do


def test_what_nobody_signed_is_refused_by_a_running_app_and_without_keys_nothing_starts(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cli("session", "open", "refund-desk", "--session", "k1")[0] == Exit.DONE
    monkeypatch.delenv("WAKEFUL_KEYS")
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    monkeypatch.setenv("WAKEFUL_INSECURE", "1")  # this client signs nothing, and says so
    code, _, err = cli("session", "cancel", "k1")
    assert (code, "CancelSession has no signature" in err) == (Exit.REFUSED, True), err
    letters = cli("dlq", "list", "--json")[1]
    assert [one["reason"] for one in letters if one["key"] == "acme/k1"] == ["unsigned"]
    monkeypatch.setenv("WAKEFUL_INSECURE", "0")
    for words in (("session", "cancel", "k1"), ("processor", APP), ("worker", APP), ("run", APP)):
        code, _, err = cli(*words)
        assert (code, "'wakeful keys new'" in err) == (Exit.USAGE, True), (words, err)


def test_whoever_guesses_anothers_session_is_told_what_one_that_is_not_there_would_be(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("session", "open", "refund-desk", "--session", "theirs")
    code, _, err = cli("session", "send", "theirs", "order-7", "--wait", "--timeout", "20")
    assert code == Exit.DONE, err
    step = re.search(r"approve (\S+) --session theirs", err)
    assert step, err
    monkeypatch.setenv("WAKEFUL_TENANT", "spy")
    asked = (
        ("session", "show", "?"),
        ("explain", "?"),
        ("ledger", "?"),
        ("approval", "list", "--session", "?"),
        ("approval", "approve", step[1], "--session", "?"),
        ("activity", "list", "?"),
        ("session", "send", "?", "hello", "--wait", "--timeout", "20"),
        ("session", "cancel", "?", "--reason", "mine"),
    )
    for arguments in asked:
        told = []
        for guess in ("theirs", "nowhere"):
            code, out, err = cli(*(guess if one == "?" else one for one in arguments))
            assert code != Exit.USAGE, err
            assert "order-7" not in out + err
            told.append((code, out, _without_ids(err.replace(guess, "?"))))
        assert told[0] == told[1], arguments
    code, out, _ = cli("session", "list")
    assert (code, "theirs" in out) == (Exit.DONE, False)


def _without_ids(told: str) -> str:
    """What a command was called, and where in the log it lies, is another each time."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b\d+@\d+\b", "#", told)
