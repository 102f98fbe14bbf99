"""Logs: structlog to stderr, a constant message plus fields; the standard library's loggers go the same way.

And what else a process writes: `mask` keeps the credentials of its activities out of all of it.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO, cast

import structlog

QUIET_S = 10.0
"""A line of the Kafka client that only repeats itself is shown once in so long."""

SHAPES_MAX = 500

_NUMBERS = re.compile(r"\d+")


class Sparse(logging.Filter):
    """Lets one line of each shape through per `QUIET_S`: a client without its broker writes forty a second."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._now_s = now_s
        self._shown: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show the line; numbers make no new shape."""
        shape = _NUMBERS.sub("0", record.getMessage().partition(" (after")[0])
        now_s = self._now_s()
        if now_s - self._shown.get(shape, -QUIET_S) < QUIET_S:
            return False
        if len(self._shown) >= SHAPES_MAX:
            self._shown.clear()
        self._shown[shape] = now_s
        return True


class Stderr(io.TextIOBase):
    """Whatever stderr is at the moment: somebody may put another in its place."""

    def write(self, text: str) -> int:
        """Writes to it."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flushes it."""
        sys.stderr.flush()


class Masked:
    """A stream of this process without what `hide` takes out of each write; in all else, bytes and descriptor, that stream."""

    def __init__(self, stream: TextIO, hide: Callable[[str], str]) -> None:
        self._stream = stream
        self._hide = hide

    def write(self, text: str) -> int:
        """Writes the rest, and says that it was all."""
        self._stream.write(self._hide(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """The same, line by line."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask(hide: Callable[[str], str]) -> None:
    """From now on all that this process prints and logs goes through `hide`, but for who has kept a stream from before.

    A repeat changes nothing.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, Masked):
            setattr(sys, name, Masked(stream, hide))


class Handler(logging.StreamHandler[Stderr]):
    """Ours, to be told from those of others."""


def configure(level: str, form: str, *, process: str = "") -> None:
    """Sends all logs of this process to stderr; `process` is added to lines of JSON. A repeat replaces the first."""
    number = getattr(logging, level.upper())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, pad_level=False)
    )
    stderr = Stderr()
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", stderr)),
        cache_logger_on_first_use=False,
    )
    handler = Handler(stderr)
    handler.addFilter(Sparse(time.monotonic))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            # Tracebacks as text, here as well: those that the renderer draws show the values of variables.
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                render,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [*(h for h in root.handlers if not isinstance(h, Handler)), handler]
    root.setLevel(logging.INFO if number == logging.DEBUG else max(number, logging.WARNING))
    logging.getLogger("wakeful").setLevel(number)
    if process and form == "json":
        structlog.contextvars.bind_contextvars(process=process)
