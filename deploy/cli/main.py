"""All commands in one tree, and the one place where errors become words and exit codes.

Modules of commands import what they need inside their functions: `wakeful --help` must not load Kafka.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from ..exits import Exit
from . import (
    access,
    activities,
    approvals,
    arrivals,
    audit,
    doctor,
    explaining,
    jobs,
    keys,
    ledger,
    letters,
    mcp,
    policy,
    projections,
    repair,
    rollout,
    run,
    schedules,
    serving,
    sessions,
    sql,
    stack,
    tail,
    topics,
    watch,
)
from .errors import explain
from .quiet import Quiet, colour
from .tree import command_of

app = typer.Typer(
    name="wakeful",
    help="Durable agent sessions on Kafka: a session sleeps for free and wakes exactly where it left off.",
    epilog=(
        "Settings are environment variables, WAKEFUL_KAFKA and so on; a running local stack fills in what is not set. "
        "Exit codes: 0 done, 1 refused, 2 usage, 3 not found, 4 not in time, 5 unavailable, 6 app, 7 busy, 70 fault."
    ),
    no_args_is_help=True,
    cls=Quiet,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

STACK, RUN, ASK, LOOK = "Local stack", "Run", "Ask", "Look"

app.command("up", rich_help_panel=STACK)(stack.up)
app.command("down", rich_help_panel=STACK)(stack.down)
app.command("reset", rich_help_panel=STACK)(stack.reset)
app.command("status", rich_help_panel=STACK)(stack.status)
app.command("run", rich_help_panel=RUN)(run.run)
app.command("processor", rich_help_panel=RUN)(run.processor)
app.command("worker", rich_help_panel=RUN)(run.worker)
app.command("projector", rich_help_panel=RUN)(run.projector)
app.command("watch", rich_help_panel=RUN)(watch.watch)
app.command("serve", rich_help_panel=RUN)(serving.serve)
app.add_typer(serving.app, name="apikeys", rich_help_panel=RUN)
app.add_typer(keys.app, name="keys", rich_help_panel=RUN)
app.add_typer(topics.app, name="topics", rich_help_panel=RUN)
app.add_typer(policy.app, name="policy", rich_help_panel=RUN)
app.add_typer(rollout.app, name="rollout", rich_help_panel=RUN)
app.add_typer(projections.app, name="projections", rich_help_panel=RUN)
app.add_typer(access.app, name="access", rich_help_panel=RUN)
app.add_typer(sessions.app, name="session", rich_help_panel=ASK)
app.add_typer(approvals.app, name="approval", rich_help_panel=ASK)
app.add_typer(activities.app, name="activity", rich_help_panel=ASK)
app.add_typer(jobs.app, name="job", rich_help_panel=ASK)
app.add_typer(schedules.app, name="schedule", rich_help_panel=ASK)
app.add_typer(repair.app, name="repair", rich_help_panel=ASK)
app.command("signal", rich_help_panel=ASK)(arrivals.signal)
app.command("top", rich_help_panel=LOOK)(watch.top)
app.command("tail", rich_help_panel=LOOK)(tail.tail)
app.command("explain", rich_help_panel=LOOK)(explaining.explain)
app.command("ledger", rich_help_panel=LOOK)(ledger.ledger)
app.add_typer(mcp.app, name="mcp", rich_help_panel=LOOK)
app.command("sql", rich_help_panel=LOOK)(sql.sql)
app.command("doctor", rich_help_panel=LOOK)(doctor.doctor)
app.add_typer(letters.app, name="dlq", rich_help_panel=LOOK)
app.add_typer(audit.app, name="audit", rich_help_panel=LOOK)

DEMO = f"{__package__.rpartition('.')[0]}.demo"
if find_spec(DEMO) and find_spec(f"{DEMO}.command"):
    app.command("demo", rich_help_panel=RUN)(import_module(f"{DEMO}.command").demo)


@app.command("version", rich_help_panel=LOOK)
def version(
    *, as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False
) -> None:
    """Print the versions of Wakeful, Python and the Kafka client."""
    from .output import versions

    versions(as_json=as_json)


@app.command("child", hidden=True)
def spare() -> int:
    """Wait, loaded, for a supervisor to say which process this is."""
    from ..spares import await_order

    arguments = await_order()
    return int(Exit.DONE) if arguments is None else invoke(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and ends the process with its exit code."""
    code = _flushed(invoke(sys.argv[1:] if arguments is None else arguments))
    if code == Exit.FAULT:
        os._exit(code)  # nothing of a faulty client is worth waiting for
    sys.exit(code)


def _flushed(code: int) -> int:
    """Writes what is still to be written; the exit code, also where that cannot be done."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError) or code != Exit.DONE:
            return code  # whoever read our output has seen enough, or the fault was told before
        told, code = explain(error)
        _tell(told)
    return code


def _tell(told: str) -> None:
    with suppress(OSError):  # nobody can be told that stderr is full; the exit code is left
        sys.stderr.write(told + "\n")


def invoke(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; what went wrong is told on stderr."""
    try:
        command = command_of(app, arguments)
        code = command(list(arguments), prog_name="wakeful", standalone_mode=False, color=colour())
    except (BrokenPipeError, SystemExit):
        return (
            Exit.DONE
        )  # typer's answer to a broken pipe; nothing else here ends the process by itself
    except (Exception, KeyboardInterrupt) as error:
        told, code = explain(error)
        if told:
            _tell(told)
    return int(code or 0)
