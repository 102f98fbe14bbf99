"""Faults planted in recovery: nobody asked, another attempt is given up, a session that runs, and no end of it."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r
from wakeful.events.failures import STALLED, TIMED_OUT

from .tampering import on

GIVEN_UP = r.Failure(TIMED_OUT, STALLED, "sue gave it up", "")


@pytest.fixture
def told(begin):
    """A write that stalled, and a session that was driven again."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say = chronicle.scribe.payload
        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        cause = chronicle.ask(m.SendMessage(say("go")), command_id="m1")
        chronicle.fact(
            cause,
            r.MessageReceived("m1", say("go")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            chronicle.activity("1.1", contract="write_once"),
        )
        cause = chronicle.ask(m.RecoverSession("1.1", 1, "silence"), command_id="r1")
        chronicle.fact(
            cause,
            r.RecoveryRequested("1.1", 1, "silence"),
            r.ActivityUncertain("1.1", 1, GIVEN_UP, ""),
            r.SessionWaiting(1, (), ()),
        )
        cause = chronicle.ask(m.ResolveActivity("1.1", "completed", say(7), "seen"), actor="sue")
        chronicle.fact(cause, r.ActivityResolved("1.1", 1, "completed", say(7), "seen"))
        cause = chronicle.ask(m.RecoverSession("", 0, "it stands"), command_id="r2")
        chronicle.fact(
            cause, r.RecoveryRequested("", 0, "it stands"), r.TurnCompleted(1, 1, say(0), (), ())
        )
        return chronicle

    return tell


def test_recoveries_as_they_must_be_keep_every_promise(told, found):
    assert found(told().evidence()) == set()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (r.RecoveryRequested, lambda body: [body] if not body.activity_id else []),
        (r.RecoveryRequested, lambda body: [replace(body, attempt=2) if body.attempt else body]),
        (
            r.RecoveryRequested,
            lambda body: [body if body.attempt else replace(body, activity_id="1.1", attempt=1)],
        ),
        (r.ActivityUncertain, lambda body: [r.RecoveryRequested("", 0, "it runs"), body]),
        (r.RecoveryRequested, lambda body: [body] if body.attempt else [body] * 3),
    ],
    ids=["nobody-asked", "another-attempt", "nothing-follows", "had-not-stalled", "no-end"],
)
def test_a_recovery_that_is_otherwise_is_found(told, found, kind, change):
    assert "recovery" in found(told(on(kind, change)).evidence())
