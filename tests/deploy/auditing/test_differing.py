"""`audit diff`: the code that a history was made by changes nothing of it; other code is told by session, turn and step."""

import json
from pathlib import Path

import pytest
from tests.deploy.auditing.test_exported import about, all_records
from tests.processors import desk

from wakeful.deploy.auditing.exported import write_export
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit

SAME = str(Path(desk.__file__))


@pytest.fixture
def diff(alone, recorded, tmp_path, capsys, monkeypatch):
    """Runs the command on an export of the recorded history."""
    monkeypatch.setenv("WAKEFUL_TENANT", "acme")
    monkeypatch.setenv("WAKEFUL_DIGEST_KEY", desk.KEY.hex())
    path = tmp_path / "all.jsonl"
    write_export(path, about(recorded), all_records(recorded))

    def run(*arguments):
        capsys.readouterr()
        code = invoke(("audit", "diff", "--file", str(path), *arguments))
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments else out, err

    return run


@pytest.fixture
def other(tmp_path):
    """The desk's code with a change."""

    def write(before, after):
        text = Path(SAME).read_text("utf-8")
        assert before in text
        path = tmp_path / "other.py"
        path.write_text(text.replace(before, after), "utf-8")
        return str(path)

    return write


def test_the_code_that_it_was_made_by_changes_nothing(diff):
    code, found, _ = diff("--against", SAME, "--json")
    assert (code, found) == (Exit.DONE, {"sessions": 3, "turns": 5, "changed": []})
    code, out, err = diff("s3", "--against", SAME)
    assert (code, out) == (Exit.DONE, "")
    assert err == "no changed decision in 3 turns of 1 session\n"


def test_a_change_is_told_by_session_turn_and_step(diff, other):
    changed = other('f"refunded {cents} as {receipt}"', 'f"paid {cents} as {receipt}"')
    code, found, _ = diff("--against", changed, "--json")
    assert code == Exit.REFUSED
    assert [(one["session_id"], one["turn"], one["step"]) for one in found["changed"]] == [
        ("s1", 1, 4),
        ("s3", 1, 4),
        ("s3", 2, 3),
    ]
    assert all("reply" in one["expected"] and "reply" in one["actual"] for one in found["changed"])
    code, out, err = diff("s1", "--against", changed)
    assert code == Exit.REFUSED
    assert out.splitlines()[1].startswith("s1       1     3    step 4: reply")
    assert err == "1 changed decision in 1 turn of 1 session\n"


def test_an_open_turn_is_driven_as_far_as_it_has_come(diff, other):
    changed = other("action = refund.call(cents)", "action = refund.call(cents + 1)")
    code, found, _ = diff("s2", "--against", changed, "--json")
    assert code == Exit.REFUSED
    (one,) = found["changed"]
    assert one["expected"].startswith("step 2: approval of refund")


def test_a_version_that_is_not_there_is_said_and_the_newest_is_driven_where_it_is_asked_for(
    diff, other
):
    newer = other('@workflow("desk", version=1,', '@workflow("desk", version=2,')
    code, found, _ = diff("--against", newer, "--json")
    assert code == Exit.REFUSED
    assert {one["expected"] for one in found["changed"]} == {"workflow desk version 1"}
    code, found, _ = diff("--against", newer, "--newest", "--json")
    assert (code, found["changed"]) == (Exit.DONE, [])


def test_another_digest_key_is_said_before_every_decision_seems_changed(diff, monkeypatch):
    monkeypatch.setenv("WAKEFUL_DIGEST_KEY", b"another key of this length".hex())
    code, _, err = diff("--against", SAME)
    assert code == Exit.USAGE
    assert "set WAKEFUL_DIGEST_KEY" in err


def test_a_session_that_is_not_there_is_not_called_the_same(diff):
    code, _, err = diff("nobody", "--against", SAME)
    assert code == Exit.NOT_FOUND
    assert "nobody" in err
    assert diff("--against", "no_such_module")[0] == Exit.APP
