"""What the benchmark says of its lines: ratios within a round, medians over rounds, repeats of completed steps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.measure import (
    FINISHED,
    Effect,
    Effects,
    Meter,
    Report,
    approvals_ms,
    median,
    percentile,
    ratio,
    started_ns,
    transitions_ms,
)
from bench.recovery import moved_again_s, repeats
from bench.table import cell, ratios, read, table

ROOT = Path(__file__).parents[2]
MS = 1_000_000


def line(peer, number, steps_per_s, cpu, *, window=64, durability="default"):
    return {
        "peer": peer,
        "measure": "throughput",
        "durability": durability,
        "round": number,
        "window": window,
        "steps_per_s": steps_per_s,
        "cpu_ms_per_step": cpu,
        "cpu_ms_per_step_without_driver": cpu / 2,
        "cpu_ms_per_step_worker": cpu / 4,
        "load1": 1.5,
    }


def steps(*pairs, session="s", pid=7):
    return [Effect(at_ms * MS, pid, session, step) for at_ms, step in pairs]


ROUNDS = [
    line("wakeful", 0, 900.0, 0.5),
    line("restate", 0, 300.0, 2.0),
    line("wakeful", 1, 100.0, 0.6),  # somebody else was busy in this round
    line("restate", 1, 50.0, 2.0),
    line("wakeful", 2, 1000.0, 0.5),
    line("restate", 2, 500.0, 1.0),
]


def test_a_ratio_is_taken_within_a_round():
    found = ratios(ROUNDS)
    assert [one["steps_ratio"] for one in found] == [3.0, 2.0, 2.0]
    assert [one["cpu_ratio"] for one in found] == [0.25, 0.3, 0.5]


def test_the_median_is_of_the_ratios_and_not_of_what_they_are_made_of():
    row = next(text for text in table(ROUNDS).splitlines() if "3.0 2.0 2.0" in text)
    assert [word.strip() for word in row.strip("|").split("|")] == [
        *("64", "default", "restate", "2.0", "3.0 2.0 2.0"),
        *("0.3 (0.25-0.5)", "0.3 (0.25-0.5)"),
    ]


def test_windows_and_durabilities_are_not_mixed():
    lines = [
        line("wakeful", 0, 400.0, 1.0, window=500),
        line("wakeful", 0, 200.0, 1.0, window=500, durability="flush.messages=1"),
        line("restate", 0, 100.0, 1.0, window=500),
        line("restate", 0, 1.0, 1.0, window=64),
    ]
    found = {(one["window"], one["durability"]): one["steps_ratio"] for one in ratios(lines)}
    assert found == {(500, "default"): 4.0, (500, "flush.messages=1"): 2.0}


def test_a_round_that_a_peer_has_missed_has_no_ratio():
    assert [one["round"] for one in ratios(ROUNDS[:5])] == [0, 1]


def test_lines_without_rounds_make_no_ratios():
    assert ratios([{"measure": "throughput", "peer": "wakeful", "window": 64}]) == []


def test_there_is_no_ratio_to_nothing():
    assert ratio(3.0, 0.0) is None
    assert ratio(3.0, None) is None
    assert ratio(None, 3.0) is None
    assert ratio(1.0, 4.0) == 0.25


def test_a_median_leaves_out_what_is_missing():
    assert median([3.0, None, 1.0, 2.0]) == 2.0
    assert median([None]) is None


def test_a_percentile_is_one_of_the_values():
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.5) == 51.0
    assert percentile(values, 0.99) == 100.0
    assert percentile(values, 1.0) == 100.0
    assert percentile([], 0.5) is None


def test_a_cell_shows_how_far_apart_the_repetitions_are():
    assert cell([1.0, 3.0, 2.0]) == "2 (1-3)"
    assert cell([2.0, 2.0]) == "2"
    assert cell([1234.5]) == "1,234"
    assert cell([None, None]) == "-"


def test_every_measure_of_a_run_has_its_table():
    lines = [
        {"measure": "latency", "peer": "wakeful", "durability": "default", "step_ms_p50": 4.5},
        {"measure": "recovery", "case": "the worker", "sessions": 200, "last_first_step_s": 1.2},
        {"measure": "recovery", "case": "the worker", "sessions": 200, "last_first_step_s": 1.8},
        {"measure": "next_step", "history": 100, "warm_next_step_ms": 5.0},
        {"measure": "next_step", "history": 10, "warm_next_step_ms": 4.0},
        {"measure": "parked", "sessions": 10, "kept_in_memory": 8, "mb_per_1000_more_worker": 0.5},
    ]
    shown = table(lines)
    assert "1.5 (1.2-1.8)" in shown
    assert "| worker |" in shown
    assert shown.index("| 10 ") < shown.index("| 100 ")  # by size, not by spelling


def test_lines_are_read_back_as_they_were_written(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    Report(path).emit(peer="wakeful", measure="latency", step_ms_p50=4.5)
    assert read([path]) == [json.loads(capsys.readouterr().out)]


def test_a_line_that_is_none_is_named(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"measure": "latency"}\nkafka: starting\n')
    with pytest.raises(ValueError, match=r"results.jsonl:2 is no line .* 'kafka: starting'"):
        read([path])


def test_a_step_behind_a_later_one_is_a_repeat_of_a_completed_one():
    assert repeats(steps((1, 0), (2, 1), (3, 2))) == (0, 0)
    assert repeats(steps((1, 0), (2, 1), (3, 1), (4, 2))) == (0, 1)  # it was in flight
    assert repeats(steps((1, 0), (2, 1), (3, 0), (4, 1))) == (1, 1)


def test_sessions_are_told_apart():
    mixed = [*steps((1, 0), (2, 1), session="a"), *steps((3, 0), (4, 1), session="b")]
    assert repeats(mixed) == (0, 0)
    assert transitions_ms(mixed, before=10) == [1.0, 1.0]


def test_a_session_moves_again_with_its_first_step_after_the_kill():
    effects = [*steps((1, 0), (30, 1), (40, 2), session="a"), *steps((2, 0), session="b")]
    assert moved_again_s(effects, 10 * MS) == {"a": 0.02}


def test_the_wait_for_the_approval_is_no_transition():
    effects = steps((0, 8), (5, 9), (400, 10), (410, 11), (411, FINISHED))
    assert transitions_ms(effects, before=10) == [5.0, 10.0]
    assert approvals_ms(effects, {"s": 300 * MS}, before=10) == [100.0]


def test_the_log_is_read_from_its_end_and_by_whole_lines(tmp_path):
    path = tmp_path / "effects.log"
    path.write_text("1 7 old 0 model\n")
    effects = Effects(path)
    with path.open("a") as file:
        file.write("2 7 new 0 model\n3 7 new 1 to")
        file.flush()
        assert effects.read() == [Effect(2, 7, "new", 0)]
        file.write("ol\n")
    assert effects.read() == [Effect(3, 7, "new", 1)]


def test_a_meter_counts_a_child_under_its_name_and_not_under_the_drivers():
    burn = "import time\ninput()\nwhile time.process_time() < 0.4: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        meter = Meter({"worker": [child.pid]})
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        fields = meter.per_step(1)
        assert started_ns(child.pid) > started_ns(os.getpid())
        child.stdin.write("\n")
    worker, driver = fields["cpu_ms_per_step_worker"], fields["cpu_ms_per_step_driver"]
    assert worker > driver
    assert fields["cpu_ms_per_step"] == pytest.approx(worker + driver, abs=0.01)
    assert fields["cpu_ms_per_step_without_driver"] == pytest.approx(worker, abs=0.01)


def test_the_command_prints_a_table_of_a_file(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in ROUNDS))
    shown = subprocess.run(
        [sys.executable, "-m", "bench.table", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "**Wakeful / peer, within each round**" in shown.stdout
