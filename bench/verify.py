"""`python -m bench.verify [EVENTS …]`: how fast an audit goes through a history, and in how much memory.

The histories are retold sessions (`bench.history`) in files; a process of its own audits each, as `wakeful audit verify`
does. One line of JSON for each: events and records per second of processor time, by what they are spent on, and
the most memory (PSS) beyond what the process had before.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.history import PARTITIONS, TOPICS, events_of, recorded, retold
from wakeful.commands.wire import decode_command
from wakeful.events.log.protocol import Place, Record
from wakeful.projections.audit import Evidence, asked_by
from wakeful.projections.audit.slices import Source, audit_slices, bare

EVENTS = (20_000, 200_000)
CHUNK = 1_000
SAMPLE_S = 0.1


def written(path: Path, events: int) -> int:
    """A history of about so many events in a file; gives how many records it has."""
    template = recorded()
    records = retold(template, max(1, events // events_of(template)))
    count = 0
    with path.open("wb") as file:
        while chunk := list(islice(records, CHUNK)):
            pickle.dump([bare(record) for record in chunk], file)
            count += len(chunk)
    return count


def _read(path: Path) -> Iterator[Record]:
    size = path.stat().st_size
    with path.open("rb") as file:
        while file.tell() < size:
            for fields in pickle.load(file):
                yield Record(*fields)


class _Peak(threading.Thread):
    """The most memory of this process, looked at again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.mb = self.before_mb = _own_mb()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(SAMPLE_S):
            self.mb = max(self.mb, _own_mb())


def _own_mb() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def audited(path: Path, records: int, folder: Path) -> dict[str, float]:
    """One audit in this process."""
    evidence = Evidence(TOPICS, PARTITIONS, committed=_committed(path), quiescent=True)
    source = Source(evidence, lambda: _read(path), None, records)
    took: dict[str, float] = {}
    last = ["", time.process_time()]

    def tell(doing: str, done: int, wanted: int) -> None:
        del done, wanted
        now = time.process_time()
        took[str(last[0])] = took.get(str(last[0]), 0.0) + now - float(last[1])
        last[:] = [doing, now]

    peak = _Peak()
    peak.start()
    began = time.process_time()
    found = audit_slices(source, asked_by(decode_command), folder, tell=tell)
    spent = time.process_time() - began
    peak.over.set()
    peak.join()
    if found.violations:
        raise RuntimeError(f"the history is not clean: {found.violations[0]}")
    events = found.counts["events"]
    return {
        "events": events,
        "records": records,
        "events_per_cpu_s": round(events / spent),
        "records_per_cpu_s": round(records / spent),
        "reading_s": round(took["reading"], 2),
        "checking_s": round(took["checking"], 2),
        "mb_before": round(peak.before_mb, 1),
        "mb_more": round(peak.mb - peak.before_mb, 1),
    }


def _committed(path: Path) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for record in _read(path):
        if record.topic == TOPICS.commands:
            found[Place(record.topic, record.partition)] = record.offset + 1
    return found


def main(arguments: list[str]) -> None:
    """Each history in a process of its own."""
    if arguments[:1] == ["--one"]:
        _, path, records, folder = arguments
        sys.stdout.write(json.dumps(audited(Path(path), int(records), Path(folder))) + "\n")
        return
    for events in map(int, arguments) if arguments else EVENTS:
        with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
            path, spool = Path(folder) / "history", Path(folder) / "spool"
            spool.mkdir()
            records = written(path, events)
            one = [sys.executable, "-m", "bench.verify", "--one", str(path), str(records)]
            subprocess.run([*one, str(spool)], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
