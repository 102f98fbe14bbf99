"""What the log says of attempts that are over: read from now on, bounded, and never in the worker's way."""

import threading
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from wakeful.events.log.protocol import LogFault
from wakeful.processors.activities import superseded as superseded_module
from wakeful.processors.activities.superseded import Superseded

from .conftest import DEADLINE_S


class Failing:
    """A log whose readers fail when they are told to."""

    def __init__(self, inner):
        self._inner, self.failing, self.opened = inner, False, 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def reader(self, isolation):
        self.opened += 1
        reader = self._inner.reader(isolation)
        poll = reader.poll

        def failing(records_max, timeout_ms):
            if self.failing:
                raise LogFault("down")
            return poll(records_max, timeout_ms)

        reader.poll = failing
        return reader


@pytest.fixture
def reading(bench):
    log = Failing(bench.log)
    superseded = Superseded(log, bench.topics.attempts)
    told = []
    superseded.tell(told.append)
    return log, superseded, told


def tasks(bench, *numbers):
    return [bench.task("slow", {}, f"s{n}") for n in numbers]


def test_what_was_said_before_the_worker_came_is_read_first(bench, reading):
    _, superseded, told = reading
    before, after = tasks(bench, 1, 2)
    bench.over(before)
    superseded.catch_up(0.0)
    assert told == ["acme/s1/1/1#1"]
    bench.over(after)
    superseded.look(1.0)
    assert told == ["acme/s1/1/1#1", "acme/s2/1/1#1"]


def test_how_far_back_it_reads_is_bounded(bench, reading, monkeypatch):
    partitions = bench.log.partitions(bench.topics.attempts)
    monkeypatch.setattr(superseded_module, "BACK_MAX", partitions)
    _, superseded, told = reading
    (task,) = tasks(bench, 1)
    for attempt in range(1, 4):
        bench.over(replace(task, attempt=attempt))
    superseded.catch_up(0.0)
    lie = {r.partition: r.key.decode() for r in bench.log.dump(bench.topics.attempts)}
    assert sorted(told) == sorted(lie.values()), "the last of each partition"


class Late:
    """A reader whose records come only at its third poll, as over a network."""

    def __init__(self, log):
        self._log, self.waits = log, []

    def __getattr__(self, name):
        return getattr(self._log, name)

    def reader(self, isolation):
        reader, waits = self._log.reader(isolation), self.waits
        poll = reader.poll

        def late(records_max, timeout_ms):
            waits.append(timeout_ms)
            return poll(records_max, timeout_ms) if len(waits) > 2 else []

        reader.poll = late
        return reader


def test_it_waits_for_what_was_said_before_and_for_nothing_later(bench):
    log, told = Late(bench.log), []
    superseded = Superseded(log, bench.topics.attempts)
    superseded.tell(told.append)
    bench.over(*tasks(bench, 1))
    superseded.catch_up(0.0)
    assert (told, log.waits) == (["acme/s1/1/1#1"], [0, 100, 100])
    superseded.catch_up(1.0)
    assert log.waits[3:] == [0]


def test_it_does_not_wait_for_ever_nor_where_the_log_is_down(bench, reading):
    log, superseded, _ = reading
    log.failing = True
    bench.over(*tasks(bench, 1))
    superseded.catch_up(0.0)
    assert log.opened == 1
    silent = Late(bench.log)
    silent.waits = Endless()
    Superseded(silent, bench.topics.attempts).catch_up(0.0)
    assert silent.waits.count == 1 + superseded_module.CATCH_UP_ROUNDS


class Endless:
    """A list of waits that never grows long."""

    count = 0

    def append(self, _wait):
        self.count += 1

    def __len__(self):
        return 0


def test_it_looks_now_and_then_and_at_once_where_tasks_may_be_over(bench, reading):
    log, superseded, told = reading
    superseded.look(10.0)
    bench.over(*tasks(bench, 2))
    superseded.look(10.05, at_once=True)
    assert told == ["acme/s2/1/1#1"]
    log.failing = True
    superseded.look(10.06, at_once=True)
    log.failing = False
    bench.over(*tasks(bench, 3))
    superseded.look(10.07, at_once=True)
    assert len(told) == 1, "a log that is down is not asked at once: that may take long"


def test_it_looks_now_and_then_and_not_always(bench, reading):
    _, superseded, told = reading
    superseded.look(10.0)
    bench.over(*tasks(bench, 1))
    superseded.look(10.05)
    assert told == []
    superseded.look(10.11)
    assert len(told) == 1


def test_a_record_that_cannot_be_read_is_left_out(bench, reading):
    _, superseded, told = reading
    superseded.look(0.0)
    stranger, last = tasks(bench, 1, 2)
    for value in (b"garbage", None):
        bench._producer.produce(bench.topics.attempts, key=b"acme/s1/1/1#1", value=value)
    bench.over(stranger, key=b"acme/s9/1/1#1")
    bench.over(last)
    superseded.look(1.0)
    assert told == ["acme/s2/1/1#1"]


def test_a_fault_is_waited_out_and_nothing_said_meanwhile_is_lost(bench, reading):
    log, superseded, told = reading
    superseded.look(0.0)
    log.failing = True
    superseded.look(1.0)
    bench.over(*tasks(bench, 1))
    log.failing = False
    superseded.look(2.0)
    assert (told, log.opened) == ([], 1)
    superseded.look(7.0)
    assert (told, log.opened) == (["acme/s1/1/1#1"], 2)
    superseded.close()


def test_a_topic_that_is_not_there_ends_nothing(bench):
    superseded = Superseded(bench.log, "no-such-topic")
    with capture_logs() as logged:
        superseded.look(0.0)
        superseded.look(10.0)
    assert [line["event"] for line in logged] == ["attempts that are over cannot be read for now"]
    assert "no-such-topic" in logged[0]["fault"]


def test_what_is_remembered_is_bounded(bench, reading, monkeypatch):
    monkeypatch.setattr(superseded_module, "KEPT_MAX", 2)
    _, superseded, _told = reading
    superseded.look(0.0)
    for n, task in enumerate(tasks(bench, 1, 2, 3)):
        bench.over(task)
        superseded.look(n + 1.0)
    assert "acme/s1/1/1#1" not in superseded
    assert "acme/s3/1/1#1" in superseded


def test_two_intakes_look_one_at_a_time(bench, reading):
    _, superseded, _ = reading
    inside, free, freed = threading.Event(), threading.Event(), []
    superseded.tell(lambda _id: (inside.set(), freed.append(free.wait(DEADLINE_S))))
    superseded.look(0.0)
    bench.over(*tasks(bench, 1))
    other = threading.Thread(target=superseded.look, args=(1.0,))
    other.start()
    assert inside.wait(DEADLINE_S)
    superseded.look(2.0)  # returns at once
    free.set()
    other.join(DEADLINE_S)
    assert freed == [True], "the second look did not wait for the first"
