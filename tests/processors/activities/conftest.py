"""A desk of activities, tasks for them, and a worker core driven by hand on the log in memory."""

import asyncio
import threading
import time
from dataclasses import dataclass, field
from functools import partial

import pytest
from pydantic import BaseModel

from wakeful.commands.identity import INSECURE
from wakeful.commands.models import HeartbeatActivity
from wakeful.commands.wire import decode_command
from wakeful.events.codec import ATTEMPTS, encode_task
from wakeful.events.contracts import ONCE
from wakeful.events.headers import record_headers
from wakeful.events.keys import task_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.payloads import json_payload
from wakeful.events.records import ActivityTask, AttemptOver
from wakeful.events.topics import Topics
from wakeful.processors.activities.attempt import Run, Say, Wait, steps_of
from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.core import WorkerCore
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.runner import Body, Runner
from wakeful.processors.activities.seat import Seat
from wakeful.processors.activities.worker import Worker
from wakeful.processors.app import gather

DIGEST_KEY = b"digest key"

DEADLINE_S = 40.0


def until(true, what):
    """Waits for a condition, with a deadline."""
    give_up = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < give_up, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.005)


class Order(BaseModel):
    id: str
    cents: int


@dataclass
class Calls:
    """What the activities did, and what the slow ones wait for."""

    made: list = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def of(self, name):
        return [what for called, what in self.made if called == name]


class Desk:
    """Activities that behave and activities that do not."""

    def __init__(self):
        calls = self.calls = Calls()

        @activity(contract=Read())
        async def find_order(order_id: str) -> Order:
            calls.made.append(("find_order", order_id))
            return Order(id=order_id, cents=100)

        @activity(contract=Write(idempotent=True))
        async def refund(order: Order, cents: int = 1, *, key: str) -> str:
            calls.made.append(("refund", key))
            return f"{order.id} {cents} {key}"

        @activity(contract=Read())
        async def slow(n: int) -> int:
            calls.made.append(("slow", n))
            while not calls.go_on.is_set():  # noqa: ASYNC110 set by the test's thread
                await asyncio.sleep(0.001)
            return n

        self.find_order, self.refund, self.slow = find_order, refund, slow
        self.app = gather([find_order, refund, slow], name="desk")


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def topics(namespace):
    return Topics(namespace)


@dataclass
class Clock:
    """The log's time, moved by hand."""

    ms: int = 1_000_000


class Bench:
    """A log with a desk's topics; puts tasks in and reads results out."""

    def __init__(self, log, topics, desk, clock, partitions=4):
        self.log, self.topics, self.desk, self.clock = log, topics, desk, clock
        self.hits = []
        log.create_topics(topics.specs(["default", "other"], partitions))
        self._producer = log.producer()

    def task(
        self,
        name,
        arguments,
        session="s1",
        *,
        attempt=1,
        queue="default",
        start_to_close_ms=10_000,
        **over,
    ):
        fields = {
            "tenant": "acme",
            "session_id": session,
            "activity_id": "1.1",
            "attempt": attempt,
            "name": name,
            "queue": queue,
            "contract": "read",
            "arguments": json_payload(arguments, DIGEST_KEY),
            "idempotency_key": f"acme/{session}/1/1",
            "start_to_close_ms": start_to_close_ms,
            "deadline_ms": 10**15,
            "event_seq": 1,
            "actor": "ann",
            "on_behalf_of": None,
        }
        return ActivityTask(**{**fields, **over})

    def put(self, *tasks, partition=None, once=None):
        for task in tasks:
            encoded = encode_task(task)
            is_once = task.contract in ONCE if once is None else once
            self._producer.produce(
                self.topics.activities(task.queue, once=is_once),
                key=task_key(task.idempotency_key, task.attempt),
                value=encoded.value,
                headers=record_headers(encoded, f"{task.idempotency_key}#{task.attempt}"),
                partition=partition,
            )
        self._producer.flush(10_000)

    def put_bytes(self, key, value, *, headers=(), queue="default", partition=None):
        self._producer.produce(
            self.topics.activities(queue),
            key=key,
            value=value,
            headers=headers,
            partition=partition,
        )
        self._producer.flush(10_000)

    def over(self, task, reason="cancelled", *, key=None):
        """Says, as the session processor does, that nobody waits for this attempt."""
        named = (task.tenant, task.session_id, task.activity_id, task.attempt)
        encoded = ATTEMPTS.encode(AttemptOver(*named, task.idempotency_key, reason))
        self._producer.produce(
            self.topics.attempts,
            key=key or task_key(task.idempotency_key, task.attempt),
            value=encoded.value,
            headers=record_headers(encoded, f"{task.idempotency_key}#{task.attempt}"),
        )
        self._producer.flush(10_000)

    def results(self):
        """What the workers said of their attempts' ends."""
        said = self.commands()
        return [c for c in said if not isinstance(c.body, HeartbeatActivity)]

    def beats(self):
        """The signs of life that they sent."""
        return [c for c in self.commands() if isinstance(c.body, HeartbeatActivity)]

    def commands(self):
        records = self.log.dump(self.topics.commands)
        return [decode_command(record.value, record.headers) for record in records]


def played(step):
    """What came of a step's call, without asyncio."""
    call = step.call
    try:
        result = call.start()
        if not call.is_sync:
            result.send(None)
    except StopIteration as returned:
        return step.words.completed(call, returned.value)
    except Exception as error:
        return step.words.failed(call.task, error)
    if call.is_sync:
        return step.words.completed(call, result)
    raise AssertionError(f"{call.name} waits for something: drive it with asyncio")


class Hand:
    """Drives a core step by step, as the simulation does, without asyncio."""

    def __init__(self, bench, worker_id="w1", *, queue="default", app=None, **more):
        self.bench = bench
        activities = (app or bench.desk.app).activities
        self.runner = Runner(activities, worker_id=worker_id, digest_key=DIGEST_KEY)
        self.waited = []
        self.core = WorkerCore(
            bench.log,
            bench.topics,
            queue,
            seat=Seat(f"{bench.topics.namespace}.workers.{queue}", more.get("instance")),
            worker_id=worker_id,
            now_ms=lambda: bench.clock.ms,
            hit=bench.hits.append,
            identity=more.get("identity", INSECURE),
        )
        self.core.open()

    def take(self, records_max=100):
        """Polls until there is something, or there is not: one poll joins, the next positions, the third delivers."""
        for _ in range(3):
            jobs = self.core.poll(records_max, 0)
            if jobs:
                return jobs
        return []

    def steps(self, job, waited_ms=0):
        over = partial(self.core.is_over, job)
        return steps_of(self.runner, job.task, fresh=job.fresh, waited_ms=waited_ms, is_over=over)

    def answer(self, job) -> Body | None:
        """Goes through its steps; what it waits for is written down, and the clock goes on by it."""
        steps = self.steps(job)
        step = next(steps)
        while not isinstance(step, Say):
            came = None
            if isinstance(step, Wait):
                self.waited.append(step.ms)
                self.bench.clock.ms += step.ms
            else:
                job.begun = job.begun or isinstance(step, Run)
                came = played(step)
            step = steps.send(came)
        return step.body

    def run(self, job):
        body = self.answer(job)
        if body is None:
            self.core.expire(job)
        else:
            self.core.report(job, body)

    def work(self):
        """One round: take, run all, settle, commit; returns the jobs."""
        jobs = self.take()
        for job in jobs:
            self.run(job)
        self.core.settle()
        self.core.commit()
        return jobs

    def die(self):
        """As kill -9 does: nothing is committed, reported or said to the group."""
        self.core._group.kill()
        self.bench.clock.ms += 60_000
        self.bench.log.expire()


@pytest.fixture
def bench(topics, desk):
    clock = Clock()
    return Bench(MemoryLog(now_ms=lambda: clock.ms), topics, desk, clock)


@pytest.fixture
def hands(bench):
    """Makes workers on the bench: `hands("w2")`."""
    return partial(Hand, bench)


@pytest.fixture
def hand(bench):
    return Hand(bench)


class Guarded:
    """The log in memory for two threads: one call at a time, and an empty poll gives way."""

    def __init__(self, inner, lock=None):
        self._inner, self._lock = inner, lock or threading.RLock()

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            if name == "group":
                args = (*args[:2], Listening(args[2], self._lock))
            with self._lock:
                answer = found(*args, **kwargs)
            if name in ("group", "producer", "reader"):
                return Guarded(answer, self._lock)
            if name == "poll" and not answer:
                time.sleep(0.001)
            return answer

        return call


class Listening:
    """Lets the other thread use the log while a member that loses partitions finishes its work."""

    def __init__(self, listener, lock):
        self.assigned, self.lost, self._revoked, self._lock = (
            listener.assigned,
            listener.lost,
            listener.revoked,
            lock,
        )

    def revoked(self, places):
        self._lock.release()
        try:
            self._revoked(places)
        finally:
            self._lock.acquire()


class Running:
    """A worker in a thread of its own, stopped at the end; `ended` has the code it would have ended its process with."""

    def __init__(self, bench, app=None, **options):
        self.ended = []
        options = {
            "worker_id": "w1",
            "digest_key": b"digest key",
            "now_ms": lambda: 1_000,
            "end": self.ended.append,
            **options,
        }
        self.worker = Worker(bench.log, bench.topics, app or bench.desk.app, **options)
        self.error = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            asyncio.run(self.worker.run())
        except BaseException as error:
            self.error = error

    @property
    def lane(self):
        return self.worker.lanes[0]

    @property
    def alive(self):
        return self._thread.is_alive()

    def stop(self):
        self.worker.stop()
        self._thread.join(DEADLINE_S)
        assert not self.alive
        return self.error


@pytest.fixture
def guarded(bench):
    bench.log = Guarded(bench.log)
    return bench


@pytest.fixture
def run(guarded):
    started = []

    def start(app=None, **options):
        started.append(Running(guarded, app, **options))
        return started[-1]

    yield start
    guarded.desk.calls.go_on.set()
    for running in started:
        running.stop()
