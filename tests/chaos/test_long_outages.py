"""What takes a minute or more of a broker's or a processor's time. In `make chaos-tests` alone; short forms are beside the code."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.chaos.long_form import whole
from tests.chaos.rig import Rig
from tests.deploy.watching_rig import Rig as WatchingRig
from tests.deploy.watching_rig import until
from tests.processors.desk import KEY, desk, find_order, refund
from wakeful.commands.check import Facts
from wakeful.commands.client import Client
from wakeful.commands.policy import EVERYBODY
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.stack import Stack
from wakeful.deploy.telling.reading import to_the_end
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import KafkaLimits
from wakeful.events.log.protocol import Place
from wakeful.events.topics import Topics
from wakeful.processors.app import gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopSettings

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.kafka, whole]

OUTAGE_S = 60.0
SETTLE_S = 60.0
JOINS = 20
BROKERS_LOOK_S = 10.0
"""Brokers look so often for transactions that have outlived their time-out."""

IDLE_MAX_S = 10.0
PARTITIONS = 4


@pytest.mark.case("L12")
def test_given_a_minute_without_a_broker_then_all_go_on_by_themselves_and_nothing_is_lost(
    private_stack: Stack, tmp_path: Path
) -> None:
    found = private_stack.up()
    rig = Rig(kafka=found.kafka, postgres=found.postgres, namespace="outage", home=tmp_path)
    try:
        with rig.running(processors=2, expires="10m"):
            rig.open(6)
            rig.drive()
            rig.open(6, "slow one, refund me")
            private_stack.kill("kafka", signal.SIGKILL)
            time.sleep(OUTAGE_S)
            assert private_stack.start("kafka") == found
            rig.drive(deadline_s=SETTLE_S * 2)
            rig.open(6)
            rig.drive()
            rig.assert_all_holds()
    finally:
        rig.close()


@pytest.mark.case("L18")
def test_given_a_broker_that_restarts_then_its_watcher_tells_again_within_a_minute(
    private_stack: Stack, tmp_path: Path
) -> None:
    if find_spec("faust") is None:
        pytest.skip("installed without wakeful[watch]")
    found = private_stack.up()
    rig = WatchingRig(found.kafka, "restarted", tmp_path)
    try:
        rig.watch("one")
        rig.scribe.tell_many(20, Random(1))
        rig.write(at_once=7)
        until(lambda: rig.windows() == rig.recount(), "the windows of before")
        private_stack.kill("kafka", signal.SIGKILL)
        assert private_stack.start("kafka") == found
        rig.scribe.tell_many(20, Random(2))
        rig.write(at_once=7)
        expected = rig.recount()
        until(lambda: keep_up(rig) and rig.windows() == expected, "the windows of after")
    finally:
        rig.close()


def keep_up(rig: WatchingRig) -> bool:
    """Starts the watcher again where it gave up, as its supervisor would."""
    if rig.processes["one"].poll() is not None:
        rig.watch("one")
    return True


class Running:
    """A processor in a thread, on the real log."""

    def __init__(
        self, log: KafkaLog, topics: Topics, name: str, handler: CommandHandler | None = None
    ) -> None:
        settings = LoopSettings(f"{topics.namespace}.processors", name, None)
        handler = handler or CommandHandler(
            gather((desk, find_order, refund)), Facts(KEY, policy=EVERYBODY)
        )
        self.loop = Loop(log, topics, handler, settings, SystemClock())
        self.fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for _ in self.loop.steps():
                pass
        except BaseException as fault:
            self.fault = fault

    def check(self) -> None:
        """Raises what ended it before it was stopped."""
        if self.fault is not None:
            raise self.fault

    def stop(self) -> None:
        self.loop.stopping = True
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.check()


@pytest.fixture
def topics(kafka: str, namespace: str) -> Iterator[Topics]:
    """The topics of one namespace."""
    found = Topics(namespace)
    with KafkaLog(kafka, client_id=namespace) as log:
        made = log.create_topics(found.specs(("default",), PARTITIONS))
        yield found
        log.delete_topics(made)


def client_of(log: KafkaLog, topics: Topics) -> Client:
    return Client(
        log,
        topics,
        tenant="acme",
        actor="ann",
        channel="test",
        digest_key=KEY,
        now_ms=SystemClock().now_ms,
    )


def events_of(log: KafkaLog, topics: Topics) -> list[tuple[int, r.Event]]:
    """All events with the partition of each."""
    places = {Place(topics.events, n): 0 for n in range(PARTITIONS)}
    found = to_the_end(log, places)
    return [(one.partition, decode_event(one.value, one.headers)) for one in found]


def wait_for(one: Running, true: Callable[[], bool]) -> None:
    limit = time.monotonic() + SETTLE_S
    while not true():
        one.check()
        assert time.monotonic() < limit
        time.sleep(0.2)


@pytest.mark.case("L4")
def test_given_a_fold_that_outlives_its_transaction_then_the_processor_goes_on_and_doubles_nothing(
    kafka: str, topics: Topics
) -> None:
    asleep_s = KafkaLimits().transaction_timeout_ms / 1000 + BROKERS_LOOK_S + 5
    slept: list[float] = []

    class Slow(CommandHandler):
        """Takes longer over its third command than brokers let a transaction live, once."""

        def handle(self, *given: Any, **named: Any) -> Any:
            slept.append(0.0)
            if len(slept) == 3:
                time.sleep(asleep_s)
            return super().handle(*given, **named)

    with KafkaLog(kafka, client_id="slow") as log:
        handler = Slow(gather((desk, find_order, refund)), Facts(KEY, policy=EVERYBODY))
        one = Running(log, topics, f"{topics.namespace}.processors.0", handler)
        with client_of(log, topics) as client:
            for number in range(10):
                client.open("desk", f"s{number}")
                client.send(f"s{number}", "hello")
            wait_for(one, lambda: len(events_of(log, topics)) >= 40)
        one.stop()
        names = [(e.envelope.session_id, e.envelope.seq) for _, e in events_of(log, topics)]
        assert len(names) == len(set(names)) == 40
        assert len(slept) > 20  # what was folded in vain was folded again


@pytest.mark.case("L5")
def test_given_a_member_that_goes_and_comes_back_then_no_partition_rests_and_nothing_is_doubled(
    kafka: str, topics: Topics
) -> None:
    over, dice = threading.Event(), Random(5)
    sent: list[str] = []

    def talk(client: Client) -> None:
        while not over.wait(0.05):
            sent.append(f"s{len(sent)}")
            client.open("desk", sent[-1])

    with KafkaLog(kafka, client_id="members") as log, client_of(log, topics) as client:
        first = Running(log, topics, f"{topics.namespace}.processors.0")
        talker = threading.Thread(target=talk, args=(client,))
        talker.start()
        for _ in range(JOINS):
            other = Running(log, topics, f"{topics.namespace}.processors.1")
            time.sleep(dice.uniform(0.2, 3))  # now and then it goes in the middle of a rebalance
            other.stop()
            time.sleep(dice.uniform(0.2, 2))
        over.set()
        talker.join()
        other = Running(log, topics, f"{topics.namespace}.processors.1")
        wait_for(first, lambda: len(events_of(log, topics)) >= len(sent))
        first.stop()
        other.stop()
        events = events_of(log, topics)
        assert sorted(e.envelope.session_id for _, e in events) == sorted(sent)
        assert max(waits(log, topics).values()) < IDLE_MAX_S


def waits(log: KafkaLog, topics: Topics) -> dict[int, float]:
    """The longest time in seconds between a command and what came of it, by partition."""
    came: dict[int, float] = {}
    for record in to_the_end(log, {Place(topics.events, n): 0 for n in range(PARTITIONS)}):
        event = decode_event(record.value, record.headers)
        waited = (record.timestamp_ms - event.envelope.at_ms) / 1000
        came[record.partition] = max(came.get(record.partition, 0.0), waited)
    assert len(came) == PARTITIONS
    return came
