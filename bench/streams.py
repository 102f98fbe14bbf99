"""`python -m bench.streams [--streams 500] [--rate 200] [--seconds 20]`: live streams of one gateway, over loopback alone.

Each of so many sessions has one open stream. Events are committed by this process, in transactions of a tenth of a second,
each event to another session; latency is from the moment the commit returned to the moment the client, in this process too,
has read the event. Then the gateway is killed and started again, and all clients come back with their last id. Every
event must have come once. One line of JSON: latencies in ms, CPU of the gateway alone, memory as PSS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from bench.measure import Meter, Report, percentile, pss_mb, say
from bench.rig import Rig, made_bed, rigged
from wakeful.deploy.gateway.api_keys import changing, new_key
from wakeful.deploy.processes import prepare_views
from wakeful.deploy.settings import Settings
from wakeful.events import records as r
from wakeful.events.codec import encode_event
from wakeful.events.hashing import event_hash
from wakeful.events.headers import event_headers
from wakeful.events.keys import partition_of, session_key
from wakeful.events.payloads import json_payload
from wakeful.events.state import NO_HASH

TENANT = "bench"
TICK_S = 0.1
SETTLE_S, IDLE_S = 2.0, 10.0
LIMIT_S = 60.0
SENT = re.compile(rb"^id: (\d+)\n", re.MULTILINE)


class Teller:
    """Commits events of many sessions, as a processor would; knows when each was committed."""

    def __init__(self, rig: Rig) -> None:
        self._topic = rig.settings.topics.events
        self._partitions = rig.log.partitions(self._topic)
        self._key = rig.settings.digest_key
        self._producer = rig.log.transactional(f"{rig.settings.namespace}.bench-streams")
        self._producer.start()
        self._heads: dict[str, tuple[int, bytes]] = {}
        self.committed: dict[tuple[str, int], float] = {}

    def tell(self, events: Sequence[tuple[str, r.EventBody]]) -> None:
        """One transaction."""
        self._producer.begin()
        told = [(session, self._append(session, body)) for session, body in events]
        self._producer.commit()
        at = time.monotonic()
        self.committed.update(dict.fromkeys(told, at))

    def message(self, session: str) -> tuple[str, r.EventBody]:
        """An event of the usual size."""
        text = json_payload({"text": "x" * 200}, self._key)
        return session, r.MessageReceived(f"m{time.monotonic_ns()}", text)

    def last(self, session: str) -> int:
        """The number of its last event."""
        return self._heads[session][0]

    def _append(self, session: str, body: r.EventBody) -> int:
        last, chain = self._heads.get(session, (0, NO_HASH))
        cause = r.Cause("bench", 0, last, f"{session}/{last}", None, None)
        at_ms = time.time_ns() // 1_000_000
        said = {"actor": "bench", "on_behalf_of": None, "channel": "bench"}
        tied = {"control_offset": None, "versions_seq": None, "prev_hash": chain}
        envelope = r.Envelope(TENANT, session, last + 1, at_ms, cause=cause, **said, **tied)
        encoded, key = encode_event(r.Event(envelope, body)), session_key(TENANT, session)
        self._producer.produce(
            self._topic,
            key=key,
            value=encoded.value,
            headers=event_headers(encoded, key, last + 1),
            partition=partition_of(key, self._partitions),
        )
        hashed = event_hash(encoded.fingerprint, encoded.body, chain)
        self._heads[session] = (last + 1, hashed)
        return last + 1


class Listener:
    """One client: it comes back with its last id until it is cancelled."""

    def __init__(self, session: str, key: str) -> None:
        self.session, self._key = session, key
        self.came: list[tuple[int, float]] = []
        self.connects = 0

    @property
    def last(self) -> int:
        """The id it comes back with."""
        return self.came[-1][0] if self.came else 0

    async def listen(self, port: int) -> None:
        """Reads for ever."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._once(port)
            await asyncio.sleep(TICK_S)

    async def _once(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            asked = [
                f"GET /v1/sessions/{self.session}/stream HTTP/1.1",
                "Host: bench",
                f"Authorization: Bearer {self._key}",
                f"Last-Event-ID: {self.last}",
            ]
            writer.write("\r\n".join([*asked, "", ""]).encode())
            status = await reader.readline()
            if b" 200 " not in status:
                return
            self.connects += 1
            while line := await reader.readline():
                found = SENT.match(line)
                if found:
                    self.came.append((int(found[1]), time.monotonic()))
        finally:
            writer.close()


class Gateway:
    """`wakeful serve` over the rig's settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._log = settings.home / "gateway.log"
        text, kept = new_key(TENANT, "bench", ("viewer",))
        with changing(settings.home / "api_keys.json") as keys:
            keys.append(kept)
        self.key, self.port = text, 0

    @contextmanager
    def running(self) -> Iterator[int]:
        """The pid of the process that serves; it is killed at the end, and a repeat takes the same port."""
        environ = {**os.environ, **self._settings.to_environ(), "WAKEFUL_HTTP_PORT": str(self.port)}
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "wakeful", "serve"]
            process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        works = 0
        try:
            self.port = self._listening(process)
            works = int(
                Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
            )
            yield works
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.kill(works or process.pid, signal.SIGKILL)
            process.wait()

    def _listening(self, process: subprocess.Popen[bytes]) -> int:
        limit = time.monotonic() + LIMIT_S
        while time.monotonic() < limit and process.poll() is None:
            found = re.search(r"listening on (\S+)\n", self._log.read_text())
            if found:
                return urlsplit(found[1]).port or 0
            time.sleep(TICK_S)
        raise RuntimeError(f"the gateway does not listen: {self._log.read_text()[-1_000:]}")


async def until(true, what: str) -> None:
    """Waits for it."""
    limit = time.monotonic() + LIMIT_S
    while not true():  # clients move by themselves
        if time.monotonic() > limit:
            raise RuntimeError(f"waited {LIMIT_S:.0f} s for {what}")
        await asyncio.sleep(0.01)


async def measured(
    gateway: Gateway, teller: Teller, sessions: list[str], asked: argparse.Namespace
) -> dict[str, object]:
    """One run: connect, be idle, hear events, lose the gateway, come back."""
    listeners = [Listener(one, gateway.key) for one in sessions]
    found: dict[str, object] = {"streams": len(sessions), "rate": asked.rate}
    with gateway.running() as pid:
        await asyncio.sleep(SETTLE_S)
        found["mb_without_streams"] = round(pss_mb([pid]), 1)
        began = time.monotonic()
        tasks = [asyncio.ensure_future(one.listen(gateway.port)) for one in listeners]
        await until(lambda: all(one.last for one in listeners), "all streams")
        found["connect_s"] = round(time.monotonic() - began, 2)
        meter = Meter({"gateway": [pid]})
        await asyncio.sleep(IDLE_S)
        found["idle_cpu_cores"] = round(meter.spent_s()["gateway"] / IDLE_S, 3)
        found["mb_with_streams"] = round(pss_mb([pid]), 1)
        meter, before = Meter({"gateway": [pid]}), len(teller.committed)
        await say_all(teller, sessions, asked)
        await until(lambda: all_heard(teller, listeners), "all events")
        events = len(teller.committed) - before
        found["events"] = events
        found["cpu_ms_per_event"] = round(meter.spent_s()["gateway"] * 1_000 / events, 3)
        found["mb_at_the_end"] = round(pss_mb([pid]), 1)
    latencies = [
        (at - teller.committed[one.session, seq]) * 1_000
        for one in listeners
        for seq, at in one.came
        if seq > 1
    ]
    found["latency_ms_p50"] = percentile(latencies, 0.5)
    found["latency_ms_p99"] = percentile(latencies, 0.99)
    for one in sessions:
        await asyncio.to_thread(teller.tell, [teller.message(one)])
    with gateway.running():
        began = time.monotonic()
        await until(lambda: all_heard(teller, listeners), "all streams to come back")
        found["come_back_s"] = round(time.monotonic() - began, 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for one in listeners:
        if [seq for seq, _ in one.came] != list(range(1, teller.last(one.session) + 1)):
            raise RuntimeError(f"{one.session} did not hear each event once: {one.came}")
    return found


async def say_all(teller: Teller, sessions: list[str], asked: argparse.Namespace) -> None:
    """Commits at the rate that was asked for."""
    at = 0
    each = max(1, round(asked.rate * TICK_S))
    for tick in range(round(asked.seconds / TICK_S)):
        due = time.monotonic() + TICK_S
        chosen = [sessions[(at + n) % len(sessions)] for n in range(each)]
        at += each
        events = [teller.message(one) for one in chosen]
        await asyncio.to_thread(teller.tell, events)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if tick % 50 == 0:
            say(f"{at} events")


def all_heard(teller: Teller, listeners: Sequence[Listener]) -> bool:
    """Whether everybody has heard all."""
    return all(one.last == teller.last(one.session) for one in listeners)


def main(arguments: Sequence[str] | None = None) -> None:
    """On a stack of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--rate", type=int, default=200, help="events per second, of all streams")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, help="a file to add the line to")
    asked = parser.parse_args(arguments)
    report = Report(asked.out)
    with made_bed(report) as bed, rigged(bed, "streams") as rig:
        sessions = [f"s{number}" for number in range(asked.streams)]
        teller = Teller(rig)
        for start in range(0, len(sessions), 100):
            opened = r.SessionOpened("turns")
            teller.tell([(one, opened) for one in sessions[start : start + 100]])
        prepare_views(rig.settings)
        rig.views_follow_ms()
        gateway = Gateway(rig.settings)
        found = asyncio.run(measured(gateway, teller, sessions, asked))
        rig.emit("streams", **found)
        say(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
