"""Faults planted in resources: two of a kind, ends of nothing, too early, attached by nothing, and held beyond the end."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r

from .tampering import on

DUE_MS = 1 << 42
TIMES = {"start_to_close_ms": 60_000, "deadline_ms": DUE_MS}


def asked(n, say):
    """A request of the activity that sets something up."""
    return r.ActivityRequested(
        *(f"1.{n}", 1, n, "start", "default", "read", say({}), b"d" * 32, f"acme/s1/1/{n}", 1),
        *TIMES.values(),
        "none",
        None,
    )


@pytest.fixture
def told(begin):
    """A sandbox that is lost and attached again, a browser that expires, and a door that is given back."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say = chronicle.scribe.payload
        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        cause = chronicle.ask(m.SendMessage(say("go")), command_id="m1")
        chronicle.fact(
            cause,
            r.MessageReceived("m1", say("go")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            *(asked(n, say) for n in (1, 2, 3, 4)),
        )
        soon = chronicle.scribe.now_ms + 1
        for n in (1, 2, 3, 4):
            done = m.CompleteActivity(f"1.{n}", 1, say(n), "worker:w1")
            cause = chronicle.ask(done, actor="worker:w1")
            chronicle.fact(cause, r.ActivityCompleted(f"1.{n}", 1, say(n), "worker:w1"))
        lost = r.Failure("resource_lost", "sandbox", "gone", "")
        cause = chronicle.ask(m.FireTimer("1.2", soon))
        chronicle.fact(
            cause,
            r.ResourceAttached("1.1", 1, 5, "sandbox", say(1), DUE_MS),
            r.ResourceAttached("1.2", 1, 6, "browser", say(2), soon),
            r.ResourceAttached("1.3", 1, 7, "door", say(3), DUE_MS),
            r.ResourceExpired("1.1", "sandbox", "lost", lost),
            r.ResourceReattached("1.4", 1, 8, "sandbox", say(4), DUE_MS),
            r.ResourceExpired("1.2", "browser", "expired"),
            r.ResourceReleased("1.3", 1, 9, "door"),
            r.ResourceExpired("1.4", "sandbox", "the session ended"),
            r.SessionCompleted(1, 9, say(0), say(0), verified_by=None, messages_unread=0),
        )
        return chronicle

    return tell


def test_resources_that_are_held_as_they_must_keep_this_promise(told, found):
    assert "resources" not in found(told().evidence())


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (r.ResourceExpired, lambda body: [] if body.reason == "lost" else [body]),
        (r.ResourceExpired, lambda body: [body, body]),
        (r.ResourceReleased, lambda body: [replace(body, resource_id="1.1")]),
        (
            r.ResourceAttached,
            lambda body: [replace(body, expires_at_ms=DUE_MS) if body.step == 6 else body],
        ),
        (r.ResourceExpired, lambda body: [] if "ended" in body.reason else [body]),
        (r.ResourceAttached, lambda body: [replace(body, resource_id=f"9.{body.step}")]),
        (r.ResourceAttached, lambda body: [] if body.kind == "sandbox" else [body]),
    ],
    ids=[
        "two-held",
        "twice",
        "another",
        "too-early",
        "beyond-the-end",
        "by-nothing",
        "never-before",
    ],
)
def test_a_resource_that_is_held_otherwise_is_found(told, found, kind, change):
    assert "resources" in found(told(on(kind, change)).evidence())
