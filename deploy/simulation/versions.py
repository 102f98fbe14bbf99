"""What must hold of versions: turns begin where the pin and the rollout say, by a count of our own, and every rollout arrives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from ...events import records as r
from ...events.log.protocol import Record
from ...events.records import Event
from ...processors.schedules.spec import WORKFLOW
from ...processors.simulation.operators import rolled_out
from ...processors.simulation.world import World
from .deciding import Load

HIGHEST = {True: 2, False: 1}
"""The highest version that is loaded, by whether the seed has several."""


def versions(
    world: World, control: Sequence[Record], events: Sequence[Event], load: Load, *, rested: bool
) -> Iterator[str]:
    """All of it."""
    yield from _turns_begin_where_told(control, events, HIGHEST[world.plan.versions])
    yield from _states_follow(events, load)
    if rested:
        yield from _rollouts_arrive(world)


def _turns_begin_where_told(
    control: Sequence[Record], events: Sequence[Event], highest: int
) -> Iterator[str]:
    """On the pinned version, else on that of the rollout in force at the turn's control offset, else on the highest."""
    pinned: dict[tuple[str, str], int | None] = {}
    for event in events:
        envelope, body = event.envelope, event.body
        session = (envelope.tenant, envelope.session_id)
        if isinstance(body, r.SessionPinned):
            pinned[session] = body.version
        if not isinstance(body, r.TurnStarted) or body.workflow == WORKFLOW:
            continue
        found = rolled_out(control, envelope.control_offset)
        version, offset = highest, None
        if (own := pinned.get(session)) is not None:
            version = own
        elif found is not None:
            said, offset = found
            version = _given(said, session, highest)
        if (body.workflow_version, body.rollout_offset) != (version, offset):
            yield (
                f"{envelope.session_id} turn {body.turn} begins on version {body.workflow_version} by the rollout at "
                f"{body.rollout_offset}, expected {version} by {offset} at control offset {envelope.control_offset}"
            )


def _states_follow(events: Sequence[Event], load: Load) -> Iterator[str]:
    """Each turn goes on from the state of the one before, or from the one that it was taken back to: it counts on from there."""
    turns: dict[tuple[str, str], int] = {}
    for event in events:
        envelope, body = event.envelope, event.body
        session = (envelope.tenant, envelope.session_id)
        if isinstance(body, r.SessionReset):
            turns[session] = 0 if body.state is None else load(body.state)["turns"]
        elif isinstance(body, r.TurnCompleted):
            before, after = turns.get(session, 0), load(body.state)["turns"]
            if after != before + 1:
                yield f"{envelope.session_id} turn {body.turn} left count {after}, after {before}"
            turns[session] = after


def _rollouts_arrive(world: World) -> Iterator[str]:
    """At rest, every processor has told of the newest rollout."""
    for name in world.operator.behind():
        yield f"{name} has never told of the newest rollout"


def _given(said: r.RolloutSet, session: tuple[str, str], highest: int) -> int:
    told = "\0".join(("wakeful/rollout/1", said.workflow, *session))
    number = int(sha256(told.encode()).hexdigest()[:16], 16) % 100
    if said.version is None:
        return highest
    if said.rest is None or number < said.percent:
        return said.version
    return said.rest
