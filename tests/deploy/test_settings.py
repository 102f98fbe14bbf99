"""Settings come from the environment, once; what cannot work names the variable, its value and the next step."""

from pathlib import Path

import pytest

from wakeful.deploy.blobs import prove_blobs
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.processes import apply_topics
from wakeful.deploy.settings import LOCAL_DIGEST_KEY, Settings, load_settings
from wakeful.events.log.memory import MemoryLog
from wakeful.processors.quotas import Quotas, Rate

URLS = {
    "WAKEFUL_KAFKA": "broker:9092",
    "WAKEFUL_POSTGRES": "postgresql://wakeful:sekret@db/wakeful",
    "WAKEFUL_REDIS": "redis://cache/0",
}


def refused(tmp_path: Path, **given: str) -> Stopped:
    with pytest.raises(Stopped) as stopped:
        load_settings({**URLS, "WAKEFUL_HOME": str(tmp_path), **given})
    return stopped.value


def test_without_anything_set_the_defaults_are_those_of_one_machine(tmp_path: Path) -> None:
    found = load_settings({"WAKEFUL_HOME": str(tmp_path)})
    assert (found.namespace, found.tenant, found.partitions) == ("wakeful", "local", 4)
    assert found.digest_key == LOCAL_DIGEST_KEY
    assert found.default_digest_key
    assert found.kafka is None


def test_blobs_lie_in_the_home_where_kafka_is_the_local_stacks_and_nowhere_else(
    tmp_path: Path,
) -> None:
    local = load_settings({"WAKEFUL_HOME": str(tmp_path)})
    assert local.blobs == (tmp_path / "blobs").as_uri()
    elsewhere = {"WAKEFUL_HOME": str(tmp_path), "WAKEFUL_KAFKA": "broker:9092"}
    assert load_settings(elsewhere).blobs is None
    given = load_settings({**elsewhere, "WAKEFUL_BLOBS": "s3://bucket/blobs"})
    assert given.blobs == "s3://bucket/blobs"


def test_a_store_whose_driver_is_missing_is_told_before_anything_starts(tmp_path: Path) -> None:
    given = load_settings({**URLS, "WAKEFUL_HOME": str(tmp_path), "WAKEFUL_BLOBS": "nosuch://x"})
    with pytest.raises(Stopped, match=r"WAKEFUL_BLOBS cannot be opened: .*nosuch") as told:
        prove_blobs(given)
    assert told.value.code == Exit.USAGE
    prove_blobs(load_settings({"WAKEFUL_HOME": str(tmp_path)}))


def test_without_a_stack_and_a_url_the_next_step_is_named(tmp_path: Path) -> None:
    found = load_settings({"WAKEFUL_HOME": str(tmp_path)})
    with pytest.raises(
        Stopped, match=r"no stack is running in .*: run 'wakeful up', or set WAKEFUL_KAFKA"
    ) as told:
        _ = found.kafka_servers
    assert told.value.code == Exit.UNAVAILABLE


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("WAKEFUL_PARTITIONS", "abc", "expected a whole number from 1 to 1000"),
        ("WAKEFUL_PARTITIONS", "0", "expected a whole number from 1 to 1000"),
        ("WAKEFUL_PARTITIONS", "0", "12 are the advice for production"),
        ("WAKEFUL_MIN_INSYNC_REPLICAS", "0", "expected a whole number from 1 to 10"),
        ("WAKEFUL_NAMESPACE", "Bad Name", "use a-z 0-9"),
        ("WAKEFUL_TENANT", "a/b", "use 1 to 128 of"),
        ("WAKEFUL_BLOBS", "blobs", "expected a URL such as file:///"),
        ("WAKEFUL_ALWAYS_REPLAY", "maybe", "expected 0 or 1"),
        ("WAKEFUL_FAILPOINT", "here", "write it like 'p.produced:3'"),
        ("WAKEFUL_LOG", "loud", "expected debug, info, warning or error"),
        ("WAKEFUL_LOG_FORMAT", "xml", "expected text or json"),
    ],
)
def test_a_value_that_cannot_work_is_named_with_its_variable(
    tmp_path: Path, variable: str, value: str, told: str
) -> None:
    error = refused(tmp_path, **{variable: value})
    assert error.message.startswith(f"{variable}={value}: ")
    assert told in error.message
    assert error.code == Exit.USAGE


def test_replicas_in_sync_reach_the_topics_that_are_created(tmp_path: Path) -> None:
    environ = {**URLS, "WAKEFUL_HOME": str(tmp_path), "WAKEFUL_MIN_INSYNC_REPLICAS": "2"}
    given, log = load_settings(environ), MemoryLog()
    created = apply_topics(log, given, ["default"])
    assert given.topics.events in created
    made = log._broker.topics.values()
    assert {topic.spec.config["min.insync.replicas"] for topic in made} == {"2"}


def test_a_short_digest_key_is_refused_without_being_shown(tmp_path: Path) -> None:
    error = refused(tmp_path, WAKEFUL_DIGEST_KEY="hunter2")
    assert "hunter2" not in error.message
    assert "it has 7 bytes: give 16 or more" in error.message


def test_a_digest_key_is_hex_or_text(tmp_path: Path) -> None:
    given = {**URLS, "WAKEFUL_HOME": str(tmp_path)}
    as_hex = load_settings({**given, "WAKEFUL_DIGEST_KEY": "ab" * 32})
    as_text = load_settings({**given, "WAKEFUL_DIGEST_KEY": "correct horse battery"})
    assert as_hex.digest_key == b"\xab" * 32
    assert as_text.digest_key == b"correct horse battery"


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    found = load_settings({**URLS, "WAKEFUL_HOME": str(tmp_path), "WAKEFUL_PARTITIONS": ""})
    assert found.partitions == 4


def test_passwords_and_keys_are_not_in_the_text_of_settings(tmp_path: Path) -> None:
    shown = repr(load_settings({**URLS, "WAKEFUL_HOME": str(tmp_path)}))
    assert "sekret" not in shown
    assert "digest" not in shown


def test_a_child_gets_exactly_the_settings_of_its_supervisor_without_the_crash_point(
    tmp_path: Path,
) -> None:
    given = Settings(
        kafka="broker:9092",
        postgres="postgresql://db/wakeful",
        redis="redis://cache/0",
        cluster_id="c-1",
        blobs="s3://bucket/blobs",
        namespace="desk",
        tenant="acme",
        actor="ann",
        home=tmp_path,
        digest_key=b"\x01" * 16,
        partitions=12,
        min_insync_replicas=2,
        open_policy=True,
        tenant_quota_commands="100/s",
        tenant_quota_sessions="20/h",
        always_replay=True,
        failpoint="p.begun",
        log="debug",
        log_format="json",
    )
    assert load_settings(given.to_environ()) == given.model_copy(update={"failpoint": ""})


def test_a_quota_is_read_as_a_rate_and_none_is_no_limit(tmp_path: Path) -> None:
    home = {"WAKEFUL_HOME": str(tmp_path)}
    given = load_settings({**home, "WAKEFUL_TENANT_QUOTA_SESSIONS": "20/h"})
    assert given.quotas == Quotas(sessions=Rate(20, 3_600_000))
    assert load_settings(home).quotas == Quotas()
    with pytest.raises(
        Stopped, match="WAKEFUL_TENANT_QUOTA_COMMANDS=lots: expected a rate such as"
    ):
        load_settings({**home, "WAKEFUL_TENANT_QUOTA_COMMANDS": "lots"})
