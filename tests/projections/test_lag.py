"""Lag: what lies in the log and was not read."""

from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Place
from wakeful.events.topics import Topics
from wakeful.projections.lag import lag

TOPICS = Topics("lag")
FIRST, SECOND = Place(TOPICS.events, 0), Place(TOPICS.events, 1)


def log_of(*counts: int) -> MemoryLog:
    log = MemoryLog()
    log.create_topics(TOPICS.specs(["default"], len(counts)))
    producer = log.producer()
    for number, count in enumerate(counts):
        for _ in range(count):
            producer.produce(TOPICS.events, key=b"a/b", value=b"x", partition=number)
    producer.flush(1_000)
    return log


def test_it_is_the_distance_to_the_end_of_each_partition() -> None:
    assert lag(log_of(3, 5), TOPICS.events, {FIRST: 3, SECOND: 1}) == {FIRST: 0, SECOND: 4}


def test_a_partition_never_read_is_behind_by_all_of_it() -> None:
    assert lag(log_of(3, 0), TOPICS.events, {}) == {FIRST: 3, SECOND: 0}


def test_what_retention_has_removed_is_no_lag() -> None:
    log = log_of(5)
    log.trim(FIRST, 3)
    assert lag(log, TOPICS.events, {FIRST: 1}) == {FIRST: 2}


def test_a_position_past_the_end_is_no_negative_lag() -> None:
    assert lag(log_of(2), TOPICS.events, {FIRST: 7}) == {FIRST: 0}


def test_an_open_transaction_is_not_lag() -> None:
    log = log_of(2)
    open_one = log.transactional("t")
    open_one.start()
    open_one.begin()
    open_one.produce(TOPICS.events, key=b"a/b", value=b"x", partition=0)
    assert lag(log, TOPICS.events, {FIRST: 2}) == {FIRST: 0}
