"""`wakeful projections rebuild` over a real broker and a real database, while a projector runs."""

import json
import random
import re

import psycopg
import pytest
import structlog

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Isolation, Place
from wakeful.events.topics import Topics
from wakeful.projections import escaping
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews, stored_rows
from wakeful.projections.projector import Projector
from wakeful.projections.schemas import Schemas


@pytest.fixture
def log(kafka, namespace):
    with KafkaLog(kafka, client_id="rebuild-test") as one:
        topic = Topics(namespace).events
        one.create_topics([spec for spec in Topics(namespace).specs((), 2) if spec.name == topic])
        yield one
        one.delete_topics([topic])


@pytest.fixture
def told(log, namespace, new_scribe):
    """Some stories, in the log."""
    scribe = new_scribe(topic=Topics(namespace).events)
    scribe.tell_many(10, random.Random(3))
    writer = log.transactional(f"{namespace}-writer")
    writer.start()
    writer.begin()
    for record in scribe.records:
        writer.produce(
            record.topic,
            key=record.key,
            value=record.value,
            headers=record.headers,
            partition=record.partition,
        )
    writer.commit()
    return scribe


@pytest.fixture
def live(log, postgres_url, namespace, told, catch_up):
    """The views, filled by a projector that goes on to hold its connection."""
    install(postgres_url, namespace)
    views, reader = PostgresViews(postgres_url, namespace), log.reader(Isolation.COMMITTED)
    places = [Place(told.topic, n) for n in range(2)]
    catch_up(Projector(reader, views, places, lambda x: decode_event(x.value, x.headers)))
    yield postgres_url
    views.close()
    reader.close()
    drop(postgres_url, namespace)


@pytest.fixture
def run(kafka, live, namespace, tmp_path, monkeypatch, capsys):
    """Runs the command: code, what it says as JSON, and stderr."""
    values = {"KAFKA": kafka, "POSTGRES": live, "NAMESPACE": namespace, "HOME": str(tmp_path)}
    monkeypatch.delenv("WAKEFUL_CLUSTER_ID", raising=False)
    for name, value in values.items():
        monkeypatch.setenv(f"WAKEFUL_{name}", value)

    def run_one(*options):
        capsys.readouterr()
        code = invoke(["projections", "rebuild", *options])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    yield run_one
    structlog.reset_defaults()


def test_it_builds_compares_and_switches_and_tells_how_far_it_is(run, live, namespace, told):
    code, said, progress = run("--json")
    nothing = {"differing": 0, "differences": [], "refused": 0, "refusals": []}
    assert (code, said) == (Exit.DONE, {"switched": True, **nothing})
    assert [word for word in ("builds", "compares", "switches", "done") if word in progress] == [
        *("builds", "compares", "switches", "done"),
    ]
    assert list(differences(stored_rows(live, namespace), rebuild_rows(told.events))) == []


def test_a_difference_is_shown_and_is_put_right_only_when_that_is_asked(run, live, namespace, told):
    with psycopg.connect(live) as connection:
        connection.execute(
            Schemas(namespace).fill("UPDATE {live}.sessions SET turn = 50 WHERE session_id = 's1'")
        )
    code, said, progress = run("--json")
    assert (code, said["switched"], said["differing"]) == (Exit.REFUSED, False, 1)
    assert said["differences"][0]["table"] == "sessions"
    assert "turn is '50'" in said["differences"][0]["what"]
    assert "--accept-differences" in progress
    code, _, progress = run("--discard")
    assert (code, progress) == (Exit.DONE, "the rebuilt rows are dropped\n")
    code, said, _ = run("--accept-differences", "--json")
    assert (code, said["switched"], said["differing"]) == (Exit.DONE, True, 1)
    assert list(differences(stored_rows(live, namespace), rebuild_rows(told.events))) == []


def test_a_rebuild_that_met_refused_rows_says_which_and_exits_with_1(
    run, live, namespace, told, log, catch_up, monkeypatch
):
    session = ("t0", "half")
    told.add(session, r.SessionOpened("desk"))
    told.add(session, r.ReplySent(1, 1, told.raw_payload(rb'"\udcff"')))
    writer = log.transactional(f"{namespace}-writer")
    writer.start()
    writer.begin()
    for x in told.records[-2:]:
        writer.produce(x.topic, key=x.key, value=x.value, headers=x.headers, partition=x.partition)
    writer.commit()
    high_only = re.compile(rb"\\u(?:0000|[dD][89abAB])")
    monkeypatch.setattr(escaping, "_SUSPECT", high_only)
    views, reader = PostgresViews(live, namespace), log.reader(Isolation.COMMITTED)
    places = [Place(told.topic, n) for n in range(2)]
    catch_up(Projector(reader, views, places, lambda x: decode_event(x.value, x.headers)))
    views.close()
    reader.close()
    code, said, progress = run("--json")
    assert (code, said["switched"], said["differing"]) == (Exit.REFUSED, True, 0)
    assert (said["refused"], len(said["refusals"])) == (1, 1)
    assert "sessions.last_reply kept as opaque text: 22P02" in said["refusals"][0]["what"]
    assert "the database refused what 1 records hold" in progress
    monkeypatch.undo()
