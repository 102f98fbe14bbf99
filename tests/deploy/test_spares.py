"""A spare becomes the child it is told to be, and nothing is lost where there is none."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.supervised import LIMIT_S, Desk, gone, until

from wakeful.deploy.supervisor import Supervisor


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as one:
        yield one


def with_a_spare(desk: Desk) -> tuple[Supervisor, int]:
    one = desk.supervisor(workers=0, spares_max=1, spare_after_s=0.0)
    one.start()
    until(lambda: desk.ups(one, "processor-0"), "the first start")
    until(lambda: one.spares, "a spare")
    return one, one.spares[0]


def test_a_spare_takes_the_place_of_a_killed_child_and_gets_a_successor(desk: Desk) -> None:
    one, spare = with_a_spare(desk)
    one.kill("processor-0")
    until(lambda: one.pids().get("processor-0") == spare, "the spare in its place")
    until(lambda: len(desk.ups(one, "processor-0")) == 2, "its words in the child's log")
    assert desk.ups(one, "processor-0")[1] == "processor up - desk"
    assert Path(f"/proc/{spare}/comm").read_text() == "wakeful-process\n"
    until(lambda: one.spares and one.spares != [spare], "the next spare")
    assert one.kill("processor-0") == spare


def test_a_dead_spare_is_passed_over_and_not_replaced(desk: Desk) -> None:
    one, spare = with_a_spare(desk)
    os.kill(spare, signal.SIGKILL)
    until(lambda: gone(spare), "its end")
    before = one.kill("processor-0")
    until(lambda: one.pids().get("processor-0", before) != before, "a new process")
    until(lambda: len(desk.ups(one, "processor-0")) == 2, "its first words")
    assert one.spares == []


def test_a_crash_point_is_for_a_new_process(desk: Desk) -> None:
    one, spare = with_a_spare(desk)
    one._children["processor-0"].failpoint = "p.begun"
    one.kill("processor-0")
    until(lambda: len(desk.ups(one, "processor-0")) == 2, "the second start")
    assert desk.ups(one, "processor-0")[1] == "processor up p.begun desk"
    assert one.spares == [spare]


def test_spares_end_with_their_supervisor(desk: Desk) -> None:
    one, spare = with_a_spare(desk)
    one.stop()
    assert gone(spare)
    assert one.spares == []


@pytest.mark.parametrize("ordered", [True, False])
def test_the_real_one_runs_the_command_it_is_given_or_ends(tmp_path: Path, ordered: bool) -> None:
    log = tmp_path / "child.log"
    log.write_text("before\n")
    order = json.dumps({"arguments": ["version"], "log": str(log)}) + "\n"
    done = subprocess.run(
        [sys.executable, "-m", "wakeful", "child"],
        input=order.encode() if ordered else b"",
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout + done.stderr == b""
    lines = log.read_text().splitlines()
    assert lines[0] == "before"
    assert [line.split()[0] for line in lines[1:]] == (
        ["wakeful", "python", "confluent-kafka"] if ordered else []
    )
