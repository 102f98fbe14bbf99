"""A log in memory that several threads share, who writes events into it, and clients of streams over it."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager

from tests.projections.conftest import Scribe, payload

from wakeful.deploy.gateway.live.of_session import Known, SessionStream
from wakeful.events import records as r
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import LogFault, OffsetGone
from wakeful.events.topics import Topics

TOPICS = Topics("test")
DEADLINE_S = 30.0
NOW_MS = 1_800_000_000_000


class SharedLog:
    """A log in memory for several threads; `faults` many of its next reads fail."""

    def __init__(self):
        self.lock = threading.RLock()
        self.log = MemoryLog(now_ms=lambda: NOW_MS)
        self.log.create_topics(TOPICS.specs([], 2))
        self.faults = 0
        self.gone = False
        self.readers = 0

    def __getattr__(self, name):
        found = getattr(self.log, name)

        def call(*arguments, **named):
            with self.lock:
                return found(*arguments, **named)

        return call

    def reader(self, isolation, **_):
        with self.lock:
            self.readers += 1
            return SharedReader(self, self.log.reader(isolation))


class SharedReader:
    def __init__(self, shared, reader):
        self.shared, self.reader = shared, reader

    def assign(self, positions):
        with self.shared.lock:
            self.reader.assign(positions)

    def poll(self, records_max, timeout_ms):
        with self.shared.lock:
            if self.shared.faults:
                self.shared.faults -= 1
                raise LogFault("the broker is away")
            if self.shared.gone:
                self.shared.gone = False
                raise OffsetGone("deleted")
            found = self.reader.poll(records_max, timeout_ms)
        if not found:
            time.sleep(0.001)
        return found

    def close(self):
        with self.shared.lock:
            self.shared.readers -= 1
            self.reader.close()


class Teller(Scribe):
    """Writes events into the log, in transactions of which some are aborted."""

    def __init__(self, shared):
        super().__init__(topic=TOPICS.events, partitions=2)
        self.shared = shared
        self.waiting = []

    def append(self, partition, key, value, headers=()):
        self.waiting.append((partition, key, value, headers))

    def commit(self):
        told, self.waiting = self.waiting, []
        with self.shared.lock:
            producer = self.shared.log.transactional("p")
            producer.start()
            for abort in (True, False):
                producer.begin()
                for partition, key, value, headers in told:
                    producer.produce(
                        self.topic, key=key, value=value, headers=headers, partition=partition
                    )
                if abort:
                    producer.abandon()
                    producer = self.shared.log.transactional("p")
                    producer.start()
            producer.commit()
            self.shared.log.settle()

    def say(self, session, count=1):
        for n in range(count):
            self.add(session, r.MessageReceived(f"m{n}", payload({"text": "hello"})))


class Client:
    """Reads frames of a stream; `last` is the id that it comes back with."""

    def __init__(self):
        self.events, self.told, self.last = [], [], None
        self.frames = 0

    async def send(self, data):
        for part in data.decode().split("\n\n")[:-1]:
            self.frames += 1
            lines = dict(line.split(": ", 1) for line in part.split("\n") if line[0] != ":")
            if "id" in lines:
                self.last = lines["id"]
            if "event" not in lines:
                continue
            told = (lines["event"], json.loads(lines["data"]))
            (self.events if "id" in lines else self.told).append(told)

    @property
    def seqs(self):
        return [told["seq"] for _, told in self.events]


def nothing():
    """Whoever listens may."""


def known(seq=0, *, stretches=(), status="Running"):
    return Known(seq, status, seq, stretches, {})


def stream_of(live, session=("acme", "s1"), *, after=0, check=nothing, **given):
    assert live._hub.is_ready(DEADLINE_S)
    return SessionStream(live, session, known(**given), after=after, check=check)


async def until(true):
    async with asyncio.timeout(DEADLINE_S):
        while not true():  # noqa: ASYNC110 what is waited for sets no event
            await asyncio.sleep(0.002)


def has(client, count):
    return lambda: len(client.events) >= count


@contextmanager
def running(stream, client):
    task = asyncio.ensure_future(stream.run(client.send))
    try:
        yield task
    finally:
        task.cancel()
