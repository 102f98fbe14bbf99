"""Faults planted in external jobs: two ends, ends of nothing, too early, and what outlives its turn."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r

from .tampering import on


@pytest.fixture
def told(begin):
    """A job that is completed, one that fails, one that expires, and one that is withdrawn."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say = chronicle.scribe.payload
        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        cause = chronicle.ask(m.SendMessage(say("go")), command_id="m1")
        soon, later = chronicle.scribe.now_ms + 1, chronicle.scribe.now_ms + 1_000_000
        due = {1: later, 2: later, 3: soon, 4: later}
        waits = [r.JobAwaited(f"s1:1.{n}-0", 1, n, "dig", due[n]) for n in (1, 2, 3, 4)]
        chronicle.fact(
            cause,
            r.MessageReceived("m1", say("go")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            *waits,
            r.SessionWaiting(1, (), ()),
        )
        done = m.CompleteJob("s1:1.1-0", say(7), None)
        parked = r.SessionWaiting(1, (), ())
        cause = chronicle.ask(done, command_id="j1")
        chronicle.fact(cause, r.JobCompleted("s1:1.1-0", say(7)), parked)
        failure = r.Failure("job_failed", "", "no disk", "")
        failed = m.CompleteJob("s1:1.2-0", None, failure)
        cause = chronicle.ask(failed, command_id="j2")
        chronicle.fact(cause, r.JobFailed("s1:1.2-0", failure), parked)
        cause = chronicle.ask(m.FireTimer("s1:1.3-0", soon))
        chronicle.fact(
            cause,
            r.JobExpired("s1:1.3-0"),
            r.JobWithdrawn("s1:1.4-0", "the turn ended"),
            r.TurnCompleted(1, 4, say(0), (), ()),
        )
        return chronicle

    return tell


def test_jobs_that_end_as_they_must_keep_every_promise(told, found):
    assert found(told().evidence()) == set()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (r.JobCompleted, lambda body: [body, body]),
        (r.JobFailed, lambda body: [body, r.JobExpired(body.job_id)]),
        (r.JobCompleted, lambda body: [replace(body, job_id="s1:9.9-0")]),
        (
            r.JobAwaited,
            lambda body: [replace(body, expires_at_ms=1 << 42)] if body.step == 3 else [body],
        ),
        (r.JobWithdrawn, lambda _body: []),
        (r.JobAwaited, lambda body: [body, body] if body.step == 1 else [body]),
    ],
    ids=["twice", "two-ends", "of-nothing", "too-early", "outlives-its-turn", "awaited-twice"],
)
def test_a_job_that_ends_otherwise_is_found(told, found, kind, change):
    assert "jobs" in found(told(on(kind, change)).evidence())
