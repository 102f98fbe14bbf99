"""What people see while the demo runs: a few live lines on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .board import Board

PLAIN_EVERY_S = 2.0
LIVE_EVERY_S = 0.2

SHOWN_MAX = 2_000
"""Characters of one value; the log has all of them."""

BAR_WIDTH = 30


class View:
    """Lines that stay, and some that move. When nobody can read them any more, the first to notice ends the run."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._live: Live | None = None
        self._since_s = monotonic()
        self._told_s = 0.0
        self._told = ""
        self._gone = False

    def line(self, text: str) -> None:
        """A line that stays."""
        at = f"{monotonic() - self._since_s:6.1f} s  "
        with self._written():
            self._console.print(Text(at + printable(text)), soft_wrap=True)

    def progress(self, board: Board) -> None:
        """How far it is; in plain text only now and then, and only what is new."""
        now_s = monotonic()
        if self._live is not None:
            if now_s - self._told_s >= LIVE_EVERY_S:
                self._told_s = now_s
                with self._written():
                    self._live.update(live(board), refresh=True)
            return
        told = plain(board)
        if now_s - self._told_s >= PLAIN_EVERY_S and told != self._told:
            self._told_s, self._told = now_s, told
            self.line(told)

    def last(self, board: Board) -> None:
        """How far it came: told whenever the last time was."""
        self._told_s = 0.0
        self.progress(board)

    @contextmanager
    def paused(self) -> Iterator[Console]:
        """The terminal without the moving lines, for a question."""
        shown = self._live
        if shown is not None:
            shown.stop()
        yield self._console
        if shown is not None:
            shown.start()

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console, transient=True, auto_refresh=False, redirect_stdout=False
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shown, self._live = self._live, None
        if shown is not None:
            with suppress(OSError, SystemExit):  # the terminal is gone
                shown.stop()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Lets the first break of the pipe end the run, in order; what is said on the way out is for nobody."""
        try:
            yield
        except (OSError, SystemExit):  # rich makes the one of the other
            if not self._gone:
                self._gone = True
                raise KeyboardInterrupt from None


def plain(board: Board) -> str:
    """The board in one line."""
    sessions = ", ".join(f"{count} {status}" for status, count in board.sessions.items())
    told = [
        f"{board.answered}/{board.messages} answered",
        counted(board.charges, "charge"),
        sessions or "no session yet",
        counted(board.kills, "kill"),
        f"{board.per_s:.1f}/s",
    ]
    return ", ".join(told)


def live(board: Board) -> Table:
    """The board as lines for a terminal of any width."""
    answered = f"{board.answered} of {board.messages} answered, {board.per_s:.1f} per second"
    rows = Table.grid(padding=(0, 2))
    rows.add_row("", ProgressBar(total=board.messages, completed=board.answered, width=BAR_WIDTH))
    rows.add_row("messages", Text(answered))
    sessions = "  ".join(f"{count} {status}" for status, count in board.sessions.items())
    rows.add_row("sessions", Text(sessions or "none yet"))
    rows.add_row("approvals", Text(f"{board.approvals_open} waiting"))
    found = f", {board.recovered} found by a look-up" if board.recovered else ""
    rows.add_row("charges", Text(f"{board.charges}, {board.cents / 100:,.2f} in all{found}"))
    rows.add_row("kills", Text(str(board.kills)))
    return rows


def counted(count: int, what: str) -> str:
    """`1 kill`, `2 kills`."""
    return f"{count} {what}{'s' * (count != 1)}"


def printable(text: str) -> str:
    """One line without control characters: what customers and models write must not steer a terminal."""
    flat = text.replace("\n", " ")
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in flat)
    return safe if len(safe) <= SHOWN_MAX else safe[: SHOWN_MAX - 1] + "…"
