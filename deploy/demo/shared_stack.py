"""The stack under the demos of one home: who starts it, who stops it, and what earlier runs have left in it.

`<home>/demo/lock` is held by every demo that runs. One that finds itself alone goes on with the run that was cut, if it
was asked for the same, and forgets the others: their topics and views go, so that the broker does not fill up; their
papers and reports stay.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..exits import Exit, Stopped
from ..run_file import RunFile
from ..settings import load_settings
from ..stack import Stack, StackError
from .runs import Run, cut_run, earlier_runs, new_run
from .view import View

STARTED = "the stack was started by a demo"
"""In the lock file, while that is so; a demo that was killed leaves it there for the next one."""


@contextmanager
def shared_stack(home: Path, environ: Mapping[str, str], asked: str, view: View) -> Iterator[Run]:
    """A running stack, and the run to make on it; the last of the demos that use it stops it, if a demo has started it."""
    stack = Stack(home, environ=environ)
    lock = home / "demo" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as users:
        alone = _alone(users)
        if alone:
            _sign(users, started=stack.endpoints() is None or _is_signed(users))
        else:
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            stack.up(view.line)
            run = _choose(environ, asked, view, alone=alone)
            run.begin(asked)
            if alone:
                fcntl.flock(users, fcntl.LOCK_SH)
            yield run
        except StackError as error:
            raise Stopped(Exit.UNAVAILABLE, str(error)) from error
        finally:
            if _is_signed(users):
                _stop(stack, users, view)


def _choose(environ: Mapping[str, str], asked: str, view: View, *, alone: bool) -> Run:
    # Each run has a namespace of its own, where nobody publishes policies.
    settings = load_settings(environ).model_copy(update={"open_policy": True})
    earlier = earlier_runs(settings) if alone else []
    cut = cut_run(earlier, asked)
    for run in earlier:
        if run is not cut:
            view.line(f"removing topics and views of the earlier run {run.settings.namespace}")
            run.remove()
    if cut:
        view.line(f"run {cut.settings.namespace} was cut in the middle: going on with it")
    return cut or new_run(settings)


def _sign(users: IO[str], *, started: bool) -> None:
    users.truncate(0)
    if started:
        users.write(STARTED)
        users.flush()


def _is_signed(users: IO[str]) -> bool:
    users.seek(0)
    return users.read() == STARTED


def _stop(stack: Stack, users: IO[str], view: View) -> None:
    other = RunFile(stack.home).load()
    if not _alone(users):
        view.line("the stack stays up: another demo uses it, and will stop it")
    elif other is not None and other.alive:
        view.line("the stack stays up: 'wakeful run' uses it; 'wakeful down' stops it")
    else:
        try:
            view.line("stopping the stack, which was not running before; its data stays")
        finally:  # also when nobody reads that any more
            _sign(users, started=False)
            stack.down()


def _alone(users: IO[str]) -> bool:
    """Whether no other demo uses this home; holds them off until the lock is given back."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
