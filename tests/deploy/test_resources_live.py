"""A resource on real Kafka: held over turns, though its process and what runs the session are killed in between."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.supervised import until

from wakeful.deploy.cli.context import client, kafka, queries
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.deploy.telling.reading import to_the_end
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Place
from wakeful.events.payloads import load_json

APP = str(Path(__file__).parents[2] / "examples" / "sandbox.py")


@pytest.fixture
def desk(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Settings, Supervisor]]:
    """The agent with a sandbox, running."""
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"box{os.getpid()}",
        tenant="acme",
        actor="ann",
        home=tmp_path / "run",
        open_policy=True,
        keys=keys,
    )
    settings.home.mkdir()
    for name, value in settings.to_environ().items():
        monkeypatch.setenv(name, value)
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, ["default"])
    prepare_views(settings)
    with Supervisor(settings, APP, queues=["default"], spares_max=0) as supervisor:
        yield settings, supervisor


def facts(log: KafkaLog, settings: Settings) -> list[r.EventBody]:
    """All facts."""
    topic = settings.topics.events
    places = {Place(topic, number): 0 for number in range(log.partitions(topic))}
    return [decode_event(x.value, x.headers).body for x in to_the_end(log, places)]


@pytest.mark.slow
def test_a_sandbox_is_held_over_turns_and_kills_and_given_back_in_the_end(
    desk: tuple[Settings, Supervisor],
) -> None:
    settings, supervisor = desk
    session = f"s{os.getpid()}"
    with kafka(settings) as log, client(settings, log) as asking, queries(settings) as views:

        def said() -> list[str]:
            replies = [b for b in facts(log, settings) if isinstance(b, r.ReplySent)]
            return [load_json(body.message)["text"] for body in replies]

        asking.open("coder", session)
        asking.send(session, ["x = 20", "print(x + 1)"])
        until(lambda: said() == ["(attached)", "21"], "the first turn")
        supervisor.kill("processor-0")
        asking.send(session, ["x += 1", "print(x)"])
        until(lambda: said()[2:] == ["21"], "the same sandbox")
        (attached,) = [b for b in facts(log, settings) if isinstance(b, r.ResourceAttached)]
        box = load_json(attached.handle)
        os.kill(box["pid"], signal.SIGKILL)
        shutil.rmtree(box["folder"])
        asking.send(session, ["x *= 2", "print(x)"])
        until(lambda: said()[3:] == ["(reattached)", "42"], "another one, which is where it was")
        until(lambda: _held(views, session), "the views show it")
        (row,) = views.session(session, tenant="acme")
        assert [one["kind"] for one in row["holds"]] == ["sandbox"]
        until(lambda: _rests(views, session), "the session rests, and waits for nothing")
        asking.cancel(session, "that was all")
        until(lambda: isinstance(facts(log, settings)[-1], r.SessionCancelled), "the end")
        (again,) = [b for b in facts(log, settings) if isinstance(b, r.ResourceReattached)]
        assert not Path(load_json(again.handle)["folder"]).exists()
        until(lambda: _ends(views, session) == ["lost", "ended"], "the views say how both ended")


def _ends(views, session):
    rows = views.ask(_ROWS, tenant="acme", limit=10)
    return [row["status"] for row in rows if row["session_id"] == session]


def _held(views, session):
    return _ends(views, session) == ["lost", "attached"]


_ROWS = (
    "SELECT session_id, status FROM {views}.resources WHERE tenant = %(tenant)s ORDER BY turn, step"
    " LIMIT %(limit)s"
)


def _rests(views, session):
    (row,) = views.session(session, tenant="acme")
    return (row["status"], row["waiting_for"]) == ("Suspended", [])
