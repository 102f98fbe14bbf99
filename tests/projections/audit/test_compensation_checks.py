"""Faults planted in what is taken back: each is found, in words, and a sound history has none."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from wakeful.events import records as r
from wakeful.events.log.protocol import Record
from wakeful.events.payloads import json_payload
from wakeful.projections.audit.compensations import compensations
from wakeful.projections.audit.history import Fact

NOW_MS = 1_000_000
PAYLOAD = json_payload(1, b"k" * 16)
UNDO = r.Compensation("unbook", "q", "write_idempotent", PAYLOAD, b"u", 1_000, 9_000)


def asked(activity_id: str, contract: str = "write_once", **changes) -> r.ActivityRequested:
    step = int(activity_id.partition(".")[2])
    request = r.ActivityRequested(
        *(activity_id, 1, step, "book", "q", contract, PAYLOAD, b"b", f"acme/s1/1/{step}", 1),
        *(1_000, NOW_MS + 60_000, "none", None),
    )
    return replace(request, **{"compensation": UNDO, **changes})


def undo(activity_id: str, of: str, **changes) -> r.ActivityRequested:
    named = {"name": "unbook", "digest": b"u", "compensates": of, "compensation": None}
    return asked(activity_id, **{**named, **changes})


def done(activity_id: str) -> r.ActivityCompleted:
    return r.ActivityCompleted(activity_id, 1, PAYLOAD, "w1")


def failed(activity_id: str) -> r.ActivityFailed:
    return r.ActivityFailed(activity_id, 1, r.Failure("nothing_done", "", "no", ""), "w1")


CANCEL = r.CancellationRequested("enough")
STARTED = r.CompensationStarted(1, "cancelled", None, ("1.1",), (), (), ())
BOOKED = (asked("1.1"), done("1.1"))
BOTH = (*BOOKED, asked("1.2"), done("1.2"))


def ended(*compensated: str, standing: tuple[str, ...] = ()) -> r.SessionCancelled:
    return r.SessionCancelled((), (), (), compensated, standing)


def told(*bodies: r.EventBody) -> list[str]:
    """What the check says of a session with this history."""
    facts = []
    for seq, body in enumerate(bodies, start=1):
        cause = r.Cause("t.commands.v1", 0, seq, "c", None, None)
        envelope = r.Envelope("acme", "s1", seq, NOW_MS, "ann", None, "x", cause, None, None, b"")
        record = Record("t.events.v1", 0, seq, NOW_MS, None, b"", ())
        facts.append(Fact(record, r.Event(envelope, body), None))
    history = SimpleNamespace(sessions={("acme", "s1"): facts})
    return [str(violation) for violation in compensations(history)]


@pytest.mark.parametrize(
    "bodies",
    [
        (*BOOKED, CANCEL, STARTED, undo("1.2", "1.1"), done("1.2"), ended("1.1")),
        (*BOOKED, CANCEL, STARTED, undo("1.2", "1.1"), failed("1.2"), ended(standing=("1.1",))),
        (*BOOKED, r.CompensationsReleased(1, 2), CANCEL, ended()),
        (asked("1.1"), failed("1.1"), CANCEL, ended()),
        (asked("1.1"), r.ActivityCancelled("1.1", 1, ""), CANCEL, ended()),
        (
            *(*BOTH, STARTED, undo("1.3", "1.2"), done("1.3"), undo("1.4", "1.1"), done("1.4")),
            ended("1.2", "1.1"),
        ),
    ],
)
def test_a_sound_history_has_nothing_to_tell(bodies):
    assert told(*bodies) == []


@pytest.mark.parametrize(
    ("bodies", "wrong"),
    [
        ((*BOOKED, CANCEL, asked("1.2")), "1.2 is requested after the session was stopped"),
        (
            (*BOOKED, r.CompensationsReleased(1, 2), CANCEL, STARTED, undo("1.3", "1.1")),
            "1.3 takes back 1.1, which is to stand",
        ),
        ((*BOOKED, undo("1.2", "1.1")), "1.2 takes back 1.1, which is to stand"),
        (
            (*BOOKED, STARTED, undo("1.2", "1.1", digest=b"x")),
            "1.2 is not what takes back 1.1",
        ),
        (
            (asked("1.1"), failed("1.1"), STARTED, undo("1.2", "1.1")),
            "1.2 takes back 1.1, which never happened",
        ),
        (
            (*BOOKED, STARTED, undo("1.2", "1.1"), done("1.2"), undo("1.3", "1.1")),
            "1.3 takes back 1.1 a second time",
        ),
        (
            (*BOTH, STARTED, undo("1.3", "1.2"), undo("1.4", "1.1")),
            "1.4 begins while 1.3 is under way",
        ),
        (
            (asked("1.1"), r.ActivityCancelled("1.1", 1, ""), STARTED, undo("1.2", "1.1")),
            "1.2 begins while 1.1 may still run",
        ),
        ((*BOTH, STARTED, undo("1.3", "1.1")), "1.3 takes back 1.1 before 1.2"),
        (
            (*BOOKED, STARTED, undo("1.2", "1.1"), done("1.2"), ended()),
            "it is told that () were taken back, and ['1.1'] were",
        ),
        ((*BOOKED, CANCEL, ended()), "1.1 happened, and was not taken back"),
        (
            (
                asked("1.1"),
                r.ActivityCancelled("1.1", 1, ""),
                CANCEL,
                r.LateResultRecorded("1.1", 1, "completed", PAYLOAD, None, "w1"),
                ended(),
            ),
            "1.1 happened, and was not taken back",
        ),
    ],
)
def test_17_what_is_taken_back_wrongly_is_found(bodies, wrong):
    assert any(wrong in sentence for sentence in told(*bodies)), told(*bodies)
