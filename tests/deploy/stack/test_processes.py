"""Pids, ports and logs: no signal ever goes to a stranger."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wakeful.deploy.stack import StackError, processes
from wakeful.deploy.stack.processes import Proc


@pytest.fixture
def sleeper(tmp_path: Path):
    proc = processes.spawn(
        [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)"],
        log=tmp_path / "log",
        cwd=tmp_path,
        environ=processes.plain_environment(),
    )
    yield proc
    processes.stop(proc, signal.SIGKILL, 0)


def test_a_process_is_known_by_more_than_its_pid(sleeper: Proc) -> None:
    assert processes.is_alive(sleeper)
    recycled = replace(sleeper, started="another boot/1")
    assert not processes.is_alive(recycled)
    assert not processes.send(recycled, signal.SIGKILL)
    processes.stop(recycled, signal.SIGKILL, 1)
    assert processes.is_alive(sleeper)


def test_a_record_without_identity_is_no_process() -> None:
    assert not processes.is_alive(Proc(os.getpid(), ""))
    assert not processes.is_alive(Proc(0, "x"))


def test_stop_ends_what_is_frozen(sleeper: Proc) -> None:
    assert processes.send(sleeper, signal.SIGSTOP)
    processes.stop(sleeper, signal.SIGTERM, 5)
    assert not processes.is_alive(sleeper)
    processes.stop(sleeper, signal.SIGTERM, 5)  # a repeat does nothing


def test_a_process_has_a_session_of_its_own(sleeper: Proc) -> None:
    assert os.getsid(sleeper.pid) == sleeper.pid


@pytest.mark.parametrize("wrong", ["0", "65536", "-1", "ninety", "9092x"])
def test_a_port_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(StackError, match=f"WAKEFUL_KAFKA_PORT={wrong} is no port"):
        processes.pick_port("kafka", wrong)


def test_the_port_it_had_is_preferred_while_it_is_free() -> None:
    free = processes.pick_port("kafka", None)
    assert processes.pick_port("kafka", None, prefer=free) == free


def test_a_tail_is_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert processes.tail(log) == "(no log)"
    log.write_text("".join(f"line {n}\n" for n in range(100)), encoding="utf-8")
    assert processes.tail(log, lines=2) == "line 98\nline 99"
