"""The observer of chaos runs tells what is doubled, missing, out of order, or gone; and nothing of what is as it must be."""

from dataclasses import replace

import pytest

from tests.chaos.observer import Observer
from tests.processors.loops import Cluster


@pytest.fixture
def cluster():
    """Two sessions on a log in memory."""
    one = Cluster(partitions=2)
    one.start()
    one.open("s1", last=True)
    one.open("s2")
    one.run()
    return one


def events_of(cluster):
    return cluster.log.dump(cluster.topics.events)


def watching(cluster):
    return Observer(cluster.log, cluster.topics.events, 2)


def test_what_is_as_it_must_be_is_all_seen_and_nothing_is_told(cluster):
    observer = watching(cluster)
    assert observer.stop() == []
    assert len(observer.seen) == len(events_of(cluster)) > 4


def test_an_event_that_comes_twice_or_after_a_gap_is_told(cluster):
    observer = watching(cluster)
    observer.stop()
    last = max(events_of(cluster), key=lambda one: (one.partition, one.offset))
    observer._see(replace(last, offset=last.offset + 1))
    (told,) = observer.told
    assert "is there twice" in told

    fresh = watching(cluster)
    fresh.stop()
    fresh.seen.clear()
    fresh._last.clear()
    fresh._positions = dict.fromkeys(fresh._positions, 0)
    fresh._see(last)
    (told,) = fresh.told
    assert "comes after 0" in told


def test_what_was_seen_and_is_gone_or_is_there_and_was_not_seen_is_told(cluster, monkeypatch):
    monkeypatch.setattr("tests.chaos.observer.CATCHES_UP_S", 0.0)
    observer = watching(cluster)
    observer.stop()
    key = next(iter(observer.seen))
    there = observer.seen.pop(key)
    observer.seen["acme", "ghost", 1] = there
    told = observer.stop()
    assert len(told) == 2
    assert any("'ghost', 1) was seen at" in one and "is at None" in one for one in told)
    assert any("was seen at None" in one for one in told)
