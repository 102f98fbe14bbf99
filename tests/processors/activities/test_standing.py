"""What a worker knows of policy that was published since its tasks were let go, and what it does where it knows nothing."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from wakeful.events.log.protocol import Isolation, LogFault, Place
from wakeful.processors.activities.jobs import Job
from wakeful.processors.activities.standing import (
    AGAIN_MS,
    KNOWN_MS,
    Outdated,
    Standing,
    Unsure,
)
from wakeful.processors.control import POLICY_KEY, seen_key

LOG_MS = 1_000_000


class Failing:
    """A log that cannot be read when it is told so; counts what was opened and asked."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.failing, self.opened, self.asked = inner, False, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ends(self, places: Any, isolation: Isolation) -> Any:
        self.asked += 1
        if self.failing:
            raise LogFault("down")
        return self._inner.ends(places, isolation)

    def reader(self, isolation: Isolation) -> Any:
        self.opened += 1
        return self._inner.reader(isolation)


class Knowing:
    """A worker's knowledge of the control topic, with its clocks moved by hand."""

    def __init__(self, bench: Any) -> None:
        self.bench, self.now = bench, 100.0
        self.tenants = {"acme"}
        self.log, self.topic = Failing(bench.log), bench.topics.control
        self.standing = Standing(
            self.log,
            self.topic,
            monotonic=lambda: self.now,
            now_ms=lambda: bench.clock.ms,
            may_speak=lambda tenant: tenant in self.tenants,
        )

    def put(self, key: bytes = POLICY_KEY, value: bytes | None = b"a set") -> int:
        """One more record; the end of the topic, as a processor knows it that has read it."""
        producer = self.bench.log.producer()
        producer.produce(self.topic, key=key, value=value, headers=(), partition=0)
        producer.flush(10_000)
        place = Place(self.topic, 0)
        end: int = self.bench.log.ends([place], Isolation.COMMITTED)[place][1]
        return end

    def job(self, **more: Any) -> Job:
        task = self.bench.task("refund", {}, contract="write_idempotent", **more)
        return Job(task, "acme/s1/1/1#1", fresh=True, taken_at=self.now, log_ms=LOG_MS)

    def ruling(self, job: Job, *, looks: bool = True) -> str:
        """What it says of a job that was just taken."""
        if looks:
            self.standing.look([job])
        return self.of(job)

    def of(self, job: Job) -> str:
        try:
            self.standing.check(job)
        except Outdated:
            return "outdated"
        except Unsure:
            return "unsure"
        return "stands"


@pytest.fixture
def knowing(bench: Any) -> Knowing:
    return Knowing(bench)


def test_what_was_let_go_by_the_newest_policy_stands(knowing: Knowing) -> None:
    assert knowing.ruling(knowing.job(control_offset=knowing.put())) == "stands"


def test_where_nothing_is_published_it_stands(knowing: Knowing) -> None:
    assert knowing.ruling(knowing.job(control_offset=0)) == "stands"


@pytest.mark.parametrize("value", [b"another set", b"\0", None], ids=["set", "damaged", "none"])
def test_whatever_was_said_of_policy_since_outdates_it(
    knowing: Knowing, value: bytes | None
) -> None:
    job = knowing.job(control_offset=knowing.put())
    knowing.put(value=value)
    assert knowing.ruling(job) == "outdated"


def test_that_a_processor_has_seen_a_policy_outdates_nothing(knowing: Knowing) -> None:
    job = knowing.job(control_offset=knowing.put())
    knowing.put(seen_key("p1"))
    assert knowing.ruling(job) == "stands"


def test_it_reads_on_where_it_was(knowing: Knowing) -> None:
    before = knowing.put()
    assert knowing.ruling(knowing.job(control_offset=before)) == "stands"
    after = knowing.put()
    assert knowing.ruling(knowing.job(control_offset=before)) == "outdated"
    assert knowing.ruling(knowing.job(control_offset=after)) == "stands"
    assert knowing.log.opened == 1


def test_tasks_that_do_not_age_cost_nothing(knowing: Knowing) -> None:
    job = knowing.job()
    for _ in range(3):
        assert knowing.ruling(job) == "stands"
    assert (knowing.log.opened, knowing.log.asked) == (0, 0)


def test_it_reads_while_it_is_asked_and_no_longer(knowing: Knowing) -> None:
    assert knowing.ruling(knowing.job(control_offset=0)) == "stands"
    asked = knowing.log.asked
    knowing.now += 60.0
    knowing.standing.look()
    assert knowing.log.asked == asked


def test_what_it_knows_gets_old_and_is_looked_at_again(knowing: Knowing) -> None:
    job = knowing.job(control_offset=knowing.put())
    assert knowing.ruling(job) == "stands"
    knowing.put()
    knowing.now += KNOWN_MS / 1000 + 0.1
    assert knowing.of(job) == "unsure", "it may have stood still for hours"
    knowing.standing.look()
    assert knowing.of(job) == "outdated"


def test_nobody_is_asked_before_it_was_read(knowing: Knowing) -> None:
    assert knowing.ruling(knowing.job(control_offset=knowing.put()), looks=False) == "unsure"


def test_where_the_topic_cannot_be_read_it_waits_and_then_is_too_late(knowing: Knowing) -> None:
    job = knowing.job(control_offset=knowing.put(), start_by_ms=LOG_MS + 60_000)
    knowing.log.failing = True
    with capture_logs() as logs:
        assert knowing.ruling(job) == "unsure"
        knowing.now += AGAIN_MS / 1000
        assert knowing.ruling(job) == "unsure"
    assert len(logs) == 1
    knowing.now += 60.0
    assert knowing.of(job) == "outdated"


def test_after_a_fault_it_reads_on_where_it_was(knowing: Knowing) -> None:
    job = knowing.job(control_offset=knowing.put())
    assert knowing.ruling(job) == "stands"
    knowing.log.failing = True
    knowing.now += 2.0
    assert knowing.ruling(job) == "unsure"
    knowing.log.failing = False
    knowing.put()
    knowing.standing.look()
    assert knowing.of(job) == "unsure", "it rests a while: a try may block"
    knowing.now += AGAIN_MS / 1000
    knowing.standing.look()
    assert knowing.of(job) == "outdated"


def test_a_topic_that_was_made_anew_is_read_anew(knowing: Knowing) -> None:
    for _ in range(3):
        end = knowing.put()
    assert knowing.ruling(knowing.job(control_offset=end)) == "stands"
    specs = [s for s in knowing.bench.topics.specs(["default"], 4) if s.name == knowing.topic]
    knowing.bench.log.delete_topics([knowing.topic])
    knowing.bench.log.create_topics(specs)
    knowing.now += 2.0
    job = knowing.job(control_offset=knowing.put())
    assert knowing.ruling(job) == "unsure"
    knowing.now += AGAIN_MS / 1000
    knowing.standing.look()
    assert knowing.of(job) == "stands"


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_it_is_too_late_by_the_log_and_the_time_since(knowing: Knowing, late_ms: int) -> None:
    knowing.bench.clock.ms = 0
    job = knowing.job(start_by_ms=LOG_MS + 60_000)
    knowing.now += 60.0 + late_ms / 1000
    assert knowing.of(job) == ("outdated" if late_ms == 0 else "stands")


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_it_is_too_late_by_its_own_clock(knowing: Knowing, late_ms: int) -> None:
    """A task out of a backlog: the newest record that it has seen is as old."""
    job = knowing.job(start_by_ms=LOG_MS + 60_000)
    knowing.bench.clock.ms = LOG_MS + 60_000 + late_ms
    assert knowing.of(job) == ("outdated" if late_ms == 0 else "stands")
