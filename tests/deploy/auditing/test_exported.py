"""An export holds what the topics hold, byte for byte; whatever is done to the file is named by its line."""

import base64
import json
import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.commands.wire import decode_command
from wakeful.deploy.auditing.exported import About, Damaged, open_export, write_export
from wakeful.deploy.auditing.imported import make_database
from wakeful.deploy.auditing.replaying import Range, replay
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.events.keys import session_part
from wakeful.events.log.protocol import Record
from wakeful.events.records import SessionOpened
from wakeful.projections.audit import asked_by
from wakeful.projections.audit.slices import KINDS, audit_slices
from wakeful.projections.rows import LEDGER, SESSIONS
from wakeful.schemas import bundled


def all_records(recorded):
    return [one for kind in KINDS for one in getattr(recorded.evidence, kind)]


def about(recorded, session=None):
    evidence = recorded.evidence
    return About("desk", evidence.partitions, session, 0, evidence.committed, {})


@pytest.fixture
def written(recorded, tmp_path):
    """The whole history in a file."""
    path = tmp_path / "all.jsonl"
    write_export(path, about(recorded), all_records(recorded))
    return path


def plain(record):
    return replace(record, headers=tuple((name, bytes(value)) for name, value in record.headers))


def test_what_is_read_is_what_was_written(recorded, written):
    export = open_export(written)
    assert list(export.records()) == [plain(one) for one in all_records(recorded)]
    assert export.about == about(recorded)


def test_bytes_that_are_no_text_survive(recorded, tmp_path):
    odd = Record("desk.commands.v1", 0, 0, 5, b"\xff/x", None, (("a", b"\x80"), ("b", b"")))
    none = replace(odd, offset=1, key=None, value=b"\0\xff", headers=())
    path = tmp_path / "odd.jsonl"
    write_export(path, about(recorded), [odd, none])
    assert list(open_export(path).records()) == [odd, none]


def test_the_schemas_of_all_records_and_of_states_are_in_the_file(written):
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    schemas = {one["record"]: one for one in lines if "schema" in one}
    assert {"wakeful.v1.SessionOpened", "wakeful.v1.Snapshot", "wakeful.v1.SessionState"} <= set(
        schemas
    )
    opened = schemas["wakeful.v1.SessionOpened"]
    version = bundled().of_fingerprint(bytes.fromhex(opened["schema"]))
    assert opened["avro"] == bundled().schema(version)
    assert SessionOpened.__name__ in opened["avro"]["name"]


def test_an_export_is_clean_and_a_fault_of_the_history_in_it_is_found(recorded, tmp_path):
    def found(name, records):
        path, folder = tmp_path / f"{name}.jsonl", tmp_path / name
        folder.mkdir()
        write_export(path, about(recorded), records)
        source = open_export(path).source()
        return audit_slices(source, asked_by(decode_command), folder).violations

    records = all_records(recorded)
    assert found("clean", records) == []
    lost = next(n for n, one in enumerate(records) if one.topic == "desk.events.v1")
    assert {one.invariant for one in found("lost", [*records[:lost], *records[lost + 1 :]])} >= {1}


def test_the_export_of_one_session_is_clean_though_others_shared_its_transactions(
    recorded, tmp_path
):
    own = [one for one in all_records(recorded) if session_part(one.key) == b"acme/s2"]
    path = tmp_path / "s2.jsonl"
    write_export(path, about(recorded, ("acme", "s2")), own)
    (tmp_path / "folder").mkdir()
    source = open_export(path).source()
    assert not source.whole
    assert audit_slices(source, asked_by(decode_command), tmp_path / "folder").violations == []
    events, snapshots = open_export(path).of_session(("acme", "s2"))
    replayed = replay(events, snapshots, Range())
    assert (replayed.state.status, replayed.differences) == ("Waiting", [])


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_line_that_was_changed_dropped_moved_or_added_is_named(data, tmp_path_factory, recorded):
    folder = tmp_path_factory.mktemp("export")
    path = folder / "all.jsonl"
    write_export(path, about(recorded), all_records(recorded)[:40])
    lines = path.read_bytes().splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 2))
    match data.draw(st.sampled_from(["flip", "drop", "swap", "repeat"])):
        case "flip":
            position = data.draw(st.integers(0, len(lines[at]) - 1))
            bit = 1 << data.draw(st.integers(0, 6))
            line = lines[at]
            lines[at] = line[:position] + bytes([line[position] ^ bit]) + line[position + 1 :]
        case "drop":
            del lines[at]
        case "swap":
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        case "repeat":
            lines.insert(at, lines[at])
    path.write_bytes(b"".join(lines))
    with pytest.raises(Damaged) as told:
        list(open_export(path).records())
    assert f"line {at + 1}" in told.value.message or f"line {at + 2}" in told.value.message


def test_a_file_that_was_cut_off_says_so(written):
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(Damaged, match="it was cut off"):
        list(open_export(written).records())
    written.write_bytes(b"")
    with pytest.raises(Damaged, match="is empty"):
        open_export(written)


def test_a_changed_record_is_named_with_its_place(written):
    lines = written.read_bytes().splitlines(keepends=True)
    at = next(n for n, one in enumerate(lines) if b'"topic":"desk.events.v1"' in one)
    place = json.loads(lines[at])
    lines[at] = lines[at].replace(b'"at_ms":1', b'"at_ms":2')
    written.write_bytes(b"".join(lines))
    with pytest.raises(Damaged) as told:
        list(open_export(written).records())
    assert f"line {at + 1} (desk.events.v1 {place['partition']}@{place['offset']})" in str(
        told.value
    )


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "other"
    path.write_text('{"a": 1}\n')
    with pytest.raises(Damaged, match="line 1: it does not end with a chain"):
        open_export(path)


def test_an_export_that_dies_leaves_no_file(recorded, tmp_path):
    def records():
        yield from all_records(recorded)[:3]
        raise OSError("the broker is gone")

    with pytest.raises(OSError, match="gone"):
        write_export(tmp_path / "a.jsonl", about(recorded), records())
    assert list(tmp_path.iterdir()) == []


def test_only_its_owner_may_read_the_file(written):
    assert written.stat().st_mode & 0o077 == 0


def test_the_database_has_every_record_decoded_and_the_views(recorded, written, tmp_path):
    path = tmp_path / "history.sqlite"
    counts = make_database(open_export(written), path)
    assert path.stat().st_mode & 0o077 == 0
    assert counts["records"] == len(all_records(recorded))
    assert counts[SESSIONS] == 3
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT session_id, status FROM sessions ORDER BY 1").fetchall()
        assert rows == [("s1", "Completed"), ("s2", "Waiting"), ("s3", rows[2][1])]
        (opened,) = connection.execute(
            "SELECT body ->> '$.body.workflow' FROM records WHERE kind = 'events' AND session_id = 's1' AND seq = 1"
        ).fetchone()
        assert opened == "desk"
        asked = connection.execute(f"SELECT count(*) FROM {LEDGER} WHERE session_id = 's1'")
        assert asked.fetchone() == (2,)
    connection.close()


def test_the_commands_read_the_file_without_a_broker(alone, recorded, written, capsys):
    assert invoke(("audit", "verify", "--file", str(written))) == Exit.DONE
    assert "every promise is kept" in capsys.readouterr().err
    code = invoke(("audit", "replay", "s1", "--file", str(written), "--to", "3", "--json"))
    assert code == Exit.NOT_FOUND  # of another tenant than this one's
    capsys.readouterr()


def test_the_commands_read_a_tenants_sessions_in_the_file(
    alone, recorded, written, capsys, monkeypatch, tmp_path
):
    monkeypatch.setenv("WAKEFUL_TENANT", "acme")
    assert (
        invoke(("audit", "replay", "s1", "--file", str(written), "--to", "3", "--json"))
        == Exit.DONE
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["seq"], found["differences"]) == (3, [])
    database = str(tmp_path / "history.sqlite")
    assert invoke(("audit", "import", str(written), database)) == Exit.DONE
    assert invoke(("audit", "import", str(written), database)) == Exit.USAGE
    assert "is there already" in capsys.readouterr().err


def test_a_changed_file_is_named_by_the_commands(alone, written, capsys, tmp_path):
    lines = written.read_bytes().splitlines(keepends=True)
    changed = json.loads(lines[10])
    value = base64.b64encode(b"another").decode()
    lines[10] = lines[10].replace(str(changed["value"]).encode(), value.encode())
    written.write_bytes(b"".join(lines))
    for command in (
        ("verify", "--file", str(written)),
        ("import", str(written), str(tmp_path / "d")),
    ):
        assert invoke(("audit", *command)) == Exit.REFUSED
        assert "line 11" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_what_cannot_be_exported_is_refused_before_anything_is_read(alone, capsys, tmp_path):
    assert invoke(("audit", "export", "s1")) == Exit.USAGE
    assert invoke(("audit", "export", "--all", "s1", "file")) == Exit.USAGE
    assert invoke(("audit", "export", "s1", str(tmp_path / "no" / "file"))) == Exit.USAGE
    assert "there is no folder" in capsys.readouterr().err
