"""The command line says what it does, and answers what cannot work with one sentence and an exit code."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main

from wakeful.deploy.cli import app
from wakeful.deploy.cli.arrivals import data_of_signal
from wakeful.deploy.cli.errors import explain
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.cli.output import write_json
from wakeful.deploy.exits import Exit, Stopped
from wakeful.events.errors import Corrupt, Rejected, Transient
from wakeful.events.log.protocol import Fatal, LogFault
from wakeful.events.state import Status

ROOT = Path(__file__).parents[2]
LOADED_BY_HELP = """
import runpy, sys
sys.argv = ["wakeful", "--help"]
try:
    runpy.run_module("wakeful", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
roots = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"wakeful"}
print(*(root for root in roots if not root.startswith("_")), file=sys.stderr)
print(*(name for name in sys.modules if name.startswith("wakeful.")), file=sys.stderr)
"""
HELP_NEEDS = {
    *("annotated_doc", "click", "markdown_it", "mdurl", "pygments", "rich", "shellingham", "typer"),
    *("annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"),
}
HELP_HAS_NO_USE_FOR = {
    "wakeful.agents",
    "wakeful.deploy.processes",
    "wakeful.deploy.supervisor",
    "wakeful.deploy.policies",
    "wakeful.events.avro",
    "wakeful.events.log.kafka",
    "wakeful.events.log.memory",
    "wakeful.processors.loop",
    "wakeful.processors.policies",
    "wakeful.processors.session",
    "wakeful.projections",
}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process, where no stack is: code, stdout, stderr."""
    for name in os.environ:
        if name.startswith("WAKEFUL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "home"))

    def run_one(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = invoke(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run_one


def commands(command: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return [path]
    return [found for name, one in inner.items() for found in commands(one, (*path, name))]


TREE = typer.main.get_command(app)
ALL = commands(TREE)


def test_the_commands_are_those_that_scripts_rely_on() -> None:
    wanted = {
        *((name,) for name in ("up", "down", "reset", "status", "run", "processor", "worker")),
        *((name,) for name in ("projector", "tail", "explain", "ledger", "doctor", "version")),
        *(("session", name) for name in ("open", "send", "show", "list", "cancel", "release")),
        *(("session", "start-turn"), ("signal",), ("activity", "list"), ("activity", "resolve")),
        *(("approval", name) for name in ("list", "approve", "reject")),
        *(("policy", name) for name in ("check", "test", "publish", "show")),
        *(("dlq", name) for name in ("list", "show", "redrive", "drop")),
        ("topics", "apply"),
        ("audit", "verify"),
    }
    assert wanted <= set(ALL)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...], run: Run) -> None:
    code, out, _ = run(*path, "--help")
    assert code == Exit.DONE
    assert "Usage: wakeful" in out


def test_the_help_of_list_names_every_status_that_can_be_asked_for(run: Run) -> None:
    _, out, _ = run("session", "list", "--help")
    known = {str(value) for name, value in vars(Status).items() if name.isupper()}
    assert known <= set(re.findall(r"[A-Z][a-z]+", out))


def test_help_loads_words_and_types_and_nothing_that_does_the_work() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BY_HELP], capture_output=True, text=True, check=True
    )
    foreign, ours = (set(line.split()) for line in done.stderr.splitlines())
    # Rich looks for attrs, where somebody else has brought them.
    assert {"typer"} <= foreign <= HELP_NEEDS | {"attr"}, "import it where it is used"
    assert "wakeful.deploy.cli.sessions" in ours
    assert ours & HELP_HAS_NO_USE_FOR == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("session", "list"),
        ("session", "send", "s1", "hello"),
        ("session", "show", "s1"),
        ("approval", "approve", "1.1-ab"),
        ("activity", "list"),
        ("activity", "resolve", "s1", "1.1", "--failed"),
        ("signal", "s1", "paid"),
        ("signal", "s1", "paid", "--data", "1"),
        ("session", "start-turn", "s1", "--trigger", "schedule"),
        ("dlq", "list"),
        ("dlq", "redrive", "0@1", "--yes"),
        ("dlq", "drop", "--reason", "unreadable"),
        ("tail",),
        ("explain", "s1"),
        ("ledger", "--since", "2h"),
        ("audit", "verify"),
        ("topics", "apply"),
        ("policy", "show"),
        ("projector",),
        ("run", str(ROOT / "examples" / "hello.py")),
    ],
    ids=" ".join,
)
def test_without_a_stack_each_command_says_how_to_start_one(
    arguments: tuple[str, ...], run: Run
) -> None:
    code, out, err = run(*arguments)
    assert code == Exit.UNAVAILABLE
    assert out == ""
    assert "no stack is running in " in err
    assert "run 'wakeful up'" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argument", "option", "data"),
    [
        ('{"cents": 7}', None, {"cents": 7}),
        (None, '{"cents": 7}', {"cents": 7}),
        (None, None, None),
    ],
)
def test_a_signal_takes_its_data_as_an_argument_and_as_an_option(
    argument: str | None, option: str | None, data: object
) -> None:
    assert data_of_signal(argument, option) == data


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("session", "send", "s1"), "missing argument 'TEXT'"),
        (("session", "send", "s1", "hi", "--frob"), "no such option: --frob"),
        (("session", "send", "s1", "{", "--data"), "TEXT is not JSON"),
        (("session", "send", "s1", "hi", "--wait", "--detach"), "contradict each other"),
        (("session", "send", "s1", "\udcff", "--detach"), "TEXT is not UTF-8"),
        (("session", "send", "s1", "hi", "--wait", "--timeout", "inf"), "'--timeout'"),
        (("approval", "edit", "1.1-ab", "{"), "the object of arguments is not JSON (expecting"),
        (("signal", "s1"), "missing argument 'NAME'"),
        (("signal", "s1", "paid", "{"), "the data of the signal is not JSON (expecting"),
        (("signal", "s1", "paid", ""), "the data of the signal is empty: write JSON, such as null"),
        (("signal", "s1", "paid", "--data", "{"), "--data is not JSON (expecting"),
        (("signal", "s1", "paid", "--data", ""), "--data is empty: write JSON, such as null"),
        (
            ("signal", "s1", "paid", "1", "--data", "2"),
            "the data is given twice, as '1' and as --data: give it once",
        ),
        (
            ("signal", "s1", "paid", "--signal-id", ""),
            "--signal-id '' is not allowed: use 1 to 200",
        ),
        (("signal", "s1", "paid", "--expected-seq", "-1"), "'--expected-seq'"),
        (("session", "send", "s1", "NaN", "--data"), "TEXT is not JSON (it has no NaN): 'NaN'"),
        (("approval", "edit", "1.1-ab", '{"a": 1, "a": 2}'), "(it has 'a' twice)"),
        (("session", "send", "s1", "hi", "--message-id", ""), "--message-id '' is not allowed"),
        (("session", "open", "w", "--actor", ""), "--actor '' is not allowed"),
        (
            ("session", "cancel", "s1", "--command-id", "a\nb"),
            "--command-id 'a\\nb' is not allowed",
        ),
        (("session", "list", "--status", ""), "--status '': expected one of Opened"),
        (("approval", "list", "--session", "a/b"), "session id 'a/b' is not allowed: use 1 to 128"),
        (
            ("approval", "reject", "1.1-ab", "--session", ""),
            "session id '' is not allowed: use 1 to",
        ),
        (("approval", "approve", "1.1-ab", "--wait", "--detach"), "contradict each other"),
        (("activity", "list", "a/b"), "session id 'a/b' is not allowed: use 1 to 128"),
        (("signal", "s1", "\n"), "signal '\\n' is not allowed"),
        (("signal", "s1", "x", "--wait", "--detach"), "contradict each other"),
        (("session", "start-turn", "s1"), "missing option '--trigger'"),
        (("session", "start-turn", "s1", "--trigger", "message"), "is for messages: send one"),
        (("session", "start-turn", "s1", "--trigger", "x", "--data", "{"), "--data is not JSON"),
        (("activity", "resolve", "s1", "1.1"), "say what became of it: --completed JSON"),
        (("activity", "resolve", "s1", "1.1", "--failed", "--completed", "1"), "or --failed"),
        (("activity", "resolve", "s1", "1.1", "--completed", "{"), "--completed is not JSON"),
        (("activity", "resolve", "s1", "refund", "--failed"), "activity id 'refund' is not one"),
        (("activity", "list", "--limit", "0"), "--limit is 0: give a number from 1 to 1000"),
        (("session", "open", "w", "--session", "a", "--idempotency-key", "b"), "not both"),
        (("session", "list", "--limit", "0"), "--limit is 0: give a number from 1 to 1000"),
        (("session", "list", "--status", "Asleep"), "expected one of Opened, Running"),
        (("approval", "list", "--status", "open"), "expected one of requested"),
        (("tail", "everything"), "give 'events' or 'outcomes'"),
        (("tail", "--from-start", "--since", "1h"), "contradict each other"),
        (
            ("session", "start-turn", "s1", "--trigger", "x", "--trigger-id", ""),
            "--trigger-id '' is",
        ),
        (("explain",), "missing argument 'SESSION'"),
        (("explain", "s1", "--turns", "0"), "'--turns'"),
        (("ledger", "--since", "monday"), "--since 'monday': write it like 30s"),
        (("ledger", "--status", "done"), "--status 'done': expected one of requested"),
        (("ledger", "a/b"), "session id 'a/b' is not allowed: use 1 to 128"),
        (("dlq", "redrive"), "say which letters: their ids"),
        (("dlq", "drop", "0@1", "--reason", "unreadable"), "say which letters: their ids"),
        (("nonsense",), "no such command 'nonsense'"),
        (("run",), "missing argument 'app'"),
        (("processor", "desk.py", "--ordinal", "-1"), "'--ordinal'"),
        (("reset",), "give --yes"),
    ],
)
def test_arguments_that_cannot_work_are_told_in_one_line(
    arguments: tuple[str, ...], told: str, run: Run
) -> None:
    code, out, err = run(*arguments)
    assert code == Exit.USAGE
    assert out == ""
    assert err.startswith("wakeful: ")
    assert told.lower() in err.lower()
    assert err.count("\n") == 1


def test_a_session_id_that_cannot_be_one_is_refused_before_anything_is_reached(run: Run) -> None:
    for command in (("session", "send", "a/b", "hi"), ("session", "show", "a b")):
        code, _, err = run(*command)
        assert code in (Exit.USAGE, Exit.UNAVAILABLE)
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Stopped(Exit.NOT_FOUND, "no such thing"), Exit.NOT_FOUND),
        (Rejected("too long"), Exit.USAGE),
        (Transient("later"), Exit.NOT_IN_TIME),
        (Corrupt("torn"), Exit.FAULT),
        (LogFault("gone"), Exit.UNAVAILABLE),
        (Fatal("fenced"), Exit.UNAVAILABLE),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (OSError(errno.ENOSPC, "No space left on device"), Exit.UNAVAILABLE),
        (RuntimeError("ours"), Exit.FAULT),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: BaseException, code: Exit) -> None:
    told, found = explain(error)
    assert found == code
    assert "Traceback" not in told


def test_version_is_one_object_for_scripts(run: Run) -> None:
    code, out, err = run("version", "--json")
    assert (code, err) == (Exit.DONE, "")
    assert json.loads(out)["wakeful"]


def test_status_without_a_stack_is_complete_and_says_so_by_its_code(run: Run) -> None:
    code, out, _ = run("status", "--json")
    found = json.loads(out)
    assert code == Exit.UNAVAILABLE
    assert {s["name"]: s["state"] for s in found["services"]} == {
        "kafka": "stopped",
        "postgres": "stopped",
        "redis": "stopped",
    }
    assert (found["run"], found["processes"]) == (None, [])
    assert (found["lag"], found["lag_unknown"]) == ([], [])


def test_status_tells_why_no_lag_is_known_and_does_not_fail_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.deploy.cli.context.KAFKA_LIMIT_S", 0.2)
    for name, url in (
        ("KAFKA", "127.0.0.1:1"),
        ("POSTGRES", "postgresql://127.0.0.1:1/x"),
        ("REDIS", "redis://127.0.0.1:1"),
    ):
        monkeypatch.setenv(f"WAKEFUL_{name}", url)
    code, _, err = run("status")
    assert code == Exit.DONE
    assert "lag unknown: no answer from kafka at 127.0.0.1:1" in err


def test_text_that_utf8_cannot_hold_is_still_json(capfd: pytest.CaptureFixture[str]) -> None:
    said = {"text": "lone \ud800, paired \U0001f600, nul \x00"}
    write_json(said)
    assert json.loads(capfd.readouterr().out) == said


def test_output_to_a_pipe_has_no_colours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "")
    _, out, err = run("status")
    assert "\x1b" not in out + err


@pytest.mark.parametrize("arguments", ["--help", "version", "version --json", "status"])
def test_a_full_disk_under_the_output_is_told_in_one_line(arguments: str, tmp_path: Path) -> None:
    program = f"WAKEFUL_HOME={tmp_path} {sys.executable} -m wakeful {arguments} > /dev/full"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.UNAVAILABLE
    assert done.stderr.startswith("wakeful: cannot write (no space left on device): make room")
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    program = f"{sys.executable} -m wakeful --help | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.strip() == "0"


def test_a_broker_that_does_not_answer_is_named_with_the_time_it_was_given(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_KAFKA", "127.0.0.1:1")
    monkeypatch.setattr("wakeful.deploy.cli.context.KAFKA_LIMIT_S", 1.0)
    code, _, err = run("session", "send", "s1", "hello")
    assert code == Exit.UNAVAILABLE
    assert "no answer from kafka at 127.0.0.1:1 within 1 s" in err


def test_a_database_that_does_not_answer_is_named_without_its_password(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_POSTGRES", "postgresql://ann:sekret@127.0.0.1:1/x")
    monkeypatch.setattr("wakeful.deploy.cli.context.POSTGRES_LIMIT_S", 0.2)
    code, _, err = run("session", "list")
    assert code == Exit.UNAVAILABLE
    assert "no answer from postgres at postgresql://ann:***@127.0.0.1:1/x" in err
    assert "sekret" not in err


def test_a_service_of_the_environment_is_not_called_stopped(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_POSTGRES", "postgresql://ann:sekret@db/x")
    _, out, _ = run("status", "--json")
    shown = {s["name"]: (s["state"], s["address"]) for s in json.loads(out)["services"]}
    assert shown["postgres"] == ("external", "postgresql://ann:***@db/x")
    assert shown["kafka"][0] == "stopped"


def test_a_home_that_cannot_be_one_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "file"))
    for command in (("status",), ("session", "list")):
        code, _, err = run(*command)
        assert code == Exit.USAGE
        assert f"cannot use {tmp_path / 'file'}" in err
        assert "WAKEFUL_HOME" in err


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_no_help_text_is_taken_for_markup(path: tuple[str, ...]) -> None:
    command = TREE
    for name in path:
        command = command.commands[name]
    texts = [command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]
    assert not any(re.search(r"\[[a-z]", text) for text in texts), "rich eats [words]: use (words)"
