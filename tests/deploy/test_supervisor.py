"""The supervisor starts what ends, faster at first than later, and leaves nobody behind."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.deploy.supervised import LIMIT_S, Desk, gone, until

from wakeful.deploy.children import BACKOFF_FIRST_S
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.run_file import RunFile, Running


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as one:
        yield one


def test_it_starts_one_process_per_role_and_queue_and_says_who_runs(desk: Desk) -> None:
    one = desk.supervisor(processors=2, queues=["default", "pay"], projector=True)
    one.start()
    names = ["processor-0", "processor-1", "worker-default-0", "worker-pay-0", "projector"]
    assert list(one.pids()) == names
    shown = RunFile(desk.settings.home).load()
    assert shown is not None
    assert shown.pid == os.getpid()
    assert {child.name: child.pid for child in shown.children} == one.pids()
    one.stop()
    assert one.pids() == {}
    assert RunFile(desk.settings.home).load() is None


def test_limits_reach_the_workers_and_nobody_else(desk: Desk) -> None:
    children = desk.supervisor(concurrency=20, sync_concurrency=3)._children
    limits = ["--concurrency", "20", "--sync-concurrency", "3"]
    assert children["worker-default-0"].arguments[-4:] == limits
    assert not {*limits} & {*children["processor-0"].arguments}


def test_a_worker_keeps_its_seat_and_another_supervisors_has_another(desk: Desk) -> None:
    def seat() -> str:
        arguments = desk.supervisor(queues=["pay"])._children["worker-pay-0"].arguments
        return arguments[arguments.index("--instance") + 1]

    assert seat().startswith("worker-pay-0.")
    assert seat() != seat()


def test_a_killed_child_is_started_again_at_once_under_its_name(desk: Desk) -> None:
    one = desk.supervisor()
    one.start()
    until(lambda: desk.ups(one, "processor-0"), "the first start")
    before = one.kill("processor-0")
    with capture_logs() as told:
        until(lambda: one.pids().get("processor-0", before) != before, "the second start")
    assert [(line["name"], line["wait_s"]) for line in told] == [("processor-0", BACKOFF_FIRST_S)]
    until(lambda: len(desk.ups(one, "processor-0")) == 2, "its first words")
    assert one.restarts == {"processor-0": 1, "worker-default-0": 0}
    assert one.exit_codes["processor-0"] == [-signal.SIGKILL]


def test_a_full_disk_stops_no_restart_and_who_runs_is_written_once_there_is_room(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.deploy.supervisor.AGAIN_S", 0.05)
    save, full, refused = RunFile.save, [False], []

    def saves(file: RunFile, running: Running) -> None:
        if full[0]:
            refused.append(running)
            raise OSError(errno.ENOSPC, "No space left on device")
        save(file, running)

    monkeypatch.setattr(RunFile, "save", saves)
    one = desk.supervisor()
    one.start()
    full[0] = True
    with capture_logs() as told:
        for count in (1, 2):  # the second death comes after the save that failed
            until(lambda n=count: len(desk.ups(one, "processor-0")) == n, "its start")
            one.kill("processor-0")
            until(lambda n=count: one.restarts["processor-0"] == n, "its restart")
        until(lambda: len(refused) >= 4, "another try")
    assert any(line["event"] == "who runs cannot be written: tried again" for line in told)
    full[0] = False

    def shown() -> dict[str, int]:
        found = RunFile(desk.settings.home).load()
        return {child.name: child.pid for child in found.children} if found else {}

    until(lambda: shown() == one.pids(), "the file")


def test_a_child_that_cannot_be_started_is_tried_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.deploy.supervisor.AGAIN_S", 0.05)
    one = desk.supervisor()
    one.start()
    start, failures = one._start_new, iter((1, 2))

    def refuses(*given: object) -> object:
        if next(failures, None):
            raise OSError(errno.ENOSPC, "No space left on device")
        return start(*given)

    monkeypatch.setattr(one, "_start_new", refuses)
    before = one.kill("processor-0")
    with capture_logs() as told:
        until(lambda: one.pids().get("processor-0", before) != before, "the start")
    tries = [line["name"] for line in told if "cannot be started: tried again" in line["event"]]
    assert tries == ["processor-0"] * 2
    until(lambda: one.restarts["processor-0"] == 1, "its count")


def test_a_child_that_ends_again_and_again_is_started_ever_more_slowly(desk: Desk) -> None:
    one = desk.supervisor({"ENDS": "3"}, workers=0)
    one.start()
    until(lambda: one.restarts["processor-0"] >= 2, "two restarts")
    child = one._children["processor-0"]
    assert child.backoff_s >= 0.4
    assert set(one.exit_codes["processor-0"]) == {3}


def test_of_two_that_take_each_others_places_one_gives_up_and_says_what_to_do(desk: Desk) -> None:
    one = desk.supervisor({"ENDS": str(int(Exit.BUSY))}, workers=0, backoff_max_s=0.1)
    one.start()
    assert one.wait(LIMIT_S)
    one.stop()
    assert one.exit_codes["processor-0"] == [Exit.BUSY] * 3
    assert one.gave_up is not None
    assert one.gave_up.code == Exit.BUSY
    told = "processor-0 was replaced 3 times by another process: a second 'wakeful run' serves namespace desk"
    assert told in one.gave_up.message
    assert "or give this one a WAKEFUL_NAMESPACE of its own" in one.gave_up.message


def test_a_crash_point_is_for_the_first_start_alone(desk: Desk) -> None:
    one = desk.supervisor(failpoints={"processor-0": "p.begun:2"})
    one.start()
    until(lambda: desk.ups(one, "processor-0"), "the first start")
    one.kill("processor-0")
    until(lambda: len(desk.ups(one, "processor-0")) == 2, "the second start")
    assert desk.ups(one, "processor-0") == [
        "processor up p.begun:2 desk",
        "processor up - desk",
    ]
    until(lambda: desk.ups(one, "worker-default-0") == ["worker up - desk"], "the worker")


def test_a_crash_point_for_the_next_start_is_for_that_one_alone(desk: Desk) -> None:
    one = desk.supervisor(workers=0)
    one.start()
    until(lambda: desk.ups(one, "processor-0"), "the first start")
    one.crash_next("processor-0", "p.begun:2")
    for starts in (2, 3):
        one.kill("processor-0")
        until(lambda n=starts: len(desk.ups(one, "processor-0")) == n, "the next start")
    assert desk.ups(one, "processor-0") == [
        "processor up - desk",
        "processor up p.begun:2 desk",
        "processor up - desk",
    ]


def test_a_crash_point_of_nobody_is_refused(desk: Desk) -> None:
    with pytest.raises(ValueError, match="no child of these names: processor-9"):
        desk.supervisor(failpoints={"processor-9": "p.begun"})


def test_a_child_that_does_not_hear_is_killed_when_the_drain_is_over(desk: Desk) -> None:
    one = desk.supervisor({"STUBBORN": "1"}, workers=0)
    one.start()
    until(lambda: desk.ups(one, "processor-0"), "the start")
    pid = one.pids()["processor-0"]
    one.stop(drain_s=0.2)
    assert gone(pid)


def test_a_frozen_child_ends_with_the_others(desk: Desk) -> None:
    one = desk.supervisor(workers=0)
    one.start()
    until(lambda: desk.ups(one, "processor-0"), "the start")
    pid = one.kill("processor-0", signal.SIGSTOP)
    one.stop(drain_s=5.0)
    assert gone(pid)


def test_a_second_supervisor_in_one_home_is_refused_and_told_of_the_first(desk: Desk) -> None:
    one = desk.supervisor(workers=0)
    one.start()
    with pytest.raises(
        Stopped, match=rf"runs in .* already \(pid {os.getpid()}, desk.py\)"
    ) as told:
        desk.supervisor(workers=0).start()
    assert told.value.code == Exit.BUSY


def test_what_children_say_is_told_with_their_names(desk: Desk) -> None:
    heard: list[tuple[str, str]] = []
    one = desk.supervisor(workers=0, echo=lambda name, line: heard.append((name, line)))
    one.start()
    until(lambda: heard, "the first line")
    assert heard[0] == ("processor-0", "processor up - desk")


def test_a_child_of_no_name_is_not_killed(desk: Desk) -> None:
    one = desk.supervisor(workers=0)
    one.start()
    with pytest.raises(Stopped, match="no child 'worker-9': there are processor-0"):
        one.kill("worker-9")


def test_nothing_to_run_is_refused(desk: Desk) -> None:
    with pytest.raises(Stopped, match="nothing to run"):
        desk.supervisor(processors=0, workers=0)


def test_when_the_supervisor_is_killed_its_children_end_by_themselves(desk: Desk) -> None:
    program = textwrap.dedent(
        f"""
        import sys, time
        from pathlib import Path
        from wakeful.deploy.settings import Settings
        from wakeful.deploy.supervisor import Supervisor
        home = Path({str(desk.folder / "home")!r})
        one = Supervisor(Settings(kafka="nowhere:1", namespace="desk", home=home), "desk.py",
                         queues=["default"], program=(sys.executable, {str(desk.program)!r}))
        one.start()
        time.sleep(60)
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    logs = desk.folder / "home" / "logs"
    names = ("processor-0", "worker-default-0", "projector")
    until(
        lambda: all(
            (logs / f"{n}.log").exists() and "up" in (logs / f"{n}.log").read_text() for n in names
        ),
        "three children",
    )
    children = json.loads((desk.folder / "home" / "run.json").read_text())["children"]
    pids = [child["pid"] for child in children]
    parent.kill()
    parent.wait()
    until(lambda: all(gone(pid) for pid in pids), "the children to end")
    shown = RunFile(desk.folder / "home").load()
    assert shown is not None
    assert not shown.alive
    desk.supervisor(workers=0).start()


def test_a_start_that_fails_half_way_leaves_nobody_behind(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = desk.supervisor()
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def fails_at_the_second(*args: object, **options: object) -> subprocess.Popen[bytes]:
        if started:
            raise OSError("no more processes")
        started.append(popen(*args, **options))
        return started[0]

    monkeypatch.setattr("wakeful.deploy.supervisor.subprocess.Popen", fails_at_the_second)
    with pytest.raises(OSError, match="no more processes"):
        one.start()
    monkeypatch.undo()
    assert started[0].poll() is not None
    again = desk.supervisor()
    again.start()
