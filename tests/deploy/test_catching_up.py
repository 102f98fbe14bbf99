"""What was just done is listed: a list waits until the views hold what the log does, and says what kept them from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from wakeful.deploy.cli.showing import catch_up
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.settings import Settings
from wakeful.events.errors import Transient
from wakeful.events.keys import partition_of, session_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Place

SETTINGS = Settings(kafka="b:1", namespace="desk", tenant="acme")
PARTITIONS = 3


class Views:
    """Knows what it was asked to wait for, and may be behind."""

    def __init__(self, behind: str = "") -> None:
        self.behind, self.wanted = behind, dict[Place, int]()

    def wait_for(self, wanted: Mapping[Place, int], *, timeout_ms: int) -> None:
        assert timeout_ms > 0
        self.wanted = dict(wanted)
        if self.behind:
            raise Transient(self.behind)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """Has one event in each partition of the events."""
    log = MemoryLog(now_ms=lambda: 0)
    log.create_topics(SETTINGS.topics.specs(["default"], PARTITIONS))
    producer = log.producer()
    for number in range(PARTITIONS):
        producer.produce(SETTINGS.topics.events, key=b"k", value=b"v", headers=(), partition=number)
    producer.flush(1_000)

    @contextmanager
    def opened(_given: Settings) -> Iterator[MemoryLog]:
        yield log

    monkeypatch.setattr("wakeful.deploy.cli.showing.kafka", opened)
    return log


@pytest.mark.usefixtures("log")
def test_all_partitions_are_waited_for_or_that_of_the_session_alone() -> None:
    views: Any = Views()
    assert catch_up(SETTINGS, views, None) == []
    events = SETTINGS.topics.events
    assert views.wanted == {Place(events, number): 1 for number in range(PARTITIONS)}
    assert catch_up(SETTINGS, views, "s1") == []
    own = partition_of(session_key("acme", "s1"), PARTITIONS)
    assert views.wanted == {Place(events, own): 1}


@pytest.mark.usefixtures("log")
def test_views_that_are_behind_are_told() -> None:
    views: Any = Views("the views are at 0")
    assert catch_up(SETTINGS, views, None) == ["the views are at 0"]


def test_without_kafka_it_is_told_that_they_may_be_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_given: Settings) -> Any:
        raise Stopped(Exit.UNAVAILABLE, "kafka does not answer")

    monkeypatch.setattr("wakeful.deploy.cli.showing.kafka", none)
    views: Any = Views()
    told = catch_up(SETTINGS, views, None)
    assert told == ["as of the last projection: kafka does not answer"]
    assert views.wanted == {}
