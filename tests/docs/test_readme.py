"""The README claims only what its commands show: they exist, and those that are quick are run and compared."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

from wakeful.deploy import exits, settings
from wakeful.deploy.demo.report import Report

from .readme import ROOT, SETTINGS, TEXT, TOUR, Shown, blocks, tour

LIMIT_S = 60.0
LOOK_S = 0.1

MASKS = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
    (r"plain-[0-9a-f-]+", "plain-ID"),
    (r" +", " "),
)
LATE = re.compile(r".*it needs not be sent again; waiting on|reading \d+ of \d+.*")
"""A line that a busy machine adds, where what was killed takes its time to come back, or the log is long to read."""

KILLED_BEFORE = "wakeful approval approve"
"""Where the README says that everything may be killed."""


def masked(lines: list[str]) -> list[str]:
    text = "\n".join(line.rstrip() for line in lines)
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    return text.splitlines()


@dataclass
class Desk:
    """`wakeful run examples/hello.py`, killed and started at will."""

    home: Path
    environ: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "wakeful", "run", "examples/hello.py"]
        with (self.home / "run.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environ,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def kill(self) -> None:
        """Ends the supervisor and all its children with SIGKILL."""
        running = json.loads((self.home / "run.json").read_text())
        for pid in (running["pid"], *(child["pid"] for child in running["children"])):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(LIMIT_S)

    def shell(self, command: str) -> list[str]:
        """What a command prints, on both streams."""
        words = shlex.split(command)
        words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", words[0]]
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return [line for line in done.stdout.splitlines() if not LATE.fullmatch(line)]


@contextmanager
def running(home: Path, environ: dict[str, str]) -> Iterator[Desk]:
    home.mkdir()
    desk = Desk(home, environ)
    desk.start()
    try:
        yield desk
    finally:
        desk.stop()


@pytest.mark.slow
@pytest.mark.chaos
def test_the_tour_prints_what_the_readme_says(
    endpoints, postgres_url, namespace, keys, tmp_path
) -> None:
    environ = {
        **os.environ,
        "WAKEFUL_HOME": str(tmp_path / "home"),
        "WAKEFUL_KAFKA": endpoints.kafka,
        "WAKEFUL_POSTGRES": postgres_url,
        "WAKEFUL_REDIS": endpoints.redis,
        "WAKEFUL_NAMESPACE": namespace,
        "WAKEFUL_OPEN_POLICY": "1",
        "WAKEFUL_KEYS": str(keys),
    }
    with running(tmp_path / "home", environ) as desk:
        wait_for_topics(desk)
        for shown in tour():
            if shown.command.startswith(KILLED_BEFORE):
                desk.kill()
                desk.start()
            compare(desk, shown)


def compare(desk: Desk, shown: Shown) -> None:
    """Runs the command; those that only look may look again, since the views come a moment later."""
    limit, expected = monotonic() + LIMIT_S, masked(shown.output)
    looks = re.match(r"wakeful (approval list|audit|sql|tail)", shown.command) is not None
    while (
        (found := masked(desk.shell(shown.command))) != expected and looks and monotonic() < limit
    ):
        sleep(LOOK_S)
    assert found == expected, f"$ {shown.command}"


def wait_for_topics(desk: Desk) -> None:
    limit = monotonic() + LIMIT_S
    while not (desk.home / "run.json").exists():
        assert monotonic() < limit, (desk.home / "run.log").read_text()
        sleep(LOOK_S)


def test_the_agent_shown_is_the_one_in_the_examples() -> None:
    shown = blocks("python")
    assert shown[0] == (ROOT / "examples" / "hello.py").read_text(encoding="utf-8")
    desk = ROOT / "examples" / "refund_desk" / "desk.py"
    assert shown[1] in desk.read_text(encoding="utf-8")


def test_its_variables_are_those_that_settings_reads() -> None:
    named = set(re.findall(r"WAKEFUL_[A-Z_]+", settings.__doc__))
    assert named <= set(re.findall(r"`(WAKEFUL_[A-Z_]+)", SETTINGS))


def test_its_exit_codes_are_those_of_the_commands() -> None:
    section = SETTINGS.split("| exit code | meaning |")[1].split("\n\n")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) ", section, re.MULTILINE)} == set(
        exits.Exit
    )


def test_the_report_shown_has_the_report_s_fields() -> None:
    known = {name.replace("_", " ") for name in Report.__dataclass_fields__}
    report = blocks("text")[0].split("…\n")[1]
    assert {re.split(r"  +", line)[0] for line in report.splitlines()} <= known


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        *((ROOT, path) for path in re.findall(r"\]\(([^)#]+)\)", TEXT)),
        *((ROOT / "docs", path) for path in re.findall(r"\]\(([^)#]+)[^)]*\)", TOUR + SETTINGS)),
    ],
)
def test_its_links_lead_somewhere(folder, path) -> None:
    assert (folder / path).exists()
