"""What may go wrong at each call into the memory log; a seeded simulator answers, plain tests get `NoFaults`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol, TypeVar

from .protocol import LogFault, NotYet

Answer = TypeVar("Answer")


class Hung(BaseException):
    """A call that never returns. In production the watchdog ends the process here, so no `except Exception` sees it."""


class Fate(Enum):
    """How one call ends."""

    OK = auto()
    FAILED = auto()  # nothing was done, and the caller gets a fault
    LOST_ANSWER = auto()  # it was done, and the caller gets the same fault
    DELAYED = (
        auto()
    )  # a commit: its request arrives later, or never. A plain record: it waits for poll or flush
    NOT_YET = auto()  # `start` and `committed` only
    HUNG = auto()  # nothing was done, and the call does not return
    HUNG_DONE = auto()  # it was done, and the call does not return


class Markers(Enum):
    """When a decided transaction becomes visible."""

    AT_ONCE = auto()
    LATER = auto()  # partition by partition, as `MemoryLog.write_marker` is called


class Faults(Protocol):
    """Asked at each call; everything that is not `OK` is this policy's doing."""

    def on_start(self, transactional_id: str) -> Fate:
        """A producer registers."""

    def on_send_offsets(self, transactional_id: str) -> Fate:
        """Offsets enter a transaction."""

    def on_produce(self, transactional_id: str) -> Fate:
        """A record enters a transaction; a lost one fails the commit, as the client's delivery report would."""

    def on_commit(self, transactional_id: str) -> Fate:
        """A transaction is to be committed."""

    def on_abandon(self, transactional_id: str) -> Fate:
        """A producer is dropped: `OK` aborts what is open, anything else leaves it open."""

    def on_deliver(self, topic: str) -> Fate:
        """A plain producer's record."""

    def on_committed(self, group: str) -> Fate:
        """A group's offsets are asked for."""

    def on_commit_offsets(self, group: str) -> Fate:
        """A worker commits outside a transaction."""

    def markers(self, transactional_id: str) -> Markers:
        """A transaction was decided."""


class NoFaults:
    """Nothing goes wrong; a policy of one fault overrides one method."""

    def on_start(self, transactional_id: str) -> Fate:  # noqa: ARG002 the protocol's argument
        """See `Faults`."""
        return Fate.OK

    def on_send_offsets(self, transactional_id: str) -> Fate:  # noqa: ARG002
        """See `Faults`."""
        return Fate.OK

    def on_produce(self, transactional_id: str) -> Fate:  # noqa: ARG002
        """See `Faults`."""
        return Fate.OK

    def on_commit(self, transactional_id: str) -> Fate:  # noqa: ARG002
        """See `Faults`."""
        return Fate.OK

    def on_abandon(self, transactional_id: str) -> Fate:  # noqa: ARG002
        """See `Faults`."""
        return Fate.OK

    def on_deliver(self, topic: str) -> Fate:  # noqa: ARG002
        """See `Faults`."""
        return Fate.OK

    def on_committed(self, group: str) -> Fate:  # noqa: ARG002
        """See `Faults`."""
        return Fate.OK

    def on_commit_offsets(self, group: str) -> Fate:  # noqa: ARG002
        """See `Faults`."""
        return Fate.OK

    def markers(self, transactional_id: str) -> Markers:  # noqa: ARG002
        """See `Faults`."""
        return Markers.AT_ONCE


def meet(fate: Fate, call: str, effect: Callable[[], Answer]) -> Answer:
    """Carries the call out as its fate says. An effect that refuses raises its own fault."""
    if fate is Fate.OK:
        return effect()
    if fate in {Fate.LOST_ANSWER, Fate.HUNG_DONE}:
        effect()
    if fate in {Fate.HUNG, Fate.HUNG_DONE}:
        raise Hung(f"{call} never returns")
    if fate is Fate.NOT_YET:
        raise NotYet(f"{call}: ask again")
    raise LogFault(f"{call}: no answer")
