"""Signs of life through the whole core: observed without a fact, silence by the log's clock, and a new owner."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.processors.desk import KEY, START_MS
from tests.processors.loops import Cluster
from wakeful import Message, Read, Retry, Turn, activity, workflow
from wakeful.commands import models as m
from wakeful.events import records as r
from wakeful.events.codec import ATTEMPTS
from wakeful.events.log.protocol import Isolation, Place
from wakeful.events.payloads import json_payload, load_json
from wakeful.processors.app import gather
from wakeful.projections.audit.evidence import read_topic

BEAT_MS = 3_000


class Count(BaseModel):
    """Nothing."""


@activity(
    contract=Read(),
    heartbeat="3s",
    schedule_to_close="10m",
    retry=Retry(attempts=3, initial="100ms", cap="100ms"),
)
async def crawl(site: str) -> int:
    """Takes long."""
    return len(site)


@workflow("crawler", version=1)
async def crawler(turn: Turn, count: Count, message: Message) -> Count:
    """Crawls one site."""
    await turn.say(f"{await turn.run(crawl.call(message.text))} pages")
    return count


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(folder=tmp_path)
    cluster.app = gather((crawler, crawl))
    cluster.start()
    cluster.run()
    cluster.open(workflow="crawler")
    cluster.run()
    return cluster


def beat(cluster: Cluster, attempt: int = 1, progress: object = None) -> None:
    told = None if progress is None else json_payload(progress, KEY)
    cluster.send(m.HeartbeatActivity("1.1", attempt, told, "w1"), actor="worker:w1")
    cluster.run()


def facts(cluster: Cluster) -> list[str]:
    return [type(event.body).__name__ for event in cluster.events()]


def pass_ms(cluster: Cluster, ms: int) -> None:
    """Time passes in small steps, as it does where wake-ups are to be in time."""
    until = cluster.clock.ms + ms
    while cluster.clock.ms < until:
        cluster.clock.ms += 150
        cluster.run(6)


@pytest.mark.case("U19")
def test_an_attempt_that_queues_for_long_is_not_called_silent(cluster: Cluster) -> None:
    pass_ms(cluster, 5 * BEAT_MS)
    assert facts(cluster)[-1] == "ActivityRequested"


def test_beats_keep_an_attempt_alive_and_leave_no_fact(cluster: Cluster) -> None:
    beat(cluster)
    assert facts(cluster)[-1] == "ActivityStarted"
    for _ in range(5):
        pass_ms(cluster, BEAT_MS - 1_000)
        beat(cluster)
    assert facts(cluster)[-1] == "ActivityStarted"


def test_silence_supersedes_the_attempt_and_the_next_is_told_how_far_it_came(
    cluster: Cluster,
) -> None:
    beat(cluster, progress={"page": 7})
    assert facts(cluster)[-2:] == ["ActivityStarted", "ActivityProgressed"]
    pass_ms(cluster, BEAT_MS + 1_000)
    assert facts(cluster)[-2:] == ["ActivityRetryScheduled", "ActivityRetried"]
    first, second = cluster.tasks()
    assert (first.attempt, first.progress, first.heartbeat_ms) == (1, None, BEAT_MS)
    assert second.attempt == 2
    assert second.progress is not None
    assert load_json(second.progress) == {"page": 7}
    [over] = read_topic(cluster.log, cluster.topics.attempts)
    told = ATTEMPTS.decode(over.value, None)
    assert (told.activity_id, told.attempt) == ("1.1", 1)
    assert told.idempotency_key == first.idempotency_key


def test_a_beat_that_was_appended_too_late_loses_to_the_silence(cluster: Cluster) -> None:
    beat(cluster)
    cluster.clock.ms += BEAT_MS + 1
    beat(cluster)  # read before any wake-up
    assert "ActivityRetryScheduled" in facts(cluster)


@pytest.mark.parametrize("keeps_store", [True, False], ids=["from its store", "from the log"])
def test_a_new_owner_gives_it_one_fresh_interval(
    cluster: Cluster, keeps_store: bool, tmp_path: Path
) -> None:
    beat(cluster)
    cluster.kill()
    cluster.clock.ms += 5 * BEAT_MS
    if not keeps_store:
        for file in tmp_path.iterdir():
            file.unlink()
    cluster.start()
    cluster.run(60)
    since = cluster.clock.ms
    pass_ms(cluster, BEAT_MS - 1_500)
    assert facts(cluster)[-1] == "ActivityStarted"
    pass_ms(cluster, 3_000)
    assert "ActivityRetryScheduled" in facts(cluster)
    [silent] = [e for e in cluster.events() if isinstance(e.body, r.ActivityRetryScheduled)]
    assert silent.envelope.at_ms >= since - 500 + BEAT_MS


def test_wake_ups_come_once_per_interval_and_not_all_the_time(cluster: Cluster) -> None:
    beat(cluster)
    place = Place(cluster.topics.commands, 0)
    before = cluster.log.ends([place], Isolation.COMMITTED)[place][1]
    for _ in range(4):
        pass_ms(cluster, BEAT_MS - 1_000)
        beat(cluster)
    after = cluster.log.ends([place], Isolation.COMMITTED)[place][1]
    assert after - before <= 4 + 4  # the beats, and at most one nudge for each
    assert cluster.clock.ms > START_MS
