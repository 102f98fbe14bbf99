"""One process per stable name: what a process says whose name another one has taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..events.log.protocol import NameTaken
from .exits import Exit, Stopped
from .settings import Settings


@contextmanager
def own_name(settings: Settings, name: str) -> Iterator[None]:
    """Its offsets, its transactions and its place in the group are under this name, so that two would stop each other."""
    try:
        yield
    except NameTaken as taken:
        raise Stopped(
            Exit.BUSY,
            f"another process has taken over as {name} on {settings.kafka_servers}: a second 'wakeful run' or "
            f"'wakeful processor' of namespace {settings.namespace}, under another WAKEFUL_HOME or on another machine; "
            "end one of them, give this one a WAKEFUL_NAMESPACE of its own, or, to share the work, run "
            "'wakeful processor' with another --ordinal",
        ) from taken
