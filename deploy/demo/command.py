"""`wakeful demo`: its arguments, and how its report is shown. Imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped

if TYPE_CHECKING:
    from .console import Beside
    from .messages import Incoming
    from .runner import Result


def demo(
    *,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help='JSON Lines: {"text": …, "customer": …}. (default: 60 of its own)',
        ),
    ] = None,
    calm: Annotated[
        bool, typer.Option("--calm", help="Nothing is killed, and no answer is lost.")
    ] = False,
    late_commit: Annotated[
        bool,
        typer.Option("--late-commit", help="The payment service charges after it has hung up."),
    ] = False,
    dedupe: Annotated[
        bool, typer.Option("--dedupe", help="The payment service charges each key once.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Be the supervisor: say yes or no to each large refund.")
    ] = False,
    console: Annotated[
        bool | None,
        typer.Option(
            "--console/--no-console",
            help="Leave one large refund to you, in the browser; or show no console at all. "
            "(default: --console on a terminal; elsewhere a console that asks for nothing)",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The report as one JSON object on stdout.")
    ] = False,
) -> int:
    """Run the refund desk over customers' messages, kill its processes in the middle, and check what is left.

    A customer is a session, a message a turn. The model (WAKEFUL_MODEL, else a script) says what is wanted; refunds
    above 100.00 wait for an approval; the payment service loses one answer in five, and charges twice when asked
    twice. Prints a link to the console, where all of it can be watched. On a terminal one large refund is left to you
    there; Enter leaves it to the script. Brings up the local stack where none runs, and stops it again. Exits with 1 if a promise is broken, and
    names it. Killed itself and started again, it goes on where it was.
    """
    messages = _messages(input_file)
    if ask and not sys.stdin.isatty():
        raise Stopped(Exit.USAGE, "--ask needs a terminal: run it from one, or leave --ask out")
    _check_model()
    from .. import logs
    from .runner import run
    from .runs import Options

    # The processes log to files of their own; what becomes of them is shown here.
    logs.configure("error", "text")
    options = Options(
        calm=calm,
        ask=ask,
        dedupe=dedupe,
        late_commit=late_commit,
        console=_beside(wanted=console, quiet=ask or as_json),
        own=input_file is None,
    )
    result = run(messages, os.environ, options)
    _show(result, as_json=as_json)
    return Exit.DONE if result.report.kept else Exit.REFUSED


def _beside(*, wanted: bool | None, quiet: bool) -> Beside:
    """What was asked for; `quiet` is a run that asks somebody else, or tells a program."""
    from .console import Beside, missing

    if wanted is False:
        return Beside.OFF
    if (name := missing()) is not None:
        told = f"the console needs {name}, which is not installed: pip install 'wakeful[gateway]'"
        if wanted:
            raise Stopped(Exit.USAGE, f"--console: {told}")
        sys.stderr.write(f"{told}\n")
        return Beside.OFF
    yours = wanted or (sys.stdin.isatty() and sys.stderr.isatty() and not quiet)
    return Beside.YOURS if yours else Beside.SHOWN


def _messages(path: Path | None) -> list[Incoming]:
    from .messages import InputRefused, own_messages, read_messages

    try:
        return own_messages() if path is None else read_messages(path)
    except InputRefused as error:
        raise Stopped(Exit.USAGE, f"--input: {error}") from error


def _check_model() -> None:
    from .model import model_from

    try:
        model_from(os.environ)
    except ValueError as error:
        raise Stopped(Exit.USAGE, str(error)) from error


def _show(result: Result, *, as_json: bool) -> None:
    import json

    from .report import as_words

    report = result.report
    if as_json:
        sys.stdout.write(json.dumps(result.to_json()) + "\n")
    else:
        words = [*as_words(report), ("folder", str(result.folder))]
        sys.stdout.writelines(f"{name:<24} {value}\n" for name, value in words)
    sys.stdout.flush()
    if report.model_error:
        told = f"the model failed {report.failed_model_calls} times, the last time: {report.model_error}"
        sys.stderr.write(told + "\n")
    for problem in report.problems:
        sys.stderr.write(f"broken: {problem}\n")
    if not report.refunds_due:
        sys.stderr.write(
            "no refund was due in these messages: one is where a 'customer' names an order of their own "
            "(docs/refund-desk.md) and no supervisor says no\n"
        )
    if report.kept:
        through = f", through {report.kills} kills" if report.kills else ""
        told = f"every promise was kept{through}: nothing lost, nothing charged twice"
        sys.stderr.write(told + "\n")
    if not as_json and not result.removed:
        how = f"wakeful up; WAKEFUL_NAMESPACE={result.namespace} wakeful session list"
        sys.stderr.write(f"look inside: {how}\n")
