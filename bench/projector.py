"""`python -m bench.projector`: what the views cost per event, by process, on a real Postgres.

    python -m bench.projector [--sessions 2000] [--window 64] [--batch 500 2000] [--reps 3]

The events are those of `bench.turns` (12 steps and an approval, about 1 KiB of answer every other step), made in memory
before the clock starts, with at most WINDOW sessions open at once. One JSON line per batch size and repetition; CPU, not
the clock, is what a busy machine does not blur: `steps_per_cpu_s` is how fast an engine one core of projector and
backend together can follow.
"""

import argparse
import gc
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.measure import cpu_s
from wakeful.deploy.processes import GC_THRESHOLDS
from wakeful.deploy.stack import Stack
from wakeful.events import records as r
from wakeful.events.codec import decode_event, encode_event
from wakeful.events.hashing import event_hash
from wakeful.events.headers import event_headers
from wakeful.events.keys import partition_of, session_key
from wakeful.events.log.protocol import EndOfPartition, Place, Record
from wakeful.events.state import NO_HASH
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector

TOPIC, COMMANDS = "bench.events.v1", "bench.commands.v1"
PARTITIONS = 4
STEPS = 12
T0_MS = 1_800_000_000_000
ANSWER = b'{"role": "assistant", "text": "' + b"x" * 900 + b'"}'
RECEIPT = b'{"status": "ok", "ref": "' + b"r" * 100 + b'"}'
DIGEST = b"\7" * 32


def payload(inline: bytes) -> r.Payload:
    """User data as an engine would have stored it."""
    return r.Payload("json", inline, None, DIGEST, len(inline), None)


def story(session: str) -> Iterator[list[r.EventBody]]:
    """One session of `bench.turns`: the facts of each of its commands."""
    versions = (r.Version("workflow", "1"),)
    valid = tuple(
        r.NextValid(name, allowed, "" if allowed else "not while it waits for an approval")
        for name, allowed in (
            ("SendMessage", True),
            ("DecideApproval", True),
            ("OpenSession", False),
        )
    )
    yield [r.SessionOpened("turns")]
    began = r.TurnStarted(1, "message", "", "m1", "turns", 1, versions)
    yield [r.MessageReceived("m1", payload(b'{"before": 10}')), began, request(session, 1)]
    for step in range(1, 11):
        done = r.ActivityCompleted(f"1.{step}", 1, payload((RECEIPT, ANSWER)[step % 2]), "w1")
        if step < 10:
            yield [done, request(session, step + 1)]
    due_ms = T0_MS + 86_400_000
    proposal = r.ApprovalRequested(
        "1.11-a",
        1,
        11,
        "tool",
        "write_idempotent",
        payload(b'{"step": 11}'),
        DIGEST,
        "anybody",
        due_ms,
    )
    owed = (r.Obligation("approval", "1.11-a", "tool", due_ms, "expires"),)
    yield [done, proposal, r.SessionWaiting(1, owed, valid)]
    yield [r.ApprovalGranted("1.11-a", DIGEST, ""), request(session, 12)]
    yield [r.ActivityCompleted("1.12", 1, payload(ANSWER), "w1"), request(session, 13)]
    ended = r.SessionCompleted(1, 13, payload(b'{"granted": true}'), payload(b"{}"), None, 0)
    yield [r.ActivityCompleted("1.13", 1, payload(RECEIPT), "w1"), ended]


def request(session: str, step: int) -> r.ActivityRequested:
    """A step of the first turn."""
    return r.ActivityRequested(
        activity_id=f"1.{step}",
        turn=1,
        step=step,
        name="model",
        queue="default",
        contract="read",
        arguments=payload(b'{"step": %d}' % step),
        digest=DIGEST,
        idempotency_key=f"local/{session}/1/{step}",
        attempt=1,
        start_to_close_ms=60_000,
        deadline_ms=T0_MS + 86_400_000,
        approval="none",
        proposal_id=None,
        retry=r.RetryPolicy(3, 1_000, 2_000, 60_000, ()),
    )


def history(sessions: int, window: int) -> list[Record]:
    """All events in the order of a log with at most `window` sessions open at once."""
    rng = random.Random(1)
    records: list[Record] = []
    ends = [0] * PARTITIONS
    heads: dict[str, tuple[int, bytes]] = {}
    todo = [f"s{n}" for n in reversed(range(sessions))]
    running: list[tuple[str, Iterator[list[r.EventBody]]]] = []
    while todo or running:
        while todo and len(running) < window:
            running.append((name := todo.pop(), story(name)))
        at = rng.randrange(len(running))
        session, rest = running[at]
        bodies = next(rest, None)
        if bodies is None:
            running[at] = running[-1]
            running.pop()
            continue
        key = session_key("local", session)
        partition = partition_of(key, PARTITIONS)
        command = f"c{len(records)}"
        external = not isinstance(bodies[0], r.ActivityCompleted)
        cause = r.Cause(
            COMMANDS, partition, len(records), command, DIGEST if external else None, T0_MS
        )
        for body in bodies:
            seq, chain = heads.get(session, (0, NO_HASH))
            at_ms = T0_MS + len(records)
            envelope = r.Envelope(
                "local", session, seq + 1, at_ms, "bench", None, "bench", cause, None, None, chain
            )
            encoded = encode_event(r.Event(envelope, body))
            heads[session] = seq + 1, event_hash(encoded.fingerprint, encoded.body, chain)
            headers = tuple(event_headers(encoded, key, seq + 1))
            offset, ends[partition] = ends[partition], ends[partition] + 1
            records.append(Record(TOPIC, partition, offset, at_ms, key, encoded.value, headers))
    return records


class ListReader:
    """Hands out a list once, in order, from its start."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self._at = 0

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Only ever the start: nothing fails here."""
        if any(positions.values()):
            raise RuntimeError(f"the projector began anew at {positions}: the measure is void")

    def poll(self, records_max: int, timeout_ms: int) -> list[Record | EndOfPartition]:
        """The next ones."""
        del timeout_ms
        found = self._records[self._at : self._at + records_max]
        self._at += len(found)
        return list(found)

    def close(self) -> None:
        """Nothing is held."""


def measure(url: str, records: list[Record], *, batch: int, rep: int, window: int) -> None:
    """All events once, into views of their own."""
    namespace = f"bench-{os.getpid()}-{batch}-{rep}"
    install(url, namespace)
    views = PostgresViews(url, namespace)
    places = [Place(TOPIC, n) for n in range(PARTITIONS)]
    projector = Projector(
        ListReader(records),
        views,
        places,
        lambda record: decode_event(record.value, record.headers),
        records_max=batch,
    )
    try:
        steps = projector.steps()
        next(steps)
        backend = [views.backend_pid]
        own_s, backend_s, began_s = time.process_time(), cpu_s(backend), time.monotonic()
        while projector.applied < len(records):
            next(steps)
        elapsed_s = time.monotonic() - began_s
        own_s, backend_s = time.process_time() - own_s, cpu_s(backend) - backend_s
    finally:
        views.close()
        drop(url, namespace)
    events = len(records)
    steps_done = sum(b"ActivityRequested" in dict(x.headers)["ce_type"] for x in records)
    line: dict[str, object] = {
        "peer": "wakeful",
        "measure": "projector",
        "rep": rep,
        "batch": batch,
        "window": window,
        "events": events,
        "events_per_step": round(events / steps_done, 2),
        "cpu_us_per_event_projector": round(own_s * 1e6 / events, 1),
        "cpu_us_per_event_backend": round(backend_s * 1e6 / events, 1),
        "events_per_s": round(events / elapsed_s),
        "steps_per_s": round(steps_done / elapsed_s),
        "steps_per_cpu_s": round(steps_done / (own_s + backend_s)),
        "faults": projector.faults,
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    """On a stack of its own, or the one that the environment names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--batch", type=int, nargs="+", default=[500, 2_000])
    parser.add_argument("--reps", type=int, default=3)
    asked = parser.parse_args()
    records = history(asked.sessions, asked.window)
    gc.freeze()  # as the process does
    gc.set_threshold(*GC_THRESHOLDS)
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        stack = Stack(Path(folder), environ=os.environ)
        try:
            stack.up()
            endpoints = stack.endpoints()
            assert endpoints is not None
            for rep in range(asked.reps):
                for batch in asked.batch:
                    measure(endpoints.postgres, records, batch=batch, rep=rep, window=asked.window)
        finally:
            stack.reset()


if __name__ == "__main__":
    main()
