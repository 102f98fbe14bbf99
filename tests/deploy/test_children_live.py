"""Children on real Kafka: opened once and told of once, though what runs them is killed in the middle."""

import os
from collections import Counter
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

APP = str(Path(__file__).parents[2] / "examples" / "fanout.py")
TITLES = [f"article-{number}" for number in range(6)]


@pytest.fixture
def desk(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Settings, Supervisor]]:
    """The magazine, running."""
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"kin{os.getpid()}",
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


def facts(log: KafkaLog, settings: Settings) -> list[r.Event]:
    """All events."""
    topic = settings.topics.events
    places = {Place(topic, number): 0 for number in range(log.partitions(topic))}
    return [decode_event(x.value, x.headers) for x in to_the_end(log, places)]


@pytest.mark.slow
def test_children_of_children_are_opened_once_though_the_processor_is_killed(
    desk: tuple[Settings, Supervisor],
) -> None:
    settings, supervisor = desk
    with kafka(settings) as log, client(settings, log) as asking:
        asking.open("magazine", "m1")
        asking.send("m1", TITLES)

        def opened() -> int:
            return sum(isinstance(event.body, r.SessionOpened) for event in facts(log, settings))

        until(lambda: opened() > 3, "some children")
        supervisor.kill("processor-0")

        def replied() -> list[r.Event]:
            return [e for e in facts(log, settings) if isinstance(e.body, r.ReplySent)]

        until(replied, "the issue")
        events = facts(log, settings)
    starts = Counter(e.body.child_id for e in events if isinstance(e.body, r.ChildStarted))
    told = Counter(e.body.child_id for e in events if isinstance(e.body, r.ChildCompleted))
    children = [e for e in events if isinstance(e.body, r.SessionOpened) and e.body.parent]
    assert len(children) == len(starts) == len(told) == 4 * len(TITLES)
    assert set(starts.values()) == set(told.values()) == {1}
    with queries(settings) as views:
        until(
            lambda: views.ask(_OPEN, tenant="acme", limit=100) == [],
            "the views say that all is over",
        )
        (row,) = views.session("m1", tenant="acme")
    assert row["tainted_by"] == ["read_source"]


_OPEN = "SELECT child_id FROM {views}.children WHERE tenant = %(tenant)s AND status = 'open' LIMIT %(limit)s"
