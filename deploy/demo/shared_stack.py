"""The stack under the demos of one home: who starts it, who stops it, and what earlier runs have left in it.

`<home>/demo/lock` is held by every demo that runs. One that finds itself alone forgets the earlier runs: their topics
and views go, so that the broker does not fill up; their answers and reports stay.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...events.log.kafka import KafkaLog
from ...processors.app import load_app
from ...projections.database import drop
from ..exits import Exit, Stopped
from ..run_file import RunFile
from ..settings import Settings, load_settings
from ..stack import Stack, StackError
from .triage import APP
from .view import View

STARTED = "the stack was started by a demo"
"""In the lock file, while that is so."""

CLUSTER = "cluster"
"""A file in a run's folder: the cluster that has its topics."""


@contextmanager
def shared_stack(home: Path, environ: Mapping[str, str], view: View) -> Iterator[None]:
    """A running stack; the last of the demos that use it stops it again, if a demo has started it."""
    stack = Stack(home, environ=environ)
    lock = home / "demo" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as users:
        alone = _alone(users)
        if alone:
            users.truncate(0)
            if stack.endpoints() is None:
                users.write(STARTED)
                users.flush()
        else:
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            stack.up(view.line)
            if alone:
                _forget(lock.parent, load_settings(environ), view)
                fcntl.flock(users, fcntl.LOCK_SH)
            yield
        except StackError as error:
            raise Stopped(Exit.UNAVAILABLE, str(error)) from error
        finally:
            users.seek(0)
            if users.read() == STARTED:
                _stop(stack, users, view)


def remember(settings: Settings) -> None:
    """Notes which cluster will have the topics of this run."""
    (settings.home / CLUSTER).write_text(settings.cluster_id or "", encoding="utf-8")


def remove(settings: Settings) -> None:
    """Removes topics, views and caches of a run; a repeat changes nothing."""
    with KafkaLog(settings.kafka_servers, client_id=f"{settings.namespace}.demo") as log:
        specs = settings.topics.specs(load_app(APP).queues, settings.partitions)
        log.delete_topics([spec.name for spec in specs])
    drop(settings.postgres_url, settings.namespace)
    shutil.rmtree(settings.home / "processors", ignore_errors=True)
    (settings.home / CLUSTER).unlink(missing_ok=True)


def _forget(folder: Path, settings: Settings, view: View) -> None:
    for mark in sorted(folder.glob(f"demo-*/{CLUSTER}")):
        if mark.read_text(encoding="utf-8") == (settings.cluster_id or ""):
            view.line(f"removing topics and views of the earlier run {mark.parent.name}")
            run = {"namespace": mark.parent.name, "home": mark.parent}
            remove(settings.model_copy(update=run))


def _stop(stack: Stack, users: IO[str], view: View) -> None:
    other = RunFile(stack.home).load()
    if not _alone(users):
        view.line("the stack stays up: another demo uses it, and will stop it")
    elif other is not None and other.alive:
        view.line("the stack stays up: 'wakeful run' uses it; 'wakeful down' stops it")
    else:
        view.line("stopping the stack, which was not running before; its data stays")
        stack.down()


def _alone(users: IO[str]) -> bool:
    """Whether no other demo uses this home; holds them off until the lock is given back."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
