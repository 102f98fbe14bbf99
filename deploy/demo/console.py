"""The console beside a run of the demo: the gateway as a process, and a link that signs its owner in once."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec

from ..exits import Exit, Stopped
from ..settings import Settings

NEEDS = ("fastapi", "uvicorn", "jinja2")

LINK = re.compile(r"http://\S+/console/enter/\S+")

END_S = 10


def check_installed() -> None:
    """`Stopped` where the console's packages are missing."""
    for name in NEEDS:
        if find_spec(name) is None:
            raise Stopped(
                Exit.USAGE,
                f"--console needs {name}, which is not installed: pip install 'wakeful[gateway]'",
            )


@contextmanager
def console(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """The link, while the gateway runs."""
    program = [sys.executable, "-m", "wakeful", "serve", "--console-link"]
    given = {**environ, **settings.to_environ(), "WAKEFUL_HTTP_PORT": "0"}
    with subprocess.Popen(program, env=given, stderr=subprocess.PIPE, text=True) as process:
        try:
            link = _link(process)
            threading.Thread(target=_drain, args=(process,), daemon=True).start()
            yield link
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            process.kill()


def _link(process: subprocess.Popen[str]) -> str:
    said: list[str] = []
    for line in process.stderr or ():
        said.append(line.strip())
        if found := LINK.search(line):
            return found[0]
    raise Stopped(Exit.UNAVAILABLE, f"the console did not start: {' '.join(said[-3:])}")


def _drain(process: subprocess.Popen[str]) -> None:
    """Reads on, so that what it warns of never stops it."""
    for _ in process.stderr or ():
        pass
