"""The console beside a run of the demo: the gateway as a process, and a link that signs its owner in once."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

from ..settings import Settings

NEEDS = ("fastapi", "uvicorn", "jinja2")

LINK = re.compile(r"(http://\S+/console)/enter/\S+")

END_S = 10

SAID_MAX = 3
"""Of what a console that did not start has said, the last lines are told."""


class Beside(StrEnum):
    """Whether there is a console beside the run, and whether one large refund is left to whoever uses it."""

    OFF = "off"
    SHOWN = "shown"
    YOURS = "yours"


def missing() -> str | None:
    """The first of the console's packages that is not installed."""
    return next((name for name in NEEDS if find_spec(name) is None), None)


@dataclass(slots=True)
class Console:
    """A console that starts beside everything else: `link` is there once it listens, `failed` once it has ended."""

    link: str | None = None
    url: str = ""
    failed: str | None = None


@contextmanager
def console(settings: Settings, environ: Mapping[str, str], how: Beside) -> Iterator[Console]:
    """Starts it without waiting for it; it ends with the block."""
    shown = Console()
    if how is Beside.OFF:
        yield shown
        return
    program = [sys.executable, "-m", "wakeful", "serve", "--console-link"]
    given = {**environ, **settings.to_environ(), "WAKEFUL_HTTP_PORT": "0"}
    with subprocess.Popen(program, env=given, stderr=subprocess.PIPE, text=True) as process:
        reading = threading.Thread(target=_read, args=(process, shown), daemon=True)
        reading.start()
        try:
            yield shown
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            process.kill()
            reading.join(END_S)


def _read(process: subprocess.Popen[str], shown: Console) -> None:
    """Takes the link from what it says, and reads on, so that what it warns of never stops it."""
    said: list[str] = []
    for line in process.stderr or ():
        said = [*said, line.strip()][-SAID_MAX:]
        if found := LINK.search(line):
            shown.url, shown.link = found[1], found[0]
    shown.failed = " ".join(said) or "it said nothing"
