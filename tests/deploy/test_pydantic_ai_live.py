"""An agent of Pydantic AI on real Kafka: killed while it waits for a person, it pays once and asks its model no more than before."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.supervised import until

from wakeful.deploy.cli.context import client, kafka
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

APP = str(Path(__file__).parents[2] / "examples" / "pydantic_agent.py")
LIMIT_S = 60.0
"""How long is waited where the machine is busy; an idle one takes some seconds."""


@pytest.fixture
def desk(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Settings, Supervisor, Path]]:
    """The agent, running, and the book of what it has paid."""
    book = tmp_path / "book"
    monkeypatch.setenv("AGENT_BOOK", str(book))
    monkeypatch.delenv("AGENT_MODEL", raising=False)
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"pyd{os.getpid()}",
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
        apply_topics(log, settings, ["models"])
    prepare_views(settings)
    with Supervisor(settings, APP, queues=["models"]) as supervisor:
        yield settings, supervisor, book


def facts(log: KafkaLog, settings: Settings, kind: type) -> list:
    """All facts of this kind."""
    topic = settings.topics.events
    places = {Place(topic, number): 0 for number in range(log.partitions(topic))}
    bodies = [decode_event(x.value, x.headers).body for x in to_the_end(log, places)]
    return [body for body in bodies if isinstance(body, kind)]


@pytest.mark.slow
def test_an_agent_that_is_killed_while_it_waits_pays_once(
    desk: tuple[Settings, Supervisor, Path],
) -> None:
    settings, supervisor, book = desk
    session = f"s{os.getpid()}"
    with kafka(settings) as log, client(settings, log) as asking:
        asking.open("desk", session)
        asking.send(session, "It came broken.")
        until(
            lambda: facts(log, settings, r.ApprovalRequested), "somebody is asked", limit_s=LIMIT_S
        )
        supervisor.kill("processor-0")
        supervisor.kill("worker-models-0")
        (asked,) = facts(log, settings, r.ApprovalRequested)
        asking.decide(session, asked.proposal_id, asked.digest, "approve")
        until(lambda: facts(log, settings, r.ReplySent), "the answer", limit_s=LIMIT_S)
        (reply,) = facts(log, settings, r.ReplySent)
        assert load_json(reply.message)["text"] == "It is on its way."
        done = [one.name for one in facts(log, settings, r.ActivityRequested)]
    assert done == [
        "desk.v1.model",
        "desk.last_order",
        "desk.v1.model",
        "desk.pay_back",
        "desk.v1.model",
    ]
    assert book.read_text(encoding="utf-8") == f"acme/{session}/1/6 25000\n"
