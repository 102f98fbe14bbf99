"""What the next step costs does not depend on the session's age: counted, without any clock."""

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.processors.rig import Rig, size
from wakeful.commands.models import HeartbeatActivity
from wakeful.events import reading
from wakeful.events import records as r
from wakeful.events.avro import Codec
from wakeful.events.writing import long_bytes
from wakeful.processors.journal import Journal
from wakeful.processors.outputs import Output
from wakeful.processors.store import Store
from wakeful.processors.workflow.driver import Stretch

STEPS = 1_000
SMALL_BYTES = 4_096
"""A copy of the journal of 1,000 steps would take four times as much; a list that grows by one takes none or less."""


DIGITS = {reading._number.__code__, reading._size.__code__, long_bytes.__wrapped__.__code__}
"""Where a line is run for each seven bits of a number: places in the log have more of them as it grows."""


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """What happens inside: bytes coded, rows, events read, coroutine steps, events copied, lines of Python run."""
    counts: Counter[str] = Counter()

    def count(cls: type, name: str, told: Callable[..., dict[str, int]]) -> None:
        before = getattr(cls, name)

        def wrapped(*args: Any, **more: Any) -> Any:
            result = before(*args, **more)
            counts.update(told(result, *args))
            return result

        patch.setattr(cls, name, wrapped)

    def line(frame: FrameType, event: str, _: object) -> Any:
        if "wakeful" not in frame.f_globals.get("__name__", "") or frame.f_code in DIGITS:
            return None
        counts["lines"] += event == "line"
        return line

    with pytest.MonkeyPatch.context() as patch:
        count(Codec, "encode", lambda result, *_: {"bytes encoded": len(result.value)})
        count(Codec, "decode_body", lambda _, __, body, *___: {"bytes decoded": len(body)})
        count(Store, "load", lambda *_: {"loads": 1})
        count(Store, "tail", lambda result, *_: {"events read": len(result)})
        count(Stretch, "_drive", lambda *_: {"sends": 1})
        count(Stretch, "start", lambda *_: {"rebuilds": 1})
        count(Journal, "_part", lambda _, journal: {"events copied": len(journal)})
        traced = sys.gettrace()
        sys.settrace(line)
        try:
            yield counts
        finally:
            sys.settrace(traced)


def next_step(rig: Rig, outputs: list[Output]) -> tuple[list[Output], Counter[str]]:
    """One result comes in; with the rows that the store wrote."""
    records = rig.answers(outputs)
    assert len(records) == 1
    before = rig.partition.store._db.total_changes
    with counted() as counts:
        outputs = rig.give(records)
    counts["rows"] = rig.partition.store._db.total_changes - before
    counts["log bytes"] = size(outputs)
    return outputs, counts


def walk(rig: Rig, outputs: list[Output], steps: int) -> list[Output]:
    for _ in range(steps):
        outputs = rig.give(rig.answers(outputs))
    return outputs


def close(one: Counter[str], other: Counter[str]) -> None:
    """The same work, but for numbers that have more digits (64 remembered ids, and some places), and what is cached by then."""
    for name in one.keys() | other.keys():
        slack = 200 if "bytes" in name else 10 if name == "lines" else 0
        assert abs(one[name] - other[name]) <= slack, (name, one, other)


@pytest.mark.case("U11")
def test_a_step_late_in_a_stretch_is_the_same_work_as_an_early_one(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    outputs = walk(rig, rig.open(steps=STEPS + 100), 80)
    outputs, early = next_step(rig, outputs)
    outputs = walk(rig, outputs, STEPS - 81)
    outputs, late = next_step(rig, outputs)
    close(early, late)
    assert early["sends"] == 1
    assert early["rows"] <= 6
    assert early["lines"] > 100
    assert not early.keys() & {"loads", "events read", "rebuilds", "events copied"}


def test_no_step_allocates_by_the_length_of_its_stretch(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    def peak(outputs: list[Output]) -> tuple[list[Output], int]:
        """The least of some steps: lists and dicts double now and then."""
        peaks = []
        for _ in range(5):
            records = rig.answers(outputs)
            tracemalloc.start()
            outputs = rig.give(records)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return outputs, min(peaks)

    outputs = walk(rig, rig.open(steps=STEPS + 100), 80)
    outputs, early = peak(outputs)
    outputs = walk(rig, outputs, STEPS - 90)
    outputs, late = peak(outputs)
    assert late - early < SMALL_BYTES


@pytest.mark.slow
def test_five_thousand_steps_in_stretches_are_the_same_work_to_the_end(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    outputs = walk(rig, rig.open(steps=5_010, stretch=50), 160)
    outputs, early = next_step(rig, outputs)
    outputs = walk(rig, outputs, 38)
    outputs, turned = next_step(rig, outputs)
    outputs = walk(rig, outputs, 4_760)
    outputs, late = next_step(rig, outputs)
    session = rig.session()
    assert len(session.journal) < 50 * 3
    assert isinstance(session.journal[0].body, r.TurnContinued)
    outputs = walk(rig, outputs, 38)
    outputs, turned_late = next_step(rig, outputs)
    close(early, late)
    assert isinstance(rig.events(outputs)[-2], r.TurnContinued)
    close(turned, turned_late)
    rows = rig.partition.store._db.execute("SELECT COUNT(*), MIN(seq) FROM tails").fetchone()
    assert rows[0] == len(rig.session().journal)
    assert rows[1] == rig.session().base_seq


@pytest.mark.case("U11")
def test_two_hundred_calls_take_the_same_bytes_each(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    outputs = rig.open(steps=210)
    sizes = []
    for _ in range(200):
        outputs = rig.give(rig.answers(outputs))
        sizes.append(size(outputs))
    assert sum(sizes[100:]) <= 1.02 * sum(sizes[:100])
    assert max(sizes) < 3_000


def test_a_sign_of_life_writes_one_row_and_reads_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    walk(rig, rig.open(steps=500), 300)
    beat = HeartbeatActivity("1.301", 1, None, "w1")
    rig.give([rig.command(beat, actor="worker:w1")])
    before = rig.partition.store._db.total_changes
    with counted() as counts:
        rig.give([rig.command(beat, actor="worker:w1")])
    assert rig.partition.store._db.total_changes - before <= 3
    assert not counts.keys() & {"loads", "events read", "rebuilds", "events copied"}
    session = rig.session()
    rig.partition.forget()
    again = rig.session()
    assert (again.head, again.state, again.journal) == (
        session.head,
        session.state,
        session.journal,
    )
