"""The keyring's file: for its owner only, never half written, and seen to change by processes that run."""

import json
from dataclasses import replace

import pytest
import structlog
from tests.commands.keys import command, key, record, signed
from tests.processors.loops import Cluster

from wakeful.commands.identity import Signed
from wakeful.commands.keyring import Evidence
from wakeful.commands.models import CancelSession, OpenSession
from wakeful.commands.signatures import ED25519
from wakeful.commands.wire import read_command
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.identity import identity_of
from wakeful.deploy.keyfile import (
    LOCAL_ROLES,
    KeyFile,
    changing,
    ensure_local_keys,
    new_key,
    public_key,
    read_keys,
    write_keys,
)
from wakeful.deploy.settings import Settings, load_settings
from wakeful.events.log.memory import MemoryLog


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def test_what_is_written_is_read_again_and_only_its_owner_may(path) -> None:
    keys = [
        new_key("client", tenants=["acme", "beta"], actor="ann", not_after_ms=5),
        new_key("worker", algorithm=ED25519),
        replace(new_key("processor"), status="retired"),
        replace(new_key("client"), kinds=frozenset({"OpenSession"}), status="revoked"),
        public_key(new_key("gateway", algorithm=ED25519)),
    ]
    write_keys(path, keys)
    assert list(read_keys(path).keys) == keys
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.json"]


def test_a_key_of_a_role_has_the_kinds_that_the_role_has_in_this_release(path) -> None:
    write_keys(path, [new_key("worker")])
    (row,) = json.loads(path.read_text())["keys"]
    assert "kinds" not in row
    assert "ReturnActivity" in read_keys(path).keys[0].kinds


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_file_that_others_may_use_is_refused_with_what_to_do(path, mode) -> None:
    ensure_local_keys(path)
    path.chmod(mode)
    with pytest.raises(Stopped, match=rf"its mode is 0{mode:o}\): 'chmod 600") as refused:
        read_keys(path)
    assert refused.value.code == Exit.USAGE


def test_no_file_is_told_with_what_makes_one(path) -> None:
    with pytest.raises(Stopped, match="'wakeful keys new', or set WAKEFUL_KEYS"):
        read_keys(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda _: "[]",
        lambda _: '{"keys": {}, "more": 1}'.replace("{}", "3"),
        lambda _: '{"keys": [{"kid": "a"}]}',
        lambda text: text.replace('"client"', '"king"'),
        lambda text: text.replace("hmac-sha256", "none"),
        lambda text: text.replace('"active"', '"ready"'),
        lambda text: text.replace('"secret": "', '"secret": "zz'),
        lambda text: text.replace('"secret": "', '"secret": "00'),
        lambda text: text.replace('"secret": "', '"secret": 7, "was": "'),
    ],
)
def test_a_damaged_file_is_refused_and_its_secrets_are_not_told(path, damage) -> None:
    write_keys(path, [new_key("client"), new_key("worker")])
    secrets = [one.secret.hex() for one in read_keys(path).keys]
    path.write_text(damage(path.read_text()))
    with pytest.raises(Stopped, match=r"keys\.json is damaged \(.+\): bring it back") as refused:
        read_keys(path)
    assert not any(secret[4:20] in str(refused.value) for secret in secrets)


def test_a_change_that_fails_leaves_the_file_as_it_was(path) -> None:
    ensure_local_keys(path)
    before = path.read_bytes()
    with pytest.raises(IndexError), changing(path) as keys:
        del keys[:], keys[0]
    with pytest.raises(ValueError, match="one id"), changing(path) as keys:
        keys.append(keys[0])
    assert path.read_bytes() == before


def test_the_keys_of_one_machine_are_made_once(path) -> None:
    assert ensure_local_keys(path)
    before = path.read_bytes()
    assert not ensure_local_keys(path)
    assert path.read_bytes() == before
    assert [one.role for one in read_keys(path).keys] == list(LOCAL_ROLES)


def test_a_file_that_breaks_while_it_is_used_changes_nothing_but_the_log(path) -> None:
    ensure_local_keys(path)
    watched = KeyFile(path, look_s=0)
    before = watched.ring()
    path.write_text("{")
    with structlog.testing.capture_logs() as said:
        assert watched.ring() is before
        assert watched.ring() is before
    assert [line["log_level"] for line in said] == ["error"]
    path.unlink()
    assert watched.ring() is before
    write_keys(path, [new_key("client", kid="mended")])
    assert [one.kid for one in watched.ring().keys] == ["mended"]


def test_it_looks_now_and_then_and_at_once_for_a_key_that_it_does_not_know(path) -> None:
    now_s = [100.0]
    first, second = new_key("client", kid="first"), new_key("client", kid="second")
    write_keys(path, [first])
    watched = KeyFile(path, look_s=0.05, monotonic=lambda: now_s[0])
    judge = Signed(watched.ring, "memory", newest=watched.newest)
    said = command(OpenSession("desk"))

    def judged(by):
        found = record(said, *signed(by, said))
        return judge.check(*read_command(found.value, found.headers), found)

    write_keys(path, [replace(first, status="revoked")])
    now_s[0] += 0.04
    assert judged(first) == Evidence("first")
    now_s[0] += 0.02
    assert judged(first).reason == "revoked_key"
    write_keys(path, [second])
    assert judged(second) == Evidence("second")
    assert judged(new_key("client", kid="third")).reason == "unknown_key"


def test_rotation_has_no_moment_in_which_a_command_is_refused(path) -> None:
    """Two processes: the client's ring has its own key only, the processor's all; each file changes while both run."""
    own = path.with_name("client.json")
    first, second = new_key("client", kid="first"), new_key("client", kid="second")
    others = [new_key("worker"), new_key("processor")]
    write_keys(own, [first])
    write_keys(path, [first, *others])
    cluster = Cluster(identity=Signed(KeyFile(path, look_s=0).ring, "memory"))
    cluster.start()
    cluster.identity = Signed(KeyFile(own, look_s=0).ring, "memory")

    def ask(session):
        cluster.send(OpenSession("desk"), session)
        cluster.run()
        return [e.envelope.vouched_by for e in cluster.events(session)]

    assert ask("s1") == ["first"]
    write_keys(path, [first, second, *others])  # 1: all who verify know the new key
    assert ask("s2") == ["first"]
    write_keys(own, [first, second])  # 2: those who sign have it, too, and use it
    assert ask("s3") == ["second"]
    late = command(CancelSession("on its way"), session="s3", at_ms=cluster.clock.ms)
    mark = signed(first, late, topic=cluster.topics.commands)
    found = record(late, *mark)
    write_keys(own, [second])
    write_keys(
        path, [replace(first, status="retired"), second, *others]
    )  # 3: the old one signs no more
    cluster.raw(found.key, found.value, found.headers)
    cluster.run()
    assert cluster.events("s3")[-1].envelope.vouched_by == "first"
    write_keys(
        path, [replace(first, status="revoked"), second, *others]
    )  # 4: nothing of it is on its way
    assert ask("s4") == ["second"]
    assert cluster.dead() == []
    cluster.raw(found.key, found.value, found.headers)
    cluster.run()
    assert [letter.reason for letter in cluster.dead()] == ["revoked_key"]


def test_a_verifier_needs_no_private_key(path) -> None:
    own = new_key("worker", algorithm=ED25519)
    write_keys(path, [public_key(own)])
    assert own.secret.hex() not in path.read_text()
    said = command(OpenSession("desk"))
    willing = key("client", kinds=frozenset({"OpenSession"}))
    assert willing.signs
    theirs = replace(own, kinds=frozenset({"OpenSession"}))
    write_keys(path, [public_key(theirs)])
    found = record(said, *signed(theirs, said))
    parts = read_command(found.value, found.headers)
    assert Signed(KeyFile(path, look_s=0).ring, "memory").check(*parts, found) == Evidence(own.kid)
    with pytest.raises(Stopped, match="has no public half"):
        public_key(new_key("worker"))


def test_without_keys_a_process_does_not_start_unless_it_is_told_to_believe_everybody(
    tmp_path,
) -> None:
    log = MemoryLog(now_ms=lambda: 1)
    environ = {"WAKEFUL_HOME": str(tmp_path), "WAKEFUL_KAFKA": "b:1", "WAKEFUL_REDIS": "redis://b"}
    environ["WAKEFUL_POSTGRES"] = "postgresql://b"
    with pytest.raises(Stopped, match=r"'wakeful keys new'.*WAKEFUL_INSECURE=1") as refused:
        identity_of(load_settings(environ), log)
    assert refused.value.code == Exit.USAGE
    insecure = load_settings(environ | {"WAKEFUL_INSECURE": "1"})
    assert identity_of(insecure, log).sign(command(OpenSession("desk")), "t", b"", b"") == ()
    ensure_local_keys(tmp_path / "keys.json")
    assert load_settings(environ).keys == tmp_path / "keys.json"
    for role in ("client", "worker", "processor"):
        assert isinstance(identity_of(load_settings(environ), log, role=role), Signed)


def test_settings_hand_the_keyring_to_child_processes(tmp_path) -> None:
    given = Settings(
        kafka="b:1", postgres="p://x", redis="r://x", keys=tmp_path / "k", insecure=True
    )
    child = load_settings(given.to_environ())
    assert (child.keys, child.insecure) == (tmp_path / "k", True)


@pytest.mark.parametrize("role", LOCAL_ROLES)
def test_a_process_whose_key_is_missing_says_so_before_it_starts(path, role) -> None:
    write_keys(path, [new_key(one) for one in LOCAL_ROLES if one != role])
    log = MemoryLog(now_ms=lambda: 1)
    with pytest.raises(Stopped, match=f"'wakeful keys new --role {role}'"):
        identity_of(Settings(keys=path), log, role=role)


def test_a_processors_key_is_for_every_tenant(path) -> None:
    write_keys(path, [new_key("processor", tenants=["acme"])])
    with pytest.raises(Stopped, match="for all tenants"):
        identity_of(Settings(keys=path), MemoryLog(now_ms=lambda: 1), role="processor")
