"""Faults planted in versions and repairs: turns elsewhere than pinned, resets to what was never left, what was kept and forgotten."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r

from .tampering import on

WAITS = r.SessionWaiting(2, (), ())


@pytest.fixture
def told(begin):
    """Two turns, a pin, a reset out of the second turn, and the third turn, which answers its message again."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say = chronicle.scribe.payload
        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        first = chronicle.ask(m.SendMessage(say("go")), command_id="m1")
        chronicle.fact(
            first,
            r.MessageReceived("m1", say("go")),
            r.TurnStarted(1, "message", "", "m1", "desk", 2, ()),
            r.TurnCompleted(1, 0, say({"n": 1}), (), ()),
        )
        pin = chronicle.ask(m.PinSession(1, ""), command_id="p1")
        chronicle.fact(pin, r.SessionPinned(1, ""))
        second = chronicle.ask(m.SendMessage(say("on")), command_id="m2")
        chronicle.fact(
            second,
            r.MessageReceived("m2", say("on")),
            r.TurnStarted(2, "message", "", "m2", "desk", 1, ()),
            r.TimerSet("2.1", 2, 1, chronicle.scribe.now_ms + 1_000_000),
            WAITS,
        )
        state = say({"n": 1})
        reset = chronicle.ask(m.ResetSession(1, state, True, ""), command_id="r1")
        chronicle.fact(
            reset,
            r.TimerCancelled("2.1", "the turn ended"),
            r.SessionReset(2, 1, state, 2, "m2", (), (), ""),
            r.TurnStarted(3, "message", "", "m2", "desk", 1, ()),
            r.TurnCompleted(3, 0, say({"n": 2}), (), ()),
        )
        return chronicle

    return tell


def test_a_session_that_is_pinned_and_reset_as_it_must_be_keeps_every_promise(told, found):
    assert found(told().evidence()) == set()


def third(body: r.TurnStarted, **changes: object) -> list[r.EventBody]:
    return [replace(body, **changes)] if body.turn == 3 else [body]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (r.TurnStarted, lambda body: third(body, workflow_version=2)),
        (r.TurnStarted, lambda body: third(body, turn=2)),
        (r.TurnStarted, lambda body: third(body, turn=5)),
        (r.TurnStarted, lambda body: third(body, rollout_offset=0)),
        (r.SessionReset, lambda body: [replace(body, to_turn=7)]),
        (r.SessionReset, lambda body: [replace(body, workflow_version=1)]),
        (r.SessionReset, lambda body: [replace(body, state=None)]),
        (r.SessionReset, lambda body: [replace(body, turn=3)]),
        (r.SessionReset, lambda body: [replace(body, message_id=None)]),
        (r.TimerCancelled, lambda _: []),
    ],
)
def test_each_fault_in_it_is_found(told, found, kind, change):
    assert found(told(on(kind, change)).evidence()) - {34, 12, 13} != set()


@pytest.mark.parametrize("release", [r.SessionReleased("fixed"), None])
def test_5_what_was_kept_and_forgotten_when_the_session_went_on_is_found(begin, found, release):
    chronicle = begin()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    first = chronicle.ask(m.SendMessage(say("go")), command_id="m1")
    chronicle.fact(
        first,
        r.MessageReceived("m1", say("go")),
        r.TurnStarted(1, "message", "", "m1", "desk", 2, ()),
        r.SessionHeld("x", "y"),
    )
    kept = chronicle.ask(m.SendMessage(say(1)), command_id="b")
    chronicle.fact(kept, r.CommandParked("SendMessage", b"\0" * 8, b"x"))
    mends = chronicle.ask(m.ReleaseSession("fixed"), command_id="r1")
    reset = r.SessionReset(1, 0, None, 0, None, (), (), "")
    chronicle.fact(mends, release or reset)
    assert 5 in found(chronicle.evidence(quiescent=False))
