"""Faults planted in attributes: a change that is told wrongly, and a session that is found by what it has not."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r
from wakeful.events.attributes import attributes_of
from wakeful.projections import attributes as projecting

from .tampering import on


@pytest.fixture
def told(begin):
    """A session that is opened with one attribute, and given and denied another."""

    def tell(tamper=lambda body: [body]):
        chronicle = begin(tamper)
        say = chronicle.scribe.payload
        ivo, both = attributes_of({"customer": "ivo"}), attributes_of({"customer": "ivo", "no": 7})
        opened = r.SessionOpened("desk", ivo)
        chronicle.fact(chronicle.ask(m.OpenSession("desk", ivo)), opened)
        cause = chronicle.ask(m.SendMessage(say("go")), command_id="m1")
        chronicle.fact(
            cause,
            r.MessageReceived("m1", say("go")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            r.AttributesSet(1, 1, both, ("no",)),
            r.AttributesSet(1, 2, ivo, ("no",)),
            r.TurnCompleted(1, 2, say(0), (), ()),
        )
        return chronicle

    return tell


def test_attributes_that_are_told_as_they_change_keep_every_promise(told, found):
    assert found(told().evidence()) == set()


@pytest.mark.parametrize(
    "change",
    [
        lambda body: [replace(body, changed=())],
        lambda body: [replace(body, changed=("customer",))],
        lambda body: [replace(body, attributes=attributes_of({"no": 7}))],
    ],
    ids=["nothing", "another", "one-more"],
)
def test_attributes_that_change_otherwise_than_is_told_are_found(told, found, change):
    assert "attributes" in found(told(on(r.AttributesSet, change)).evidence())


def test_attributes_that_are_gone_and_still_found_are_found(told, found, monkeypatch):
    terms = projecting.terms
    monkeypatch.setattr(
        projecting, "terms", lambda *of: (one for one in terms(*of) if one[1] is not None)
    )
    assert "attributes" in found(told().evidence())
