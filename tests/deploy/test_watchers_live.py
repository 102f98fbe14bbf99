"""Watchers on a real broker: killed, joined by others, and among transactions that were aborted."""

import json
import random
import sys
import time
from importlib.util import find_spec

import pytest
from confluent_kafka.admin import AdminClient
from tests.deploy.watching_rig import PARTITIONS, Rig, until

from wakeful.deploy.cli import doctor
from wakeful.deploy.cli.findings import of_watchers
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.settings import Settings
from wakeful.deploy.watching import check_topics
from wakeful.events import records as r
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Isolation, Place

pytestmark = pytest.mark.slow


@pytest.fixture
def rig(kafka, namespace, tmp_path):
    if "faust" not in sys.modules and find_spec("faust") is None:
        pytest.skip("installed without wakeful[watch]")
    one = Rig(kafka, namespace, tmp_path, watch_stalled_after="20s")
    yield one
    one.close()


@pytest.mark.chaos
@pytest.mark.case("L13")
def test_given_kills_and_a_rebalance_then_windows_equal_a_recount_of_what_was_committed(
    rig, kafka, namespace
):
    rig.watch("one")
    rig.watch("two")
    rig.scribe.tell_many(30, random.Random(1))
    rig.write(at_once=7)
    rig.scribe.add(("acme", "doomed"), r.SessionOpened("desk"))
    for step in range(30):
        rig.scribe.request(("acme", "doomed"), f"1.{step}")
    rig.write(aborted=True)
    until(lambda: rig.speakers() == {"one", "two"}, "two watchers")
    rig.scribe.tell_many(40, random.Random(2))
    rig.write(at_once=7)
    rig.kill("one")
    rig.scribe.tell_many(30, random.Random(3))
    rig.write(at_once=7)
    until(lambda: rig.speakers() == {"two"}, "the second watcher alone")
    expected = rig.recount()
    until(lambda: rig.windows() == expected, "the windows")
    assert expected.total() > 200

    known = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    assert {name for name in known if name.startswith(namespace)} == set(rig.created)


def test_given_a_session_that_stands_still_then_it_is_proposed_until_it_goes_on_and_nothing_is_sent(
    rig, kafka, monkeypatch, capsys
):
    stuck = ("local", "stuck")
    rig.scribe.add(stuck, r.SessionOpened("desk"))
    rig.scribe.add(stuck, r.MessageReceived("m1", rig.scribe.payload({})))
    rig.scribe.add(stuck, r.TurnStarted(1, "message", "", "m1", "desk", 3, ()))
    rig.write()
    for name, value in rig.settings.to_environ().items():
        monkeypatch.setenv(name, value)
    assert top(capsys)["watchers"]["ever"] is False
    assert doctor._watchers(rig.settings)[0].verdict == "ok"

    rig.watch("one")
    until(lambda: top(capsys)["proposals"], "a proposal")
    shown = top(capsys)
    (one,) = shown["proposals"]
    assert (one["proposes"], one["session_id"], one["version"]) == ("RecoverSession", "stuck", 3)
    assert shown["watchers"]["silent_partitions"] == []
    (finding,) = doctor._watchers(rig.settings)
    assert finding.verdict == "wrong"
    assert "stuck: its turn runs" in finding.what
    monkeypatch.setenv("WAKEFUL_TENANT", "other")
    assert top(capsys)["proposals"] == []
    assert top(capsys, "--all-tenants")["proposals"] == [one]

    rig.scribe.now_ms = int(time.time() * 1000)
    rig.scribe.request(stuck, "1.1")
    rig.write()
    until(lambda: not top(capsys, "--all-tenants")["proposals"], "the proposal to be withdrawn")
    (asked,) = [c for key, c in rig.watched.look().windows() if key.tool == "refund"]
    assert asked["requested"] == 1
    assert rig.stop("one") == Exit.DONE

    mine = {rig.topics.events, rig.topics.watch_windows, rig.topics.watch_proposals}
    others = [Place(topic, 0) for topic in rig.created if topic not in mine]
    ends = rig.log.ends(others, Isolation.UNCOMMITTED)
    assert {end for _, end in ends.values()} == {0}
    silence = rig.watched.look().silence(PARTITIONS, rig.scribe.now_ms + 3_600_000)
    (finding, *_) = of_watchers(silence, [], rig.scribe.now_ms + 3_600_000)
    assert finding.verdict == "wrong"
    assert finding.what.startswith("watchers have said nothing for ")


def top(capsys, *options):
    """What `wakeful top --json` says."""
    capsys.readouterr()
    assert invoke(["top", "--json", *options]) == Exit.DONE
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "environ", "told"),
    [
        (["--name", "a/b"], {}, "--name is 'a/b'"),
        (["--session-timeout", "soon"], {}, "--session-timeout: 'soon' is not a duration"),
        (["--session-timeout", "1ms"], {}, "give 500ms to 5m"),
        ([], {"WAKEFUL_WATCH_STALLED_AFTER": "0s"}, "WAKEFUL_WATCH_STALLED_AFTER=0s: expected a d"),
        ([], {"WAKEFUL_WATCH_STALLED_AFTER": "x"}, "WAKEFUL_WATCH_STALLED_AFTER=x: expected a dur"),
        ([], {"WAKEFUL_MODEL_PRICES": "m=1"}, "WAKEFUL_MODEL_PRICES=m=1: 'm=1' is no price: write"),
    ],
)
def test_given_a_setting_that_is_none_then_the_error_names_it_and_what_to_give(
    arguments, environ, told, monkeypatch, capsys
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert invoke(["watch", *arguments]) == Exit.USAGE
    assert told in capsys.readouterr().err


def test_given_topics_that_are_missing_or_of_other_numbers_then_no_watcher_starts(
    kafka, namespace, tmp_path
):
    given = Settings(kafka=kafka, namespace=namespace, home=tmp_path)
    made = [spec for spec in given.topics.specs((), 1) if spec.name != given.topics.watch_proposals]
    with KafkaLog(kafka, client_id="watchers-test") as log:
        log.create_topics(made)
        with pytest.raises(Stopped, match=r"watch-proposals.* is missing: run 'wakeful topics ap"):
            check_topics(log, given)
        (last,) = [s for s in given.topics.specs((), 2) if s.name == given.topics.watch_proposals]
        log.create_topics([last])
        with pytest.raises(Stopped, match="the same number of partitions"):
            check_topics(log, given)
        log.delete_topics([last.name, *(spec.name for spec in made)])
