"""Signals, the inbox and stretches in the audit: taken once, the oldest first, and nothing left open."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r

from .tampering import on


@pytest.fixture
def told(begin):
    """Two signals of one name and one of another, two messages and a trigger, two stretches and two turns."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say = chronicle.scribe.payload

        def signal(id_, name):
            cause = chronicle.ask(m.SendSignal(name, say(id_)), command_id=id_)
            return cause, r.SignalReceived(id_, name, say(id_))

        def message(id_, *bodies):
            cause = chronicle.ask(m.SendMessage(say(id_)), command_id=id_)
            chronicle.fact(cause, r.MessageReceived(id_, say(id_)), *bodies)
            return cause

        chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        for id_, name in (("x1", "paid"), ("x2", "sent"), ("x3", "paid")):
            chronicle.fact(*signal(id_, name))
        cause = message("m1", r.TurnStarted(1, "message", "", "m1", "desk", 1, ()))
        chronicle.fact(
            cause,
            r.SignalAwaited("1.1", 1, 1, "paid"),
            r.SignalDelivered("1.1", "x1", say("x1")),
            r.InboxAwaited("1.2", 1, 2, True),
            r.SessionWaiting(1, (), ()),
        )
        cause = chronicle.ask(m.StartTurn("schedule", "monday", say(0)), command_id="t1")
        chronicle.fact(cause, r.TriggerReceived("t1", "schedule", "monday", say(0)))
        taken = (r.TakenMessage("m2", "ann", say("m2")),)
        cause = message("m2", r.InboxTaken("1.2", taken))
        chronicle.fact(
            cause,
            r.VersionMarked(1, 3, "new-prompt"),
            r.TurnContinued(1, 1, 3, say(0)),
            r.SignalAwaited("1.4", 1, 4, "never"),
            r.WaitWithdrawn("1.4", "let go"),
            r.ArtifactRecorded(1, 5, "prices", "7"),
            r.TurnContinued(1, 2, 5, say(0)),
            r.TurnCompleted(1, 5, say(0), (), ()),
            r.TurnStarted(2, "schedule", "monday", "t1", "desk", 1, ()),
            r.SignalAwaited("2.1", 2, 1, "paid"),
            r.SignalDelivered("2.1", "x3", say("x3")),
            r.TurnCompleted(2, 1, say(0), (), ()),
        )
        return chronicle

    return tell


def test_a_clean_history_of_signals_and_stretches_breaks_nothing(told, found):
    assert found(told().evidence()) == set()


def delivered(change):
    return on(r.SignalDelivered, change)


ONE = r.Payload("json", b"1", None, b"\7" * 32, 1, None)


@pytest.mark.parametrize(
    "tamper",
    [
        delivered(lambda body: [body, body]),
        delivered(lambda body: [replace(body, signal_id="x9")]),
        delivered(lambda body: [replace(body, signal_id="x2")]),
        delivered(lambda body: [replace(body, signal_id="x3") if body.wait_id == "1.1" else body]),
        delivered(lambda body: [replace(body, data=ONE)]),
        delivered(lambda body: [replace(body, wait_id="9.9")]),
        on(r.SignalAwaited, lambda _: []),
        on(r.SignalReceived, lambda body: [body, body]),
    ],
    ids=["twice", "unknown", "other-name", "younger", "data", "no-wait", "unasked", "came-twice"],
)
def test_receiving_a_signal_that_does_not_reach_its_wait_as_it_came_is_found(told, found, tamper):
    assert "receiving" in found(told(tamper).evidence())


def test_receiving_a_signal_that_is_lost_is_found(told, found, monkeypatch):
    from wakeful.projections.audit import folds

    evolve = folds.evolve

    def forgetful(state, event):
        after = evolve(state, event)
        return replace(after, signals=()) if isinstance(event.body, r.TurnCompleted) else after

    monkeypatch.setattr(folds, "evolve", forgetful)
    assert "receiving" in found(
        told(delivered(lambda b: [b] if b.wait_id == "1.1" else [])).evidence()
    )


@pytest.mark.parametrize(
    "tamper",
    [
        on(r.InboxTaken, lambda body: [body, body]),
        on(r.InboxTaken, lambda body: [replace(body, wait_id="1.1")]),
        on(r.InboxTaken, lambda body: [replace(body, messages=(*body.messages, *body.messages))]),
        on(
            r.InboxTaken,
            lambda body: [replace(body, messages=(r.TakenMessage("t1", "ann", ONE),))],
        ),
        on(
            r.InboxTaken,
            lambda body: [replace(body, messages=(replace(body.messages[0], actor="eve"),))],
        ),
        on(r.TurnStarted, lambda body: [replace(body, message_id="m2")]),
        on(r.TurnStarted, lambda body: [replace(body, trigger="schedule")]),
        on(r.TurnStarted, lambda body: [replace(body, reason="tuesday")]),
        on(r.MessageReceived, lambda body: [body, body]),
    ],
    ids=[
        "twice",
        "no-wait",
        "same",
        "trigger",
        "actor",
        "not-first",
        "kind",
        "reason",
        "came-twice",
    ],
)
def test_receiving_a_message_that_is_not_taken_once_in_order_and_as_it_came_is_found(
    told, found, tamper
):
    assert "receiving" in found(told(tamper).evidence())


def test_receiving_a_wait_that_is_withdrawn_and_was_not_open_is_found(told, found):
    assert "receiving" in found(told(on(r.WaitWithdrawn, lambda body: [body, body])).evidence())


@pytest.mark.parametrize(
    "tamper",
    [
        on(r.TurnContinued, lambda body: [replace(body, stretch=body.stretch + 1)]),
        on(r.TurnContinued, lambda body: [replace(body, turn=2)]),
        on(r.TurnContinued, lambda body: [replace(body, steps=body.steps - 1)]),
        on(r.WaitWithdrawn, lambda _: []),
        on(r.VersionMarked, lambda body: [replace(body, step=2)]),
        on(r.ArtifactRecorded, lambda body: [replace(body, step=1)]),
    ],
    ids=["stretch", "turn", "steps", "open-wait", "same-step", "step-falls"],
)
def test_39_steps_that_fall_and_waits_across_a_stretch_are_found(told, found, tamper):
    assert 39 in found(told(tamper).evidence())


@pytest.mark.parametrize(("name", "broken"), [("paid", {38}), ("sent", set())])
def test_38_a_wait_for_a_signal_that_is_there_is_found(begin, found, name, broken):
    chronicle = begin()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    cause = chronicle.ask(m.SendSignal("paid", say(1)), command_id="x1")
    chronicle.fact(cause, r.SignalReceived("x1", "paid", say(1)))
    chronicle.fact(
        chronicle.ask(m.SendMessage(say(1)), command_id="m1"),
        r.MessageReceived("m1", say(1)),
        r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
        r.SignalAwaited("1.1", 1, 1, name),
        r.SessionWaiting(1, (), ()),
    )
    assert found(chronicle.evidence()) == broken
    assert found(chronicle.evidence(quiescent=False)) == set()


def test_38_an_inbox_that_waits_for_a_message_that_is_there_is_found(begin, found):
    chronicle = begin()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    chronicle.fact(
        chronicle.ask(m.SendMessage(say(1)), command_id="m1"),
        r.MessageReceived("m1", say(1)),
        r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
        r.InboxAwaited("1.1", 1, 1, True),
        r.SessionWaiting(1, (), ()),
    )
    assert found(chronicle.evidence()) == set()
    cause = chronicle.ask(m.StartTurn("schedule", "", say(1)), command_id="t1")
    chronicle.fact(cause, r.TriggerReceived("t1", "schedule", "", say(1)))
    assert found(chronicle.evidence()) == set()  # a trigger is for a turn of its own
    chronicle.fact(
        chronicle.ask(m.SendMessage(say(2)), command_id="m2"), r.MessageReceived("m2", say(2))
    )
    assert found(chronicle.evidence()) == {38}
