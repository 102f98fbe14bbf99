"""The projector between a real broker and a real database."""

import random

import pytest

from wakeful.events.codec import decode_event
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Isolation, OffsetGone, Place
from wakeful.events.topics import Topics
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.database import drop, install
from wakeful.projections.lag import lag
from wakeful.projections.postgres import PostgresViews, stored_rows
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries

ABORTED = 20_000


@pytest.fixture
def log(kafka, namespace):
    with KafkaLog(kafka, client_id="projector-test") as one:
        topic = Topics(namespace).events
        one.create_topics([spec for spec in Topics(namespace).specs((), 2) if spec.name == topic])
        yield one
        one.delete_topics([topic])


@pytest.fixture
def project(log, postgres_url, namespace, catch_up):
    install(postgres_url, namespace)
    topic = Topics(namespace).events
    views, reader = PostgresViews(postgres_url, namespace), log.reader(Isolation.COMMITTED)
    places = [Place(topic, 0), Place(topic, 1)]
    projector = Projector(
        reader, views, places, lambda x: decode_event(x.value, x.headers), poll_ms=50
    )

    def run():
        catch_up(projector)
        return projector

    yield run
    reader.close()
    views.close()
    drop(postgres_url, namespace)


def append(log, topic, records, *, producer=None):
    """One transaction; it is left open where a producer is handed in."""
    mine = producer or log.transactional(f"{topic}-writer")
    if producer is None:
        mine.start()
    mine.begin()
    for record in records:
        mine.produce(
            topic,
            key=record.key,
            value=record.value,
            headers=record.headers,
            partition=record.partition,
        )
    if producer is None:
        mine.commit()
        mine.abandon()


@pytest.mark.case("L7")
@pytest.mark.case("L8")
def test_views_pass_aborted_records_and_are_not_behind_a_transaction_that_is_open(
    log, project, postgres_url, namespace, new_scribe
):
    topic = Topics(namespace).events
    scribe = new_scribe(topic=topic)
    scribe.tell_many(10, random.Random(1))
    half = len(scribe.records) // 2
    append(log, topic, scribe.records[:half])
    doomed = log.transactional(f"{topic}-doomed")
    doomed.start()
    doomed.begin()
    for number in range(ABORTED):
        doomed.produce(topic, key=b"x", value=b"never", partition=number % 2)
    doomed.abandon()
    again = log.transactional(f"{topic}-doomed")
    again.start()  # settles what was left open: it is aborted
    again.abandon()
    append(log, topic, scribe.records[half:])
    still_open = log.transactional(f"{topic}-open")
    still_open.start()
    append(log, topic, scribe.records[:5], producer=still_open)

    projector = project()

    assert (
        list(differences(stored_rows(postgres_url, namespace), rebuild_rows(scribe.events))) == []
    )
    assert set(lag(log, topic, projector.positions).values()) == {0}
    with Queries(postgres_url, namespace) as queries:
        assert queries.positions() == projector.positions
        assert queries.gaps() == []
    still_open.abandon()


def test_a_position_that_the_log_does_not_have_stops_the_projector(
    log, project, postgres_url, namespace
):
    place = Place(Topics(namespace).events, 0)
    from wakeful.projections.views import Batch

    views = PostgresViews(postgres_url, namespace)
    views.claim([place])
    views.apply(Batch({place: (0, 1_000)}))
    views.send_commit()
    views.await_commit()
    views.close()
    with pytest.raises(OffsetGone):
        project()
