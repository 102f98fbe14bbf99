"""What the Kafka clients make of errors, foreign records and lost connections; none of it needs a broker."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest
from confluent_kafka import KafkaError, KafkaException

from wakeful.events.log import kafka_commit, kafka_producer, kafka_transaction, watchdog
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import (
    UNREADABLE_HEADERS,
    KafkaLimits,
    fault_of,
    patient_fault_of,
    record_of,
)
from wakeful.events.log.kafka_commit import OffsetCommits
from wakeful.events.log.kafka_messages import Inbox
from wakeful.events.log.protocol import (
    EndOfPartition,
    Fatal,
    LogFault,
    NameTaken,
    NotYet,
    OffsetGone,
    Place,
    RecordTooLarge,
)

PLACE = Place("t", 0)


class Stored:
    """A message as the client hands it out."""

    def __init__(
        self,
        offset: int,
        *,
        error: KafkaError | None = None,
        partition: int = 0,
        headers: Exception | list[tuple[str, bytes | None]] | None = None,
    ) -> None:
        self._offset, self._error, self._partition, self._headers = (
            offset,
            error,
            partition,
            headers,
        )

    def error(self):
        return self._error

    def topic(self):
        return "t"

    def partition(self):
        return self._partition

    def offset(self):
        return self._offset

    def timestamp(self):
        return (2, 1_000)

    def key(self):
        return b"k"

    def value(self):
        return b"v"

    def headers(self):
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers


@pytest.fixture
def nowhere():
    """An address where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Fatal),
        (KafkaError._AUTHENTICATION, Fatal),
        (KafkaError.FENCED_INSTANCE_ID, NameTaken),
        (KafkaError._FATAL, Fatal),
        (KafkaError._FENCED, LogFault),
        (KafkaError.INVALID_PRODUCER_EPOCH, LogFault),
        (KafkaError.ILLEGAL_GENERATION, LogFault),
        (KafkaError._TIMED_OUT, LogFault),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordTooLarge),
    ],
)
def test_codes_decide_what_an_error_is_not_its_flags(code: int, kind: type[LogFault]):
    assert type(fault_of(KafkaError(code, "why", False, True, True), "doing")) is kind


@pytest.mark.parametrize(
    "code",
    [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION],
)
def test_where_there_is_no_topic_the_commands_that_make_it_are_named(code: int):
    told = str(fault_of(KafkaError(code), "producing to t.commands.v1"))
    assert "'wakeful run APP' or 'wakeful topics apply' makes the topics" in told


def test_only_what_may_be_asked_again_is_not_yet():
    assert type(patient_fault_of(KafkaError(KafkaError._TIMED_OUT), "asking")) is NotYet
    assert type(patient_fault_of(KafkaError(KafkaError.NOT_COORDINATOR), "asking")) is NotYet
    forbidden = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert type(patient_fault_of(forbidden, "asking")) is Fatal


def test_a_header_name_that_is_no_text_does_not_cost_a_record():
    assert record_of(
        Stored(1, headers=SystemError("returned a result with an exception set"))
    ).headers == (UNREADABLE_HEADERS)
    assert record_of(Stored(1, headers=[("a", None), ("b", b"1")])).headers == [
        ("a", b""),
        ("b", b"1"),
    ]


def test_a_fault_behind_good_records_waits_until_they_are_delivered():
    inbox = Inbox()
    inbox.floors = {PLACE: 0, Place("t", 1): 0}
    gone = KafkaError(KafkaError._AUTO_OFFSET_RESET)
    messages = [Stored(0), Stored(1, error=gone), Stored(2), Stored(7, partition=1)]
    assert [(each.partition, each.offset) for each in inbox.sort(messages)] == [(0, 0), (1, 7)]
    with pytest.raises(OffsetGone, match=r"t\[0\]@1"):
        inbox.raise_waiting()
    inbox.raise_waiting()


def test_records_from_before_a_seek_or_of_a_revoked_partition_are_dropped():
    inbox = Inbox()
    inbox.floors = {PLACE: 5}
    assert [each.offset for each in inbox.sort([Stored(4), Stored(5), Stored(5), Stored(9)])] == [
        5,
        9,
    ]
    del inbox.floors[PLACE]
    assert inbox.sort([Stored(10), Stored(10, error=KafkaError(KafkaError._PARTITION_EOF))]) == []


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._MAX_POLL_EXCEEDED]
)
def test_what_the_client_mends_itself_is_not_raised(code: int):
    inbox = Inbox()
    inbox.floors = {PLACE: 0}
    end = Stored(1, error=KafkaError(KafkaError._PARTITION_EOF))
    assert inbox.sort([Stored(0), Stored(-1, error=KafkaError(code)), end]) == [
        record_of(Stored(0)),
        EndOfPartition("t", 0, 1),
    ]


def test_damaged_bytes_end_the_process_instead_of_being_passed_over():
    inbox = Inbox()
    inbox.floors = {PLACE: 0}
    with pytest.raises(Fatal, match="damaged"):
        inbox.sort([Stored(0, error=KafkaError(KafkaError._BAD_MSG)), Stored(1)])


@pytest.mark.case("L1")
def test_a_producer_that_has_lost_a_connection_refuses_the_next_transaction(nowhere: str):
    producer = KafkaLog(nowhere, client_id="c").transactional("t")

    def goes_on() -> None:
        for _ in range(1_000):
            producer._client.poll(0.01)
            producer._refuse_doubted()

    with pytest.raises(LogFault, match="lost a connection"):
        goes_on()
    with pytest.raises(LogFault, match="start a new one"):
        producer.begin()
    producer.abandon()


def test_a_wait_for_acknowledgements_is_no_call_that_hangs(
    nowhere: str, monkeypatch: pytest.MonkeyPatch
):
    """However long it lasts: the watchdog sees calls that are far shorter than its limit."""
    monkeypatch.setattr(kafka_producer, "FLUSH_MS_MAX", 20)
    monkeypatch.setattr(kafka_producer, "CONNECT_WAIT_S", 0.01)
    stamps: list[str] = []

    def watch(call: str) -> AbstractContextManager[object]:
        stamps.append(call)
        return nullcontext()

    with KafkaLog(nowhere, client_id="test", watch=watch) as log:
        producer = log.producer()
        producer.produce("t", key=b"k", value=b"v")
        with pytest.raises(LogFault, match="1 records are still undecided after 110 ms"):
            producer.flush(110)
        producer.close()
    assert stamps.count("flush") == 6  # 10 ms, and five times 20


def test_the_wait_is_far_below_the_watchdog():
    assert kafka_producer.FLUSH_MS_MAX * 4 < watchdog.LIMIT_MS


def test_starting_without_a_broker_may_be_tried_again(
    nowhere: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kafka_transaction, "START_WAIT_S", 0.1)
    producer = KafkaLog(nowhere, client_id="c").transactional("t")
    for _ in range(2):
        with pytest.raises(NotYet):
            producer.start()
    producer.abandon()
    producer.abandon()


@pytest.mark.case("L12")
def test_given_no_broker_when_a_producer_is_given_up_then_it_aborts_once_and_briefly(nowhere: str):
    class Counting:
        """The client, and how long each abort was to wait."""

        def __init__(self, client: object) -> None:
            self.client, self.waits = client, []

        def abort_transaction(self, seconds: float) -> None:
            self.waits.append(seconds)
            self.client.abort_transaction(seconds)

        def __getattr__(self, name: str) -> object:
            return getattr(self.client, name)

    producer = KafkaLog(nowhere, client_id="c").transactional("t")
    counting = producer._client = Counting(producer._client)
    producer._open = True
    for _ in range(3):
        producer.abandon()
    assert counting.waits == [kafka_transaction.ABORT_WAIT_S]
    for call in (producer.start, producer.begin, producer.commit):
        with pytest.raises(LogFault, match="start a new one"):
            call()


def test_a_record_must_not_outlive_its_transaction():
    with pytest.raises(ValueError, match="must be below transaction_timeout_ms"):
        KafkaLimits(delivery_timeout_ms=15_000)


def test_the_client_writes_nothing_to_stderr(
    nowhere: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # Another test may have set up handlers at the root; what is asked here is what the client does without any.
    monkeypatch.setattr(logging.getLogger("wakeful.kafka"), "propagate", False)
    producer = KafkaLog(nowhere, client_id="c").producer()
    producer.produce("t", key=b"k", value=b"v")
    with pytest.raises(LogFault, match="undecided"):
        producer.flush(200)
    producer.close()
    assert capfd.readouterr().err == ""


class Frozen:
    """A consumer whose commits are answered when the test says so; it keeps who made them."""

    def __init__(self) -> None:
        self.thawed = threading.Event()
        self.threads: list[threading.Thread] = []
        self.fault: BaseException | None = None

    def commit(self, *, offsets: list[object], asynchronous: bool) -> list[object]:
        self.threads.append(threading.current_thread())
        self.thawed.wait(10)
        if self.fault is not None:
            raise self.fault
        return []


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    """And no thread outlives its test, whatever that left unanswered."""
    consumer = Frozen()
    yield consumer
    consumer.thawed.set()
    for thread in consumer.threads:
        thread.join(10)
        assert not thread.is_alive()


def test_a_commit_that_is_not_answered_is_a_fault_and_holds_back_the_next(frozen: Frozen):
    commits = OffsetCommits(frozen, "g", 0.01)
    with pytest.raises(LogFault, match="may yet be applied"):
        commits.commit([])
    with pytest.raises(LogFault, match="no answer yet"):
        commits.commit([])
    frozen.thawed.set()
    assert commits.finished()
    commits.close()
    patient = OffsetCommits(frozen, "g", 10)
    patient.commit([])
    patient.close()


def test_one_thread_makes_all_commits_and_ends_when_they_are_closed(frozen: Frozen):
    frozen.thawed.set()
    commits = OffsetCommits(frozen, "g", 10)
    commits.close()  # nothing to end yet
    for _ in range(3):
        commits.commit([])
    (thread,) = set(frozen.threads)
    assert thread is not threading.current_thread()
    commits.close()
    commits.close()
    thread.join(10)
    assert not thread.is_alive()


def test_a_commit_that_fails_raises_and_leaves_the_thread_to_the_next(frozen: Frozen):
    frozen.thawed.set()
    commits = OffsetCommits(frozen, "g", 10)
    for fault, raised in [(KafkaException(KafkaError(25)), LogFault), (OSError("gone"), OSError)]:
        frozen.fault = fault
        with pytest.raises(raised):
            commits.commit([])
    frozen.fault = None
    commits.commit([])
    assert len(frozen.threads) == 3
    assert len(set(frozen.threads)) == 1
    commits.close()


def test_a_late_answer_is_not_taken_for_that_of_the_next_commit(frozen: Frozen):
    commits = OffsetCommits(frozen, "g", 0.01)
    frozen.fault = OSError("late")
    with pytest.raises(LogFault, match="may yet be applied"):
        commits.commit([])
    frozen.thawed.set()
    assert commits.finished()
    frozen.fault = None
    commits._wait_s = 10
    commits.commit([])
    commits.close()


def test_commits_are_not_finished_while_one_has_no_answer_and_its_thread_ends_after_it(
    frozen: Frozen, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kafka_commit, "JOIN_WAIT_S", 0.01)
    commits = OffsetCommits(frozen, "g", 0.01)
    with pytest.raises(LogFault, match="may yet be applied"):
        commits.commit([])
    assert not commits.finished()
    commits.close()
    frozen.thawed.set()  # the fixture sees the thread end


def test_what_a_closing_consumer_still_commits_is_committed_and_its_thread_ends_too(frozen: Frozen):
    frozen.thawed.set()
    commits = OffsetCommits(frozen, "g", 10)
    commits.commit([])
    commits.close()
    commits.commit([])
    commits.close()
    assert len(frozen.threads) == 2  # the fixture sees both end
