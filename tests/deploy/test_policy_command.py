"""`wakeful policy`: what it says, what it exits with, and whom publishing waits for."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.commands.keys import identity, key

from wakeful.commands.identity import INSECURE, Insecure
from wakeful.commands.keyring import REVOKED, NoKey
from wakeful.commands.policy import EVERYBODY, NOBODY
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.policies import (
    TRIES_MAX,
    VERSION_MAX,
    publish,
    publish_next,
    show,
    taken_over,
    unpublished,
    wait_until_seen,
)
from wakeful.deploy.settings import Settings, load_settings
from wakeful.events import records as r
from wakeful.events.codec import encode_control
from wakeful.events.headers import record_headers
from wakeful.events.log.memory import MemoryLog
from wakeful.processors.control import POLICY_KEY, seen_key
from wakeful.processors.policies.sets import default_policies

SETTINGS = Settings(kafka="b:1", namespace="desk")
SET = 'policies = ["default"]\n[roles.local]\nsupervisor = ["sue"]\n'
CASE = """[[case]]
name = "sue may"
actor = "sue"
decide = "approve"
tool = "refund"
approver = "supervisor"
expect = "allowed"
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], alone: Path) -> Run:
    """Runs a command by its own settings, whatever the environment says."""
    del alone

    def one(*arguments: str) -> tuple[int, str, str]:
        code = invoke(["policy", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return one


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(SET, "utf-8")
    return path


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog(now_ms=lambda: 0)
    log.create_topics(SETTINGS.topics.specs(["default"], 1))
    return log


@pytest.fixture
def at_desk(log: MemoryLog, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same beside this log, where everybody is believed and no processor lives."""

    @contextmanager
    def opened(_given: Settings) -> Iterator[MemoryLog]:
        yield log

    monkeypatch.setattr("wakeful.deploy.cli.policy.kafka", opened)
    monkeypatch.setattr("wakeful.events.log.kafka_survey.members", lambda *_: [])
    given = {"KAFKA": "b:1", "NAMESPACE": "desk", "TENANT": "acme", "INSECURE": "1"}
    for name, value in given.items():
        monkeypatch.setenv(f"WAKEFUL_{name}", value)
    return run


def made(version: int = 1, by: str = "root") -> r.PolicyPublished:
    return r.PolicyPublished(version, 0, by, "", default_policies(), (), ())


def put(log: MemoryLog, key: bytes, record: Any) -> None:
    encoded = encode_control(record) if record is not None else None
    producer = log.producer()
    producer.produce(
        SETTINGS.topics.control,
        key=key,
        value=encoded.value if encoded else None,
        headers=record_headers(encoded, "x") if encoded else (),
        partition=0,
    )
    producer.flush(1_000)


def says(log: MemoryLog, processor: str, offset: int) -> None:
    put(log, seen_key(processor), r.PolicySeen(processor, offset, b"h", 0))


def waited(
    log: MemoryLog, offset: int, live: list[str], told: list[list[str]] | None = None
) -> list[str]:
    progress = (lambda missing: None) if told is None else told.append
    return wait_until_seen(log, SETTINGS, offset, lambda: live, timeout_s=0.0, progress=progress)


def test_a_set_in_order_is_listed_and_one_that_is_not_says_where(run: Run, file: Path) -> None:
    code, out, err = run("check", str(file))
    assert (code, out.splitlines()[0]) == (Exit.DONE, "approver-has-the-role")
    assert f"'wakeful policy publish {file}'" in err
    file.write_text(SET.replace("default", "x.cedar"), "utf-8")
    (file.parent / "x.cedar").write_text("permit (principal, action, resource);", "utf-8")
    code, out, err = run("check", str(file))
    assert (code, out) == (
        Exit.REFUSED,
        'x.cedar:1: it has no name: write @id("what-it-says") before it\n',
    )
    code, out, _ = run("check", str(file), "--json")
    assert (code, json.loads(out)["ok"]) == (Exit.REFUSED, False)


def test_tests_exit_with_one_where_a_ruling_is_another(run: Run, file: Path) -> None:
    case = file.parent / "a.test.toml"
    case.write_text(CASE, "utf-8")
    assert run("test", str(file.parent))[:2] == (Exit.DONE, "ok    a.test.toml  sue may\n")
    case.write_text(CASE.replace('actor = "sue"', 'actor = "bob"'), "utf-8")
    code, out, _ = run("test", str(file.parent), "--json")
    (told,) = json.loads(out)
    assert (code, told["ok"], told["allowed"]) == (Exit.REFUSED, False, False)


@pytest.mark.parametrize("command", ["publish", "test"])
def test_what_is_no_set_is_a_usage_error_before_anything_is_sent(
    run: Run, tmp_path: Path, command: str
) -> None:
    code, _, err = run(command, str(tmp_path / "nowhere"))
    assert code == Exit.USAGE
    assert "give a TOML file that names policies" in err


def test_what_was_published_is_shown_until_it_is_taken_back(log: MemoryLog) -> None:
    assert show(log, SETTINGS, INSECURE).published is None
    assert publish(log, SETTINGS, made(1), INSECURE) == 0
    assert publish(log, SETTINGS, made(2), INSECURE) == 1
    says(log, "p0", 0)
    shown = show(log, SETTINGS, INSECURE)
    assert (shown.published, shown.offset) == (made(2), 1)
    assert shown.seen["p0"].policy_offset == 0
    put(log, POLICY_KEY, None)
    assert show(log, SETTINGS, INSECURE).published is None


def test_without_a_publishers_key_nothing_is_published_and_it_says_which_command_makes_one(
    log: MemoryLog,
) -> None:
    clients = identity(key("client"), key("worker", "worker"))
    with pytest.raises(NoKey, match=r"PolicyPublished.*'wakeful keys new --role publisher'"):
        publish(log, SETTINGS, made(), clients)
    assert log.dump(SETTINGS.topics.control) == []


def test_a_set_that_nobody_vouches_for_is_shown_as_ignored_and_counts_for_no_version(
    log: MemoryLog,
) -> None:
    ours = identity(key("publisher", "publisher"))
    publish(log, SETTINGS, made(2), ours)
    publish(log, SETTINGS, made(2**62), INSECURE)
    publish(log, SETTINGS, made(1), ours)
    shown = show(log, SETTINGS, ours)
    assert (shown.published, shown.offset, shown.damaged) == (made(2), 0, "")
    unsigned, older = shown.ignored
    assert "offset 1 is ignored: unsigned" in unsigned
    assert "offset 2 is ignored: older_version (it is version 1, and 2 is in force" in older


@pytest.mark.parametrize(("stolen", "next_one"), [(3, 4), (VERSION_MAX, VERSION_MAX)])
def test_what_follows_a_set_by_a_revoked_key_is_newer_for_processors_that_go_by_it(
    log: MemoryLog, stolen: int, next_one: int
) -> None:
    publish(log, SETTINGS, made(stolen, "eve"), identity(key("stolen", "publisher")))
    ours = identity(key("publisher", "publisher"), key("stolen", "publisher", status=REVOKED))
    shown = show(log, SETTINGS, ours)
    assert (shown.published, "revoked_key" in shown.revoked) == (None, True)
    for _ in range(2):
        published, offset = publish_next(log, SETTINGS, made(), ours)
        shown = show(log, SETTINGS, ours)
        assert (published.version, shown.offset, shown.revoked) == (next_one, offset, "")
        next_one = min(next_one + 1, VERSION_MAX)


def test_publishing_waits_for_every_live_processor(log: MemoryLog) -> None:
    offset = publish(log, SETTINGS, made(), INSECURE)
    says(log, "p0", offset)
    told: list[list[str]] = []
    with pytest.raises(Stopped) as late:
        waited(log, offset, ["p0", "p1"], told)
    assert late.value.code == Exit.NOT_IN_TIME
    assert "not in force yet in p1" in late.value.message
    assert told == [["p1"]]
    says(log, "p1", offset)
    assert waited(log, offset, ["p0", "p1"]) == ["p0", "p1"]


def test_a_word_about_an_earlier_set_is_not_enough_and_one_about_a_later_is(log: MemoryLog) -> None:
    publish(log, SETTINGS, made(1), INSECURE)
    says(log, "p0", 0)
    second = publish(log, SETTINGS, made(2), INSECURE)
    with pytest.raises(Stopped):
        waited(log, second, ["p0"])
    says(log, "p0", second + 2)
    assert waited(log, second, ["p0"]) == ["p0"]


def test_where_no_processor_lives_nobody_is_waited_for(log: MemoryLog) -> None:
    assert waited(log, publish(log, SETTINGS, made(), INSECURE), []) == []


def test_everybody_may_on_the_local_stack_alone_while_nothing_is_published(tmp_path: Path) -> None:
    local = load_settings({"WAKEFUL_HOME": str(tmp_path)})
    elsewhere = {"WAKEFUL_HOME": str(tmp_path), "WAKEFUL_KAFKA": "broker:9092"}
    assert unpublished(local) is EVERYBODY
    assert unpublished(load_settings(elsewhere)) is NOBODY
    assert unpublished(load_settings({**elsewhere, "WAKEFUL_OPEN_POLICY": "1"})) is EVERYBODY
    assert (
        unpublished(load_settings({"WAKEFUL_HOME": str(tmp_path), "WAKEFUL_OPEN_POLICY": "0"}))
        is NOBODY
    )


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_who_has_a_role_in_another_tenant_is_shown_to_operators_alone(
    log: MemoryLog, at_desk: Run, form: tuple[str, ...]
) -> None:
    roles = tuple(r.RoleMembers(one, "boss", (f"boss-of-{one}",)) for one in ("acme", "beta"))
    publish(log, SETTINGS, replace(made(), roles=roles), INSECURE)
    code, out, _ = at_desk("show", *form)
    assert (code, "boss-of-acme" in out, "beta" in out) == (Exit.DONE, True, False)
    _, out, _ = at_desk("show", "--all-tenants", *form)
    assert "boss-of-beta" in out


UNLOADABLE = replace(made(2, "bob"), policies='@id("x") permit (principal, action, resource')


def test_a_set_that_processors_cannot_load_is_told_and_the_last_good_one_is_shown(
    log: MemoryLog, at_desk: Run
) -> None:
    publish(log, SETTINGS, made(1), INSECURE)
    publish(log, SETTINGS, UNLOADABLE, INSECURE)
    code, out, err = at_desk("show")
    assert (code, "approver-has-the-role" in out) == (Exit.DONE, True)
    assert "the set at offset 1, version 2 by bob, cannot be loaded by processors (" in err
    assert "so the last good one stays in force" in err
    told = json.loads(at_desk("show", "--json")[1])
    assert (told["version"], told["offset"]) == (1, 0)
    assert "cannot be loaded by processors" in told["damaged"]


def test_where_none_before_it_can_be_loaded_nobody_may_decide(log: MemoryLog, at_desk: Run) -> None:
    publish(log, SETTINGS, UNLOADABLE, INSECURE)
    _, _, err = at_desk("show")
    assert "so nobody may decide approvals: publish a set" in err
    assert "no policy is published" not in err


def test_where_the_publishers_key_was_revoked_it_says_that_nobody_may_decide(
    log: MemoryLog, at_desk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(log, SETTINGS, made(), identity(key("stolen", "publisher")))
    judge = identity(key("stolen", "publisher", status=REVOKED))
    monkeypatch.setattr("wakeful.deploy.identity.judge_of", lambda *_: judge)
    _, _, err = at_desk("show")
    assert "its publisher's key is revoked, so nobody may decide approvals" in err
    assert "everybody" not in err
    assert "revoked_key" in json.loads(at_desk("show", "--json")[1])["revoked"]


class Racing(Insecure):
    """Somebody else publishes between a look at the newest version and our record, so often."""

    def __init__(self, log: MemoryLog, times: int) -> None:
        self._log, self._times = log, times

    def sign_published(
        self, published: r.PolicyPublished, topic: str, key: bytes, value: bytes
    ) -> tuple[Any, ...]:
        if self._times:
            self._times -= 1
            publish(self._log, SETTINGS, made(published.version, "bob"), INSECURE)
        return super().sign_published(published, topic, key, value)


@pytest.mark.parametrize("times", [0, 1, 2])
def test_of_two_who_publish_at_once_each_has_a_version_of_its_own(
    log: MemoryLog, times: int
) -> None:
    published, offset = publish_next(log, SETTINGS, made(), Racing(log, times))
    shown = show(log, SETTINGS, INSECURE)
    assert (shown.published, shown.offset) == (published, offset)
    before = [version for at, version in shown.versions.items() if at < offset]
    assert published.version not in before
    assert taken_over(log, SETTINGS, published, offset, INSECURE) == ""


def test_who_is_outdone_each_time_is_told_and_stops(log: MemoryLog) -> None:
    with pytest.raises(Stopped, match="others published 10 times") as stopped:
        publish_next(log, SETTINGS, made(), Racing(log, TRIES_MAX))
    assert stopped.value.code == Exit.REFUSED


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_whose_set_was_replaced_meanwhile_is_told_by_whom(
    log: MemoryLog, at_desk: Run, file: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    def another(*_: object) -> list[str]:
        if len(log.dump(SETTINGS.topics.control)) == 1:
            publish(log, SETTINGS, made(2, "bob"), INSECURE)
        return []

    monkeypatch.setattr("wakeful.events.log.kafka_survey.members", another)
    code, out, err = at_desk("publish", str(file), *form)
    assert (code, out) == (Exit.REFUSED, "")
    assert "version 1 at offset 0 was published and is in force no more" in err
    assert "version 2 by bob at offset 1 took its place" in err


def test_what_is_in_force_is_the_version_that_is_printed(
    log: MemoryLog, at_desk: Run, file: Path
) -> None:
    publish(log, SETTINGS, made(4), INSECURE)
    code, out, _ = at_desk("publish", str(file))
    assert (code, out.startswith("version 5 at offset 1: ")) == (Exit.DONE, True)


@pytest.mark.parametrize("timeout", ["nan", "inf", "-1"])
def test_a_time_that_cannot_be_waited_for_is_refused_before_anything_is_published(
    at_desk: Run, file: Path, log: MemoryLog, timeout: str
) -> None:
    code, _, err = at_desk("publish", str(file), "--timeout", timeout)
    assert (code, "'--timeout'" in err) == (Exit.USAGE, True)
    assert log.dump(SETTINGS.topics.control) == []
