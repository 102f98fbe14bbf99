"""The worker as a process on a broker: killed and stopped, it repeats no recorded call and loses no task."""

import signal
import subprocess
import sys

import pytest

from wakeful.commands.models import CompleteActivity, FailActivity, HeartbeatActivity
from wakeful.commands.wire import decode_command
from wakeful.events.headers import dead_letter_in
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import EndOfPartition, Isolation, Place
from wakeful.processors.activities.killers import DEATHS_MAX

from .conftest import DEADLINE_S, Bench, Clock, until

PROGRAM = """
import asyncio, os, sys, time
from pathlib import Path
from wakeful import activity, Read
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.topics import Topics
from wakeful.processors.activities.killers import noted
from wakeful.processors.activities.worker import Worker, run_until_signalled
from wakeful.processors.app import gather
from wakeful.processors.failpoints import Failpoints

bootstrap, namespace, worker_id, calls, points = sys.argv[1:]

@activity(contract=Read())
async def find_order(order_id: str) -> str:
    with open(calls, "a") as book:
        book.write(f"{order_id}\\n")
    return order_id

@activity(contract=Read())
async def slow(n: int) -> int:
    with open(calls, "a") as book:
        book.write(f"slow {n}\\n")
    try:
        while not os.path.exists(calls + ".go_on"):
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        with open(calls, "a") as book:
            book.write(f"slow {n} ended\\n")
        raise
    return n

@activity(contract=Read())
def hangs(n: int) -> int:
    with open(calls, "a") as book:
        book.write(f"hangs {n}\\n")
    time.sleep(120)
    return n

@activity(contract=Read())
async def blocks(n: int) -> int:
    return hangs.function(n)

@activity(contract=Read())
async def dies(n: int) -> int:
    with open(calls, "a") as book:
        book.write(f"dies {n}\\n")
    while not os.path.exists(calls + ".go_on"):
        await asyncio.sleep(0.01)
    os._exit(9)

class Exits(Exception):
    def __str__(self):
        sys.exit()

@activity(contract=Read())
async def exits(n: int) -> int:
    raise Exits

@activity(contract=Read())
async def clings(n: int) -> int:
    with open(calls, "a") as book:
        book.write(f"clings {n}\\n")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

with KafkaLog(bootstrap, client_id=worker_id) as log:
    run_until_signalled(Worker(
        log, Topics(namespace), gather([find_order, slow, hangs, blocks, dies, exits, clings]), worker_id=worker_id, digest_key=b"k",
        killers=noted(Path(calls + "." + worker_id)),
        now_ms=lambda: int(time.time() * 1000), hit=Failpoints.from_text(points).hit,
    ))
"""


class OnKafka:
    """Worker processes on a broker, and what they did."""

    def __init__(self, bootstrap, log, topics, folder):
        self.bootstrap, self.log, self.topics = bootstrap, log, topics
        self.calls_file = folder / "calls"
        self.started = []

    def start(self, worker_id, points=""):
        arguments = [self.bootstrap, self.topics.namespace, worker_id, str(self.calls_file), points]
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments])
        self.started.append(process)
        return process

    def ended(self, process):
        return process.wait(DEADLINE_S)

    def calls(self):
        return self.calls_file.read_text().split("\n")[:-1] if self.calls_file.exists() else []

    def records(self, topic):
        places = [Place(topic, n) for n in range(self.log.partitions(topic))]
        left = {
            place: end
            for place, (first, end) in self.log.ends(places, Isolation.COMMITTED).items()
            if first < end
        }
        reader = self.log.reader()
        reader.assign(dict.fromkeys(left, 0))
        found = []
        while left:
            for item in reader.poll(500, 100):
                reached = item.offset
                if not isinstance(item, EndOfPartition):
                    found.append(item)
                    reached += 1
                place = Place(item.topic, item.partition)
                if reached >= left.get(place, reached + 1):
                    del left[place]
        reader.close()
        return found

    def results(self):
        return [decode_command(r.value, r.headers) for r in self.records(self.topics.commands)]


@pytest.fixture
def on_kafka(kafka, topics, desk, tmp_path):
    """A bench on a broker (`.bench`), with worker processes that are killed at the end."""
    with KafkaLog(kafka, client_id="test") as log:
        world = OnKafka(kafka, log, topics, tmp_path)
        world.bench = Bench(log, topics, desk, Clock())
        yield world
        for process in world.started:
            process.kill()
            process.wait()
        log.delete_topics([spec.name for spec in topics.specs(["default", "other"], 4)])


def find_orders(bench, count):
    return [bench.task("find_order", {"order_id": f"A{n}"}, f"s{n}") for n in range(count)]


def test_a_process_answers_every_task_and_buries_what_is_none(on_kafka):
    process = on_kafka.start("w1")
    bench = on_kafka.bench
    bench.put_bytes(b"acme/s1/1/1#1", b"garbage", partition=0)
    bench.put(*find_orders(bench, 200))
    until(lambda: len(on_kafka.results()) == 200, "200 results")
    assert all(isinstance(command.body, CompleteActivity) for command in on_kafka.results())
    (letter,) = on_kafka.records(on_kafka.topics.dead_letters)
    assert dead_letter_in(letter.headers).reason == "bad_frame"
    process.send_signal(signal.SIGTERM)
    assert on_kafka.ended(process) == 0
    again = on_kafka.start("w2")
    bench.put(bench.task("find_order", {"order_id": "last"}, "last"))
    until(lambda: len(on_kafka.results()) == 201, "one more, since all the others were committed")
    assert len(on_kafka.calls()) == 201
    assert again.poll() is None


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["w.responded:5", "w.result_sent:5"])
def test_a_kill_repeats_no_recorded_call_and_loses_no_task(on_kafka, point):
    bench = on_kafka.bench
    bench.put(*find_orders(bench, 30))
    first = on_kafka.start("w1", point)
    assert on_kafka.ended(first) == -signal.SIGKILL
    recorded = {command.header.session_id for command in on_kafka.results()}
    made = on_kafka.calls()
    on_kafka.start("w2")
    for partition in range(
        4
    ):  # the last of each partition: with their results, all before them were looked at
        last = bench.task("find_order", {"order_id": "last"}, f"last{partition}")
        bench.put(last, partition=partition)
    until(lambda: len({c.header.session_id for c in on_kafka.results()}) == 34, "all results")
    answered = [command.header.session_id for command in on_kafka.results()]
    assert len(answered) == 34
    assert len(on_kafka.calls()) == len(made) + 34 - len(recorded)
    assert ("w.result_sent" in point) <= bool(recorded)


def test_sigterm_lets_a_running_call_finish_and_report(on_kafka):
    process = on_kafka.start("w1")
    on_kafka.bench.put(on_kafka.bench.task("slow", {"n": 1}))
    until(lambda: on_kafka.calls() == ["slow 1"], "it runs")
    process.send_signal(signal.SIGTERM)
    on_kafka.calls_file.with_name("calls.go_on").touch()
    assert on_kafka.ended(process) == 0
    assert len(on_kafka.results()) == 1


@pytest.mark.case("U20")
def test_an_attempt_that_is_over_stops_and_leaves_no_result(on_kafka):
    process, bench = on_kafka.start("w1"), on_kafka.bench
    task = bench.task("slow", {"n": 1}, heartbeat_ms=30_000)
    bench.put(task)
    until(lambda: on_kafka.calls() == ["slow 1"], "it runs")
    bench.over(task)
    until(lambda: "slow 1 ended" in on_kafka.calls(), "it stops")
    process.send_signal(signal.SIGTERM)
    assert on_kafka.ended(process) == 0
    (beat,) = on_kafka.results()
    assert isinstance(beat.body, HeartbeatActivity)


@pytest.mark.parametrize("name", ["hangs", "blocks"])
def test_an_activity_that_nothing_can_stop_ends_its_process_and_nothing_else_is_lost(
    on_kafka, name
):
    bench, may_go_on = on_kafka.bench, on_kafka.calls_file.with_name("calls.go_on")
    first = on_kafka.start("w1")
    bench.put(*find_orders(bench, 20), bench.task("slow", {"n": 1}, "slow"))
    until(lambda: len(on_kafka.results()) == 20, "what is quick")
    until(lambda: "slow 1" in on_kafka.calls(), "what is slow runs")
    bench.put(bench.task(name, {"n": 2}, "hung", start_to_close_ms=300))
    until(lambda: "hangs 2" in on_kafka.calls(), "it hangs")
    if name == "hangs":
        may_go_on.touch()  # the loop is free, so what is slow can finish before the end
    assert on_kafka.ended(first) == 70
    may_go_on.touch()
    on_kafka.start("w2")
    bench.put(*[bench.task("find_order", {"order_id": "last"}, f"last{n}") for n in range(8)])
    until(lambda: len({c.header.session_id for c in on_kafka.results()}) == 30, "all results")
    results = {c.header.session_id: c.body for c in on_kafka.results()}
    assert len(on_kafka.results()) == 30
    told = results.pop("hung")
    assert isinstance(told, FailActivity)
    assert (told.failure.kind, told.worker) == ("timed_out", "w1")
    assert "in hangs" in told.failure.detail
    assert all(isinstance(body, CompleteActivity) for body in results.values())
    assert results["slow"].worker == ("w1" if name == "hangs" else "w2")
    calls = on_kafka.calls()
    assert calls.count("hangs 2") == 1
    assert calls.count("slow 1") == (1 if name == "hangs" else 2)
    assert len([call for call in calls if call.startswith("A")]) == 20


def test_an_error_that_exits_while_it_is_told_of_is_a_failure_and_one_that_clings_ends_the_process(
    on_kafka,
):
    process, bench = on_kafka.start("w1"), on_kafka.bench
    bench.put(bench.task("exits", {"n": 1}, "s1"))
    until(lambda: on_kafka.results(), "its failure")
    bench.put(bench.task("clings", {"n": 2}, "s2", start_to_close_ms=100))
    assert on_kafka.ended(process) == 70
    told = {c.header.session_id: c.body.failure for c in on_kafka.results()}
    assert {name: failure.kind for name, failure in told.items()} == {
        "s1": "raised",
        "s2": "timed_out",
    }
    assert told["s1"].message == "<its message raised SystemExit>"
    assert "in clings" in told["s2"].detail
    assert on_kafka.calls() == ["clings 2"]


@pytest.mark.chaos
def test_an_activity_that_kills_its_worker_is_given_up_and_those_beside_it_are_not(on_kafka):
    bench, may_go_on = on_kafka.bench, on_kafka.calls_file.with_name("calls.go_on")
    process = on_kafka.start("w1")
    bench.put(bench.task("dies", {"n": 1}, "killer"), bench.task("slow", {"n": 2}, "innocent"))
    until(lambda: {*on_kafka.calls()} == {"dies 1", "slow 2"}, "both run")
    process.kill()  # so that both are suspects
    on_kafka.ended(process)
    may_go_on.touch()
    for _ in range(DEATHS_MAX - 1):
        assert on_kafka.ended(on_kafka.start("w1")) == 9
    on_kafka.start("w1")
    until(lambda: len(on_kafka.results()) == 2, "both results")
    results = {c.header.session_id: c.body for c in on_kafka.results()}
    assert isinstance(results["innocent"], CompleteActivity)
    assert results["killer"].failure.kind == "cut_off"
    assert f"died {DEATHS_MAX} times while it ran" in results["killer"].failure.message
    assert on_kafka.calls().count("dies 1") == DEATHS_MAX
