"""What people see while the demo runs: a live line on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

PLAIN_EVERY_S = 2.0

SHOWN_MAX = 2_000
"""Characters of one value; the outbox has all of them."""


@dataclass(slots=True)
class Progress:
    """How far the run is."""

    messages: int
    sent: int = 0
    waiting: int = 0
    approved: int = 0
    finished: int = 0
    kills: int = 0

    def __str__(self) -> str:
        return (
            f"{self.sent} of {self.messages} sent, {self.waiting} wait for approval, "
            f"{self.finished} answered, {self.kills} kills"
        )


class View:
    """Lines that stay, and one that moves."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._live: Live | None = None
        self._since_s = monotonic()
        self._told_s = 0.0
        self._told = ""

    def line(self, text: str) -> None:
        """A line that stays."""
        at = f"{monotonic() - self._since_s:6.1f} s  "
        self._console.print(Text(at + printable(text)), soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        """How far it is; in plain text only now and then, and only what is new."""
        if self._live is not None:
            self._live.update(_bar(progress))
            return
        now_s, told = monotonic(), str(progress)
        if now_s - self._told_s >= PLAIN_EVERY_S and told != self._told:
            self._told_s, self._told = now_s, told
            self.line(told)

    @contextmanager
    def paused(self) -> Iterator[Console]:
        """The terminal without the moving line, for a question."""
        live = self._live
        if live is not None:
            live.stop()
        yield self._console
        if live is not None:
            live.start()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError):  # the terminal is gone
                live.stop()


def ask(view: View, wrote: str, action: str, arguments: dict[str, Any]) -> str:
    """Shows message and action, and asks for a decision: approve, reject, or all (this and the rest)."""
    words = {"y": "approve", "yes": "approve", "n": "reject", "no": "reject", "a": "all"}
    with view.paused() as console:
        console.print(Text(f"\na customer wrote: {printable(wrote)}"), soft_wrap=True)
        console.print(Text(f"the agent wants to run {printable(action)}:", style="bold"))
        for name, value in arguments.items():
            console.print(Text(f"  {name}: {printable(str(value))}"), soft_wrap=True)
        while True:
            console.print("approve? \\[y]es, \\[n]o, \\[a]ll from here on: ", end="")
            answer = sys.stdin.readline()
            if not answer:
                raise KeyboardInterrupt
            decided = words.get(answer.strip().lower())
            if decided:
                return decided


def printable(text: str) -> str:
    """One line without control characters: what customers and models write must not steer a terminal."""
    flat = text.replace("\n", " ")
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in flat)
    return safe if len(safe) <= SHOWN_MAX else safe[: SHOWN_MAX - 1] + "…"


def _bar(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_row(
        ProgressBar(total=progress.messages, completed=progress.finished, width=30), str(progress)
    )
    return table
