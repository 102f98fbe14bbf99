"""The doctor's findings: what is well has nothing to be done, and whatever is wrong says what to do."""

import json
from dataclasses import replace

import pytest
from tests.commands.keys import key

from wakeful.commands.keyring import RETIRED, REVOKED, Keyring
from wakeful.deploy.cli import doctor
from wakeful.deploy.cli.findings import (
    LETTERS_LATE_MS,
    LETTERS_MAX,
    SKEW_MAX_MS,
    Finding,
    of_clock,
    of_keys,
    of_lag,
    of_letters,
    of_policy,
    of_settings,
    of_topics,
    summary,
)
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.keyfile import changing, ensure_local_keys
from wakeful.deploy.settings import Settings
from wakeful.events.topics import Topics

WANTED = Topics("desk").specs(["default"], 4)
COMMANDS = "desk.commands.v1"


def there(**changes):
    """The topics as they should be, but for the settings of the commands' topic."""
    found = {spec.name: spec for spec in WANTED}
    spec = found[COMMANDS]
    config = {**spec.config, **{key.replace("_", "."): value for key, value in changes.items()}}
    return {**found, COMMANDS: replace(spec, config=config)}


def test_topics_of_the_table_are_well_also_where_they_keep_more():
    for found in (there(), there(retention_ms="-1"), there(max_message_bytes="99999999")):
        (finding,) = of_topics(WANTED, found, 4)
        assert (finding.verdict, finding.to_do) == ("ok", "")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"retention_ms": "1000"}, "retention.ms is 1000, not 604800000"),
        ({"cleanup_policy": "compact"}, "cleanup.policy is compact, not delete"),
        (
            {"message_timestamp_type": "CreateTime"},
            "message.timestamp.type is CreateTime, not LogAppendTime",
        ),
    ],
)
def test_a_topic_that_keeps_less_or_dates_otherwise_is_named_with_what_to_do(changes, told):
    (finding,) = of_topics(WANTED, there(**changes), 4)
    assert (finding.verdict, finding.what) == ("wrong", f"{COMMANDS}: {told}")
    assert f"--topic {COMMANDS} --add-config " in finding.to_do


def test_events_that_do_not_last_for_ever_are_wrong():
    name = "desk.events.v1"
    spec = there()[name]
    short = replace(spec, config={**spec.config, "retention.ms": "999999999999"})
    (finding,) = of_topics(WANTED, {**there(), name: short}, 4)
    assert finding.what == f"{name}: retention.ms is 999999999999, not -1"


def test_missing_topics_and_other_partitions_are_each_a_finding():
    found = there()
    del found["desk.outcomes.v1"]
    found[COMMANDS] = replace(found[COMMANDS], partitions=6)
    told = {one.what: one.to_do for one in of_topics(WANTED, found, 4)}
    assert "'wakeful topics apply'" in told["desk.outcomes.v1 is missing"]
    assert "set WAKEFUL_PARTITIONS to 6" in told[f"{COMMANDS} has 6 partitions, not 4"]


@pytest.mark.parametrize(
    ("at_ms", "verdict", "told"),
    [
        (1_005, "ok", "no difference seen"),
        (900, "ok", "they differ by 0.1 s"),
        (1_010 + SKEW_MAX_MS + 1, "wrong", "5.0 s ahead of this machine's"),
        (1_000 - 3_600_000, "wrong", "1 h behind this machine's"),
    ],
)
def test_the_broker_s_time_must_lie_between_two_of_ours(at_ms, verdict, told):
    finding = of_clock(1_000, at_ms, 1_010)
    assert (finding.verdict, told in finding.what) == (verdict, True)
    assert bool(finding.to_do) == (verdict == "wrong")


@pytest.mark.parametrize(
    ("records", "processors", "verdict"),
    [(0, 1, "ok"), (500, 1, "ok"), (1_001, 1, "wrong"), (0, 0, "advice"), (1, 0, "wrong")],
)
def test_lag_is_wrong_where_nobody_catches_up(records, processors, verdict):
    lags = [{"reader": "processors", "lag": records}, {"reader": "projector", "lag": 0}]
    decided, projected = of_lag(lags, processors)
    assert (decided.verdict, projected.verdict) == (verdict, "ok")


def test_the_known_digest_key_is_for_one_machine():
    key, blobs = of_settings(Settings(kafka="127.0.0.1:9092,localhost:9093"))
    assert (key.verdict, blobs.verdict) == ("ok", "advice")
    for servers in ("kafka.example:9092", "127.0.0.1:9092,kafka.example:9092"):
        key, _ = of_settings(Settings(kafka=servers))
        assert key.verdict == "wrong"
        assert "WAKEFUL_DIGEST_KEY" in key.to_do
    own = Settings(kafka="kafka.example:9092", digest_key=b"k" * 16, blobs="s3://b/blobs")
    assert [one.verdict for one in of_settings(own)] == ["ok", "ok"]


def test_settings_of_tests_are_pointed_at():
    given = Settings(failpoint="p.produced:3", always_replay=True)
    told = {one.what.split("=")[0].split()[0]: one.verdict for one in of_settings(given)[2:]}
    assert told == {"WAKEFUL_FAILPOINT": "wrong", "WAKEFUL_ALWAYS_REPLAY": "advice"}


def test_a_store_of_blobs_that_cannot_be_written_is_wrong(tmp_path):
    (tmp_path / "file").write_text("")
    assert doctor._store(Settings(blobs=(tmp_path / "new" / "blobs").as_uri())) == []
    (finding,) = doctor._store(Settings(blobs=(tmp_path / "file" / "blobs").as_uri()))
    assert finding.verdict == "wrong"
    assert str(tmp_path / "file") in finding.what


def test_without_a_stack_every_look_says_what_to_do_and_the_code_is_one(alone, capsys):
    assert invoke(("doctor",)) == Exit.REFUSED
    out, err = capsys.readouterr()
    assert f"wrong    kafka              no stack is running in {alone}" in out
    assert "do: run 'wakeful up', or set WAKEFUL_KAFKA" in out
    assert "do: run 'wakeful up', or set WAKEFUL_POSTGRES" in out
    assert "are wrong" in err


@pytest.mark.usefixtures("alone")
def test_services_that_do_not_answer_are_named_without_passwords(monkeypatch, capsys):
    monkeypatch.setattr("wakeful.deploy.cli.context.KAFKA_LIMIT_S", 0.2)
    monkeypatch.setattr("wakeful.deploy.cli.context.POSTGRES_LIMIT_S", 0.2)
    monkeypatch.setenv("WAKEFUL_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("WAKEFUL_POSTGRES", "postgresql://ann:sekret@127.0.0.1:1/x")
    monkeypatch.setenv("WAKEFUL_REDIS", "redis://:sekret@127.0.0.1:1")
    assert invoke(("doctor", "--json")) == Exit.REFUSED
    out = capsys.readouterr().out
    verdicts = {one["name"]: one["verdict"] for one in json.loads(out)["findings"]}
    assert (verdicts["kafka"], verdicts["postgres"], verdicts["redis"]) == (
        "wrong",
        "wrong",
        "advice",
    )
    assert all(one["to_do"] for one in json.loads(out)["findings"] if one["verdict"] != "ok")
    assert "sekret" not in out
    told = next(one["what"] for one in json.loads(out)["findings"] if one["name"] == "kafka")
    assert told == "no answer from 127.0.0.1:1 within 0.2 s"


def test_it_says_whether_commands_are_signed_and_what_is_wrong_with_the_keyring(tmp_path):
    path = tmp_path / "keys.json"
    ensure_local_keys(path)
    (signed,) = doctor._keys(Settings(keys=path))
    assert (signed.verdict, "4 keys" in signed.what) == ("ok", True)
    (believing,) = doctor._keys(Settings(keys=path, insecure=True))
    assert (believing.verdict, "WAKEFUL_INSECURE" in believing.to_do) == ("advice", True)
    with changing(path) as keys:
        keys[:] = [replace(key, status=RETIRED) for key in keys]
    (silent,) = doctor._keys(Settings(keys=path))
    assert (silent.verdict, "wakeful keys new" in silent.to_do) == ("wrong", True)
    path.chmod(0o644)
    (open_to_all,) = doctor._looked("keys", lambda: doctor._keys(Settings(keys=path)))
    assert (open_to_all.verdict, "chmod 600" in open_to_all.to_do) == ("wrong", True)
    assert open_to_all.what.endswith("(its mode is 0644)")
    (none,) = doctor._looked("keys", lambda: doctor._keys(Settings()))
    assert (none.verdict, "wakeful keys new" in none.to_do) == ("wrong", True)


LOCAL = {role: key(role, role) for role in ("client", "worker", "processor", "publisher")}


@pytest.mark.parametrize("role", sorted(LOCAL))
@pytest.mark.parametrize("end", [{"status": REVOKED}, {"status": RETIRED}, {"not_after_ms": 999}])
def test_a_role_whose_last_key_has_ended_is_wrong_and_named(role, end):
    ended = Keyring({**LOCAL, role: replace(LOCAL[role], **end)}.values())
    (finding,) = of_keys(ended, "keys.json", 1_000)
    assert (finding.verdict, f"no {role}'s key of keys.json is active" in finding.what) == (
        "wrong",
        True,
    )
    assert f"wakeful keys new --role {role}" in finding.to_do
    mended = Keyring((*ended.keys, key("next", role)))
    assert [one.verdict for one in of_keys(mended, "keys.json", 1_000)] == ["ok"]


def test_a_policy_that_nobody_goes_by_is_told_with_what_to_do():
    assert of_policy(None, "", []).what == "none is published"
    assert (of_policy(3, "", []).verdict, of_policy(3, "", []).what) == (
        "ok",
        "version 3 is in force",
    )
    ignored = of_policy(3, "", ["an old one", "the set at offset 7 is ignored: unsigned"])
    assert (ignored.verdict, ignored.what) == (
        "advice",
        "the set at offset 7 is ignored: unsigned",
    )
    assert "who may write to the control topic" in ignored.to_do
    assert of_policy(3, "it cannot be read", ["x"]).verdict == "wrong"


def test_it_is_all_well_only_where_nothing_is_advised():
    well, advised = Finding("a", "ok", ""), Finding("b", "advice", "", "do")
    assert summary([well]) == "all is well"
    assert summary([well, advised]) == "nothing is wrong; advice on 1 of 2"
    assert summary([well, advised, Finding("c", "wrong", "", "do")]) == "1 of 3 are wrong"


def test_a_gateway_s_key_is_as_good_as_a_client_s():
    ring = Keyring(
        (LOCAL["worker"], LOCAL["processor"], LOCAL["publisher"], key("door", "gateway"))
    )
    assert [one.verdict for one in of_keys(ring, "keys.json", 1_000)] == ["ok"]


def test_a_public_half_stands_for_whoever_has_the_other():
    half = replace(key("far", "worker", algorithm="ed25519"), secret=None)
    ring = Keyring((LOCAL["client"], LOCAL["processor"], LOCAL["publisher"], half))
    assert [one.verdict for one in of_keys(ring, "keys.json", 1_000)] == ["ok"]


def test_a_role_that_a_keyring_never_had_is_advice_only():
    found = of_keys(
        Keyring((LOCAL["client"], LOCAL["worker"], LOCAL["publisher"])), "keys.json", 1_000
    )
    assert [one.verdict for one in found] == ["advice"]
    assert "no processor's key" in found[0].what


def test_young_dead_letters_are_counted_by_reason_and_old_ones_are_no_news():
    now = 10 * LETTERS_LATE_MS
    young, old = now - LETTERS_LATE_MS + 1, now - LETTERS_LATE_MS
    found = of_letters([(old, "old"), (young, "unsigned"), (now, "unsigned"), (now, "late")], now)
    assert (found.verdict, found.what) == ("advice", "3 in the last 1 h: 2 unsigned, 1 late")
    assert "wakeful dlq list" in found.to_do
    assert of_letters([(old, "old")], now).verdict == "ok"
    assert "at least 1000 in" in of_letters([(now, "unsigned")] * LETTERS_MAX, now).what
