"""Crash points kill where they stand, `p.commit_sent` a moment later, and ends become exit codes."""

import signal
import subprocess
import sys

import pytest

from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.processes import check_cluster, ending, opened_leases
from wakeful.deploy.settings import Settings
from wakeful.events.log.protocol import Fatal
from wakeful.processors.activities.leases import NoLeases
from wakeful.processors.activities.redis_leases import RedisLeases
from wakeful.processors.loop import LoopFailed

PROGRAM = """
import sys, threading, time
from wakeful.deploy.crash_points import crash_points
from wakeful.deploy.settings import Settings
returned = threading.Event()
pauses = {"handshake": lambda _s: returned.wait(), "clock": time.sleep}
hit = crash_points(Settings(failpoint=sys.argv[1]), pause=pauses[sys.argv[2]])
for n in range(3):
    hit("p.begun")
    hit("p.commit_sent")
    print("passed", n, flush=True)
    if threading.active_count() > 1:  # the kill is on its way: stand still, as the call that commits does
        returned.set()
        threading.Event().wait()
print("alive", flush=True)
"""

LIMIT_S = 60.0  # for a program that waits for a kill which never comes


def passed(failpoint: str, pause: str = "handshake") -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, failpoint, pause],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return done.returncode, done.stdout.split("\n")[:-1]


def test_a_crash_point_kills_on_the_pass_that_was_asked_for() -> None:
    assert passed("p.begun:2") == (-signal.SIGKILL, ["passed 0"])


def test_the_crash_inside_a_commit_comes_after_the_call_has_begun() -> None:
    assert passed("p.commit_sent:2") == (-signal.SIGKILL, ["passed 0", "passed 1"])


def test_the_crash_inside_a_commit_needs_nobody_to_wake_it() -> None:
    code, lines = passed("p.commit_sent:2", "clock")  # the kill may come before the second line
    assert code == -signal.SIGKILL
    assert lines[:1] == ["passed 0"]
    assert "alive" not in lines


def test_a_crash_point_that_is_not_passed_often_enough_kills_nobody() -> None:
    assert passed("p.commit_sent:4") == (0, ["passed 0", "passed 1", "passed 2", "alive"])


def test_without_a_crash_point_nothing_happens() -> None:
    assert passed("") == (0, ["passed 0", "passed 1", "passed 2", "alive"])


def test_a_broker_of_another_cluster_is_refused() -> None:
    check_cluster(Settings(kafka="b:1", cluster_id="ours"), "ours")
    check_cluster(Settings(kafka="b:1"), "anything")
    with pytest.raises(Stopped, match="the broker at b:1 is cluster theirs, expected ours") as told:
        check_cluster(Settings(kafka="b:1", cluster_id="ours"), "theirs")
    assert told.value.code == Exit.UNAVAILABLE


@pytest.mark.parametrize(
    "fault",
    [Fatal("fenced"), LoopFailed("4 faults"), RuntimeError("ours"), SystemExit("by a library")],
)
def test_a_fault_asks_for_a_fresh_process(
    fault: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> Exit:
        raise fault

    assert ending(run) == Exit.FAULT == 70
    assert str(fault) in "".join(capsys.readouterr())


def test_what_people_must_mend_passes_through() -> None:
    def run() -> Exit:
        raise Stopped(Exit.APP, "mend it")

    with pytest.raises(Stopped, match="mend it"):
        ending(run)


def test_the_table_of_exit_codes_is_the_code() -> None:
    import wakeful.deploy.exits as module

    rows = [
        line.split("|")[1:3]
        for line in (module.__doc__ or "").splitlines()
        if line.startswith("| ")
    ]
    shown = {name.strip(): int(code) for code, name in rows[1:]}
    assert shown == {member.name: member.value for member in Exit}


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (None, NoLeases),
        ("redis://127.0.0.1:1/0", RedisLeases),
        ("http://127.0.0.1:1/0", NoLeases),
    ],
)
def test_a_worker_starts_whatever_redis_is(url: str | None, kind: type) -> None:
    with opened_leases(Settings(redis=url), "w1") as leases:
        assert type(leases) is kind
        assert not leases.held(["a#1"])
