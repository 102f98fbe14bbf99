"""Whatever a session waits for ends at its time though everybody was down by then: nobody has to send anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processors.desk import Desk
from tests.processors.loops import Cluster
from wakeful import Message, Turn, Write, activity, workflow
from wakeful.commands import next_valid
from wakeful.commands.models import CancelSession
from wakeful.events import records as r
from wakeful.events.evolve import evolve
from wakeful.events.state import State

HOUR_MS = 3_600_000


@activity(contract=Write(idempotent=True), schedule_to_close="1h")
async def start(*, key: str) -> str:
    """Sets a sandbox up."""
    return key


@activity(contract=Write(idempotent=True))
async def stop(*, key: str) -> str:
    """Takes it down."""
    return key


@workflow("holder", version=1)
async def holder(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Holds a sandbox for half an hour, whether a turn runs or not."""
    await turn.resource("sandbox", attach=start.call(), ttl="30m")
    return desk


@workflow("parent", version=1)
async def parent(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Waits for a child that waits for what never comes."""
    await turn.child("listener", within="1h")
    return desk


@workflow("listener", version=1)
async def listener(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Waits for a signal."""
    await turn.signal("never")
    return desk


@workflow("payer", version=1)
async def payer(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Does what is taken back when it is cancelled, once it is known to be over."""
    await turn.run(start.call(), compensate=stop.call())
    return desk


OWED = {
    "activity": ("stubborn", r.ActivityFailed),
    "approval": ("desk", r.ApprovalExpired),
    "timer": ("sleeper", r.TimerFired),
    "job": ("hires", r.JobExpired),
    "child": ("parent", r.ChildExpired),
    "resource": ("holder", r.ResourceExpired),
    "compensation": ("payer", r.ActivityRequested),
}
"""Kinds of obligations, a workflow that has one, and the fact that is its end."""


def test_given_all_kinds_of_obligations_with_an_expiry_then_each_has_its_case() -> None:
    told = Path(next_valid.__file__).read_text("utf-8")
    kinds = set(re.findall(r'Obligation\(\s*"?(\w+)', told))
    by_itself = {"UNCERTAIN", "w"}  # no time ends a doubt, or a wait for a signal or a message
    assert kinds - by_itself == {"RESOURCE" if k == "resource" else k for k in OWED}


def owed_by(cluster: Cluster) -> tuple[r.Obligation, ...]:
    """What the session owes, by its events alone."""
    state: State | None = None
    for event in cluster.events("s1"):
        state = evolve(state, event)
    assert state is not None
    return next_valid.obligations(state)


@pytest.mark.parametrize("kind", OWED)
@pytest.mark.parametrize("processors", [1, 2])
def test_given_a_wait_when_all_are_down_past_its_expiry_then_it_ends_after_the_restart_by_itself(
    kind: str, processors: int
) -> None:
    flow, end = OWED[kind]
    cluster = Cluster(partitions=2, more=(holder, parent, listener, payer, start, stop))
    for ordinal in range(processors):
        cluster.start(ordinal)
    cluster.open(workflow=flow)
    cluster.run(60)
    if kind in ("approval", "resource"):  # what is owed comes of a result
        assert cluster.answer() == 1
        cluster.run(60)
    if kind == "compensation":
        cluster.send(CancelSession("enough"))
        cluster.run(60)
    before = len(cluster.events("s1"))
    (owed,) = [one for one in owed_by(cluster) if one.kind == kind]
    assert owed.expires_at_ms is not None
    assert cluster.clock.ms < owed.expires_at_ms <= cluster.clock.ms + HOUR_MS
    assert owed.expiry
    for ordinal in range(processors):
        cluster.kill(ordinal)
    cluster.clock.ms += 2 * HOUR_MS
    for ordinal in range(processors):
        cluster.start(ordinal)
    cluster.run(200)
    events = cluster.events("s1")[before:]
    assert isinstance(events[0].body, end)
    assert events[0].envelope.actor == "engine"
    assert sum(isinstance(e.body, end) for e in events) == 1
    if kind == "activity":
        assert events[0].body.failure.kind == "timed_out"
    if kind == "compensation":
        assert (events[0].body.name, len(cluster.tasks())) == ("stop", 2)
