"""Faults planted in children: opened twice, two ends, ends of nothing, too early, and what outlives whoever waits."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r

from .tampering import on


@pytest.fixture
def told(begin):
    """A child that completes, one that expires and comes late, one that is withdrawn with the turn."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say = chronicle.scribe.payload
        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        cause = chronicle.ask(m.SendMessage(say("go")), command_id="m1")
        soon, later = chronicle.scribe.now_ms + 1, chronicle.scribe.now_ms + 1_000_000
        due = {1: later, 2: soon, 3: later}
        opened = [
            r.ChildStarted(f"kid{n}", 1, n, "researcher", say("go"), due[n]) for n in (1, 2, 3)
        ]
        chronicle.fact(
            cause,
            r.MessageReceived("m1", say("go")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            *opened,
            r.SessionWaiting(1, (), ()),
        )
        parked = r.SessionWaiting(1, (), ())
        end = m.EndChild("kid1", "completed", say(7), None)
        cause = chronicle.ask(end, command_id="end:kid1")
        chronicle.fact(cause, r.ChildCompleted("kid1", say(7)), parked)
        cause = chronicle.ask(m.FireTimer("kid2", soon))
        chronicle.fact(
            cause,
            r.ChildExpired("kid2"),
            r.ChildWithdrawn("kid3", "the turn ended"),
            r.TurnCompleted(1, 3, say(0), (), ()),
        )
        end = m.EndChild("kid2", "cancelled", None, None)
        cause = chronicle.ask(end, command_id="end:kid2")
        chronicle.fact(cause, r.LateChildRecorded("kid2", "cancelled", None, None))
        return chronicle

    return tell


def test_children_that_end_as_they_must_keep_every_promise(told, found):
    assert found(told().evidence()) == set()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (r.ChildCompleted, lambda body: [body, body]),
        (r.ChildCompleted, lambda body: [replace(body, child_id="nobody")]),
        (
            r.ChildStarted,
            lambda body: [replace(body, expires_at_ms=1 << 42)] if body.step == 2 else [body],
        ),
        (r.ChildWithdrawn, lambda _body: []),
        (r.ChildStarted, lambda body: [body, body] if body.step == 1 else [body]),
        (r.ChildExpired, lambda _body: []),
    ],
    ids=[
        "told-twice",
        "of-nobody",
        "expired-too-early",
        "outlives-its-turn",
        "opened-twice",
        "late-though-awaited",
    ],
)
def test_a_child_that_goes_otherwise_is_found(told, found, kind, change):
    assert "children" in found(told(on(kind, change)).evidence())
