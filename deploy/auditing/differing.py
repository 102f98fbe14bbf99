"""Drives recorded sessions again on the code that is given, and tells which of their decisions would be others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...commands.check import Facts
from ...events import records as r
from ...events.blobs import payloads_in
from ...events.errors import Unfoldable
from ...events.evolve import evolve
from ...events.payloads import keyed_digest
from ...events.sharing import PARTS
from ...events.state import State
from ...processors.app import App
from ...processors.time_limit import BorrowedTimeLimit
from ...processors.workflow.choosing import Position
from ...processors.workflow.definitions import Workflow
from ...processors.workflow.errors import WorkflowStuck
from ...processors.workflow.facts import STARTS
from ...processors.workflow.redrive import redrive
from ...processors.workflow.replay import Divergence
from ..exits import Exit, Stopped

LIMIT_S = 20.0
"""How long one stretch may take: it is replayed as a whole."""

Choose = Callable[[State], Workflow[Any] | None]

ENDS = (
    r.TurnCompleted
    | r.TurnContinued
    | r.SessionCompleted
    | r.SessionFailed
    | r.SessionCancelled
    | r.SessionReset
)


@dataclass(frozen=True, slots=True)
class Changed:
    """A decision that would be another one: what the history holds, and what the code that was given asks for."""

    tenant: str
    session_id: str
    turn: int
    seq: int
    """The event that began the stretch which differs."""
    step: int
    expected: str
    actual: str


def of_version(app: App) -> Choose:
    """The version that the turn ran on, where it is loaded."""
    return lambda state: app.version(state.workflow, state.workflow_version)


def of_newest(app: App) -> Choose:
    """The newest version, as if the turn began today."""
    return lambda state: app.newest(state.workflow)


@dataclass(slots=True)
class Driver:
    """Drives sessions; counts what it has driven."""

    choose: Choose
    facts: Facts
    sessions: int = 0
    turns: int = 0

    def changed(self, events: Iterable[r.Event]) -> Iterator[Changed]:
        """The decisions of one session that would be others, the first of each stretch. `events` has all, in order."""
        self.sessions += 1
        state: State | None = None
        begun: State | None = None
        journal: list[r.Event] = []
        for event in events:
            if self.sessions == 1 and event.envelope.seq <= KEYED_IN:
                check_key(event, self.facts.digest_key)
            try:
                state = evolve(state, event)
            except Unfoldable as error:
                yield self._about(event, state, 0, "an event that can follow", str(error))
                return
            if journal:
                journal.append(event)
            if journal and isinstance(event.body, ENDS):
                yield from self._driven(begun, journal)
                journal = []
            if isinstance(event.body, STARTS):
                begun, journal = state, [event]
                self.turns += isinstance(event.body, r.TurnStarted)
        if journal:
            yield from self._driven(begun, journal)

    def _driven(self, begun: State | None, journal: list[r.Event]) -> Iterator[Changed]:
        if begun is None:
            return
        workflow = self.choose(begun)
        first = journal[0]
        if workflow is None:
            wanted = f"workflow {begun.workflow} version {begun.workflow_version}"
            yield self._about(first, begun, 0, wanted, "it is not among the code that was given")
            return
        envelope = first.envelope
        position = Position(envelope.tenant, envelope.session_id, begun, journal)
        found: Divergence | None
        try:
            with BorrowedTimeLimit(LIMIT_S):
                found = redrive(workflow, position, self.facts)
        except WorkflowStuck as error:
            found = Divergence(0, "an end of what it computes", str(error))
        if found is not None:
            yield self._about(first, begun, found.step, found.expected, found.actual)

    def _about(
        self, event: r.Event, state: State | None, step: int, expected: str, actual: str
    ) -> Changed:
        envelope, turn = event.envelope, 0 if state is None else state.turn
        return Changed(
            envelope.tenant, envelope.session_id, turn, envelope.seq, step, expected, actual
        )


KEYED_IN = 10
"""The first events of a session, in one of which there is a payload."""


def check_key(event: r.Event, digest_key: bytes) -> None:
    """`Stopped` where digests were made under another key: every decision with data would seem to be another one."""
    for payload in payloads_in(event.body):
        if payload.inline is None or payload.encoding == PARTS:
            continue
        if keyed_digest(payload.inline, digest_key) != payload.digest:
            raise Stopped(
                Exit.USAGE,
                "the digests of this history were made under another key: set WAKEFUL_DIGEST_KEY to the one "
                "of the namespace that it comes from",
            )
