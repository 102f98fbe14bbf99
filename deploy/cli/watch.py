"""`watch` runs a watcher; `top` shows what watchers have counted, and which sessions make no progress."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .context import AsJson, kafka, settings

if TYPE_CHECKING:
    from ...processors.watchers.board import Board

EVERY_S = 2.0
"""Between two looks of `top`."""

SESSION_TIMEOUT_MIN_MS, SESSION_TIMEOUT_MAX_MS = 500, 300_000


def watch(
    *,
    name: Annotated[
        str | None, typer.Option(help="Its name in the record. (default: host and pid)")
    ] = None,
    session_timeout: Annotated[
        str, typer.Option(help="How long the others wait for one that died: 500ms to 5m.")
    ] = "10s",
) -> int:
    """Run one watcher: it counts events in windows, and proposes what to do about sessions without progress.

    Any number may run side by side; they share the partitions. It changes no session, and can be left out. Ends with
    SIGTERM or Ctrl-C. 'wakeful top' shows what it tells.
    """
    from .run import ended, with_logs

    given = with_logs("watcher")
    timeout_ms = _session_timeout_ms(session_timeout)

    def work() -> Exit:
        from ..watching import check_name, run_watcher

        own = check_name(name or f"{socket.gethostname()[:40]}-{os.getpid()}")
        return run_watcher(given, own, session_timeout_ms=timeout_ms)

    return ended(work)


def top(
    *,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Of all tenants, not of WAKEFUL_TENANT alone.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show failures, retries, spend and duration per tool, and sessions without progress, as they change.

    The last whole minute and the last hour, per tenant, tool and workflow version, as watchers ('wakeful watch') have
    counted them. --json shows it once.
    """
    from ..clock import SystemClock
    from ..telling.watched import Watched, top_json
    from .output import write_json

    given = settings()
    tenant = None if all_tenants else given.tenant
    topics = (given.topics.watch_windows, given.topics.watch_proposals)
    with kafka(given) as log:
        watched = Watched(log, topics)
        while True:
            board, now_ms = watched.look(), SystemClock().now_ms()
            if as_json:
                write_json(top_json(board, watched.partitions, now_ms, tenant))
                return Exit.DONE
            lives = not once and os.isatty(1)
            if lives:
                typer.echo("\x1b[2J\x1b[H", nl=False)
            _show(board, watched.partitions, now_ms, tenant)
            if not lives:
                return Exit.DONE
            time.sleep(EVERY_S)


def _show(board: Board, partitions: int, now_ms: int, tenant: str | None) -> None:
    from ..telling.stalled import proposal_told, silence_told
    from ..telling.watched import top_json
    from .output import note, table

    told = top_json(board, partitions, now_ms, tenant)
    for name, window in told["windows"].items():
        typer.echo(f"last {name}")
        rows = [_row(one) for one in window["rows"]]
        table(HEADINGS, rows)
        if not rows:
            typer.echo("nothing was counted")
        typer.echo("")
    for one in told["proposals"]:
        typer.echo(f"no progress: {proposal_told(one, now_ms)}")
    silence = board.silence(partitions, now_ms)
    if not silence.ever:
        note("no watcher has run in this namespace yet: start one with 'wakeful watch'")
    elif said := silence_told(silence, now_ms):
        note(f"{said}: see whether 'wakeful watch' runs, and its log")


HEADINGS = (
    *("tenant", "workflow", "tool", "asked", "done", "failed", "in doubt", "again"),
    *("failure rate", "mean ms", "most ms", "tokens in", "tokens out", "cost"),
)


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    rate = one["failure_rate"]
    cost = one.get("cost_nanos")
    if one["tool"] == "":
        ended = f"{one.get('turns', 0)} turns"
        bad = one.get("sessions_failed", 0)
        return (one["tenant"], _flow(one), "(turns)", "-", ended, bad, *["-"] * 8)
    return (
        *(one["tenant"], _flow(one), one["tool"]),
        *(
            one.get(name, 0)
            for name in ("requested", "completed", "failed", "uncertain", "retried")
        ),
        "-" if rate is None else f"{100 * rate:.1f}%",
        one["duration_mean_ms"],
        one.get("duration_max_ms"),
        one.get("input_tokens", 0),
        one.get("output_tokens", 0),
        "-" if cost is None else f"{cost / 1e9:.4f}",
    )


def _flow(one: dict[str, Any]) -> str:
    return f"{one['workflow']} v{one['version']}"


def _session_timeout_ms(text: str) -> int:
    from ...processors.durations import to_ms

    try:
        found = to_ms(text)
    except ValueError as error:
        raise Stopped(Exit.USAGE, f"--session-timeout: {error}") from None
    if not SESSION_TIMEOUT_MIN_MS <= found <= SESSION_TIMEOUT_MAX_MS:
        raise Stopped(Exit.USAGE, f"--session-timeout is {text}: give 500ms to 5m")
    return found
