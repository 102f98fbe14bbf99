"""`wakeful audit invariants` on an export: each of the 39, by what, and the exit code."""

import json
import re

import pytest

from wakeful.deploy.auditing.exported import About, write_export
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.projections.audit.slices import KINDS


@pytest.fixture
def export(recorded, tmp_path):
    """Writes a file with all records, but for some."""

    def write(leave_out=(), session=None):
        evidence = recorded.evidence
        about = About("desk", evidence.partitions, session, 0, evidence.committed, {})
        path = tmp_path / f"{len(leave_out)}{session}.jsonl"
        records = [one for kind in KINDS for one in getattr(evidence, kind)]
        write_export(path, about, [one for one in records if one not in leave_out])
        return path

    return write


@pytest.fixture
def judged(capsys):
    def run(path, *more):
        code = invoke(["audit", "invariants", "--file", str(path), "--json", *more])
        told = capsys.readouterr()
        return code, {one["invariant"]: one for one in json.loads(told.out)}

    return run


def test_each_invariant_is_told_with_what_was_looked_at_or_why_not(export, judged):
    code, found = judged(export(), "--quiescent")
    assert code == Exit.DONE
    assert list(found)[:39] == list(range(1, 40))
    assert {number for number, one in found.items() if one["verdict"] == "broken"} == set()
    unjudged = {number for number, one in found.items() if one["verdict"] == "not judged"}
    assert unjudged == {9, 11, 29, 30, 31, 33, 34, 35, 36, "blobs"}
    assert found[14]["looked_at"]["activities"] > 3
    assert "whole namespace" not in found[12]["why"]


def test_a_lost_event_breaks_what_it_breaks_and_the_exit_code_says_so(
    recorded, export, judged, capsys
):
    lost = recorded.of("s1")[0][2]
    code, found = judged(export([lost]))
    assert code == Exit.REFUSED
    assert found[1]["verdict"] == "broken"
    assert found[1]["first"]["session"] == "acme/s1"
    assert invoke(["audit", "invariants", "--file", str(export([lost]))]) == Exit.REFUSED
    told = capsys.readouterr()
    assert re.search(r"^I1 +BROKEN +", told.out, re.MULTILINE)
    assert "the first: I1 acme/s1 at offset" in told.out
    assert "broken: I1, " in told.err


def test_of_one_session_alone_transactions_are_not_judged(recorded, export, judged):
    del recorded
    _, found = judged(export(session=("acme", "s1")))
    assert found[12]["verdict"] == "not judged"
    assert "export the whole namespace" in found[12]["why"]


def test_planted_secrets_are_looked_for(export, judged, tmp_path):
    canaries = tmp_path / "canaries"
    canaries.write_text("nobody-says-this\n")
    code, found = judged(export(), "--canaries", str(canaries))
    assert (code, found[29]["verdict"]) == (Exit.DONE, "holds")
    canaries.write_text("nobody-says-this\nacme/s1/1/1\n")  # the key of its first activity
    code, found = judged(export(), "--canaries", str(canaries))
    assert (code, found[29]["verdict"]) == (Exit.REFUSED, "broken")
    assert "the secret in line 2" in found[29]["first"]["what"]
    canaries.write_text("short\n")
    assert (
        invoke(["audit", "invariants", "--file", str(export()), "--canaries", str(canaries)])
        == Exit.USAGE
    )
