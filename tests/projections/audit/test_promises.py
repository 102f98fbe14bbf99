"""Each of the 39 invariants is judged by what is there, or says why it is not."""

from pathlib import Path
from tempfile import mkdtemp

import pytest

from wakeful.commands import models as m
from wakeful.commands.wire import decode_command
from wakeful.events import records as r
from wakeful.events.payloads import load_json
from wakeful.projections.audit import CHECKS, asked_by
from wakeful.projections.audit.canaries import CANARY_MIN, Canaries
from wakeful.projections.audit.promises import PROMISES, judge
from wakeful.projections.audit.slices import Source, audit_slices

from .tampering import without

ALL = frozenset({"views", "whole", "quiescent"})
KINDS_OF_COUNTS = {
    "events",
    "commands",
    "activities",
    "outcomes",
    "snapshots",
    "dead_letters",
    "sessions",
    "expected",
    "rows",
    "rows of ledger",
}


def source_of(evidence):
    records = [*evidence.records, *evidence.commands, *evidence.attempts]
    rows = [(t, key, row) for t, own in evidence.rows.items() for key, row in own.items()]
    return Source(evidence, lambda: records, lambda: rows, len(records))


@pytest.fixture
def judged(tmp_path):
    """What is judged of some evidence, by the names of the promises."""

    def told(evidence, given=ALL, canaries=()):
        watch, own = Canaries(canaries), Path(mkdtemp(dir=tmp_path))
        found = audit_slices(watch.watch(source_of(evidence)), asked_by(decode_command), own)
        given = {*given, *(("canaries",) if canaries else ())}
        counts = {**found.counts, **found.looked_at}
        return {
            one.promise.name: one for one in judge([*found.violations, *watch.found], counts, given)
        }

    return told


def test_the_list_has_each_of_the_39_once_and_every_promise_that_is_checked():
    numbers = [promise.number for promise in PROMISES]
    assert numbers[:39] == list(range(1, 40))
    checked = {number for numbers, _ in CHECKS for number in numbers}
    shown = {number for promise in PROMISES for number in promise.shown_by}
    assert shown - checked == {29, "blobs"}  # found while it is read, and beside the history
    assert checked - shown == set()
    assert len(set(numbers)) == len(numbers)


def test_what_is_looked_at_exists():
    names = {kind.__name__ for kind in r.EventBody.__args__} | KINDS_OF_COUNTS
    for promise in PROMISES:
        for _, keys in promise.looks_at:
            assert set(keys) <= names, promise
        assert bool(promise.why_not) != bool(promise.shown_by), promise


def test_of_a_clean_history_each_holds_or_says_why_it_cannot_be_judged(begin, judged):
    found = judged(begin().story().evidence())
    by = {}
    for name, one in found.items():
        by.setdefault(one.verdict, set()).add(name)
    assert "broken" not in by
    assert by["not judged"] == {"I9", "I29", "I30", "I31", "I36", "blobs"}
    assert by["nothing"] == {"I7", "I39", "jobs", "children", "resources"}
    assert found["I1"].looked_at == {"events": 19, "sessions": 1}
    assert all(one.why for one in found.values() if one.verdict not in ("holds", "broken"))
    assert all(sum(one.looked_at.values()) for one in found.values() if one.verdict == "holds")


def test_a_broken_one_tells_how_often_and_where_first(begin, judged):
    chronicle = begin().story()
    found = judged(chronicle.evidence(events=without(chronicle.scribe.records, 1)))
    assert found["I1"].verdict == "broken"
    assert found["I1"].violations == 1
    assert found["I1"].first.sentence == "expected seq 2 after offset 0, found 3"


def test_what_is_shown_by_others_is_broken_with_them(begin, judged):
    chronicle = begin().story()
    found = judged(chronicle.evidence(activities=chronicle.tasks[1:]))
    assert {name for name, one in found.items() if one.verdict == "broken"} >= {"I12", "I13", "I19"}


def test_without_views_a_whole_or_rest_what_needs_them_is_not_judged(begin, judged):
    found = judged(begin().story().evidence(), given=())
    unjudged = {name for name, one in found.items() if one.verdict == "not judged"}
    assert unjudged > {"I11", "I12", "I33", "I34", "I35", "I38"}
    assert "--quiescent" in found["I38"].why


def test_29_a_planted_secret_is_found_in_records_and_rows(begin, judged):
    chronicle = begin().story()
    secret = "hunter2-hunter2"
    assert judged(chronicle.evidence(), canaries=[secret])["I29"].verdict == "holds"
    said = chronicle.scribe.payload(secret)
    assert load_json(said) == secret
    planted = begin()
    planted.fact(planted.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    planted.fact(planted.ask(m.SendMessage(said)), r.MessageReceived("m1", said))
    found = judged(planted.evidence(), canaries=["another-secret", secret])["I29"]
    assert found.verdict == "broken"
    assert "the secret in line 2 is in" in found.first.sentence
    assert found.violations >= 2


def test_a_canary_that_is_found_by_chance_is_refused():
    with pytest.raises(ValueError, match=f"line 2 has fewer than {CANARY_MIN} characters"):
        Canaries(["long enough", "short"])
