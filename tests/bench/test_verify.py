"""The measure of audits measures what audits do: a history of every topic, clean, and whole."""

import json

import pytest
from bench import history, verify

from wakeful.commands.wire import decode_command
from wakeful.events.log.protocol import Place
from wakeful.projections.audit import Evidence, asked_by
from wakeful.projections.audit import slices as sliced
from wakeful.projections.audit.slices import Source, audit_slices


@pytest.fixture(scope="module")
def template():
    return history.recorded()


def source_of(records):
    committed = {
        Place(one.topic, one.partition): one.offset + 1
        for one in records
        if one.topic == history.TOPICS.commands
    }
    evidence = Evidence(history.TOPICS, history.PARTITIONS, committed=committed, quiescent=True)
    return Source(evidence, lambda: records, None, len(records))


def test_a_history_of_retold_sessions_keeps_every_promise(template, tmp_path, monkeypatch):
    monkeypatch.setattr(sliced, "SLICE_RECORDS", 20)
    records = list(history.retold(template, 5))
    found = audit_slices(source_of(records), asked_by(decode_command), tmp_path)
    assert found.violations == []
    assert found.counts["events"] == 5 * history.events_of(template)
    assert found.counts["commands"] == 75


def test_a_batch_across_two_slices_is_torn_where_one_of_its_records_is_lost(
    template, tmp_path, monkeypatch
):
    monkeypatch.setattr(sliced, "SLICE_RECORDS", 20)
    records = [one for one in history.retold(template, 5) if one.topic != history.TOPICS.outcomes]
    found = audit_slices(source_of(records), asked_by(decode_command), tmp_path)
    assert {one.invariant for one in found.violations} == {12, 13}


def test_it_tells_how_fast_and_in_how_much_memory(tmp_path):
    count = verify.written(tmp_path / "history", 100)
    spool = tmp_path / "spool"
    spool.mkdir()
    found = verify.audited(tmp_path / "history", count, spool)
    assert found["events"] == 93
    assert json.loads(json.dumps(found))["events_per_cpu_s"] > 0
