"""A set as files, and its tests as files."""

from pathlib import Path

import pytest

from wakeful.events import records as r
from wakeful.processors.policies.cases import read_cases, run_case
from wakeful.processors.policies.cedar import load
from wakeful.processors.policies.files import UnusableSet, read_set

DESK = """
@id("boss-only")
forbid (principal, action == Action::"decide", resource == Tool::"ship")
unless { principal in Role::"acme/boss" };
"""

SET = """
policies = ["default", "desk.cedar"]
[roles.acme]
boss = ["eve"]
supervisor = ["sue"]
[arguments.refund]
cents = "Long"
"""

CASE = """
[[case]]
name = "a refund by a supervisor"
tenant = "acme"
actor = "sue"
decide = "approve"
tool = "refund"
approver = "supervisor"
requester = "ann"
arguments = { cents = 500 }
expect = "allowed"
because = ["approver-has-the-role"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.toml").write_text(SET, "utf-8")
    (tmp_path / "desk.cedar").write_text(DESK, "utf-8")
    (tmp_path / "refunds.test.toml").write_text(CASE, "utf-8")
    return tmp_path


def test_a_set_is_read_from_its_files(folder: Path) -> None:
    found = read_set(folder / "policy.toml")
    assert found.roles == (
        r.RoleMembers("acme", "boss", ("eve",)),
        r.RoleMembers("acme", "supervisor", ("sue",)),
    )
    assert found.arguments == (r.ToolArgument("refund", "cents", "Long"),)
    assert load(found).policy_ids[-1] == "boss-only"


FAULTS = {
    "a fault in a Cedar file": (
        "desk.cedar",
        'Role::"acme/boss"',
        'Role::"boss"',
        "desk.cedar:2 boss-only: ",
    ),
    "a file that is not there": (
        "policy.toml",
        "desk.cedar",
        "x.cedar",
        "policy.toml names 'x.cedar'",
    ),
    "no policies": ("policy.toml", "policies", "roles_", "policy.toml: 'roles_' is none of"),
    "no list of names": ("policy.toml", '["sue"]', '"sue"', "roles.acme.supervisor is 'sue'"),
    "an unknown type": ("policy.toml", "Long", "Float", "'Float': use Long, String, Bool"),
    "no TOML": ("policy.toml", "[roles.acme]", "[roles.acme", "policy.toml is not TOML"),
}


@pytest.mark.parametrize(("file", "was", "is_", "told"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_with_its_file(
    folder: Path, file: str, was: str, is_: str, told: str
) -> None:
    text = (folder / file).read_text("utf-8")
    assert was in text
    (folder / file).write_text(text.replace(was, is_, 1), "utf-8")
    with pytest.raises(UnusableSet) as raised:
        read_set(folder / "policy.toml")
    assert told in str(raised.value)


def test_a_set_that_no_processor_could_read_is_refused_before_it_is_published(folder: Path) -> None:
    text = (folder / "policy.toml").read_text("utf-8")
    people = ", ".join(f'"p{number}"' for number in range(10_001))
    (folder / "policy.toml").write_text(text.replace('["sue"]', f"[{people}]"), "utf-8")
    with pytest.raises(UnusableSet, match="no processor could read it"):
        read_set(folder / "policy.toml")


def test_a_case_that_holds_says_nothing(folder: Path) -> None:
    (case,) = read_cases(folder)
    assert run_case(load(read_set(folder / "policy.toml")), case).wrong == ""


WRONG = {
    "another answer": ('expect = "allowed"', 'expect = "denied"', "expected denied, it is allowed"),
    "another reason": ("approver-has-the-role", "boss-only", "expected boss-only"),
    "another actor": ('actor = "sue"', 'actor = "bob"', "no policy permits it"),
}


@pytest.mark.parametrize(("was", "is_", "told"), WRONG.values(), ids=WRONG)
def test_a_case_that_does_not_hold_says_how(folder: Path, was: str, is_: str, told: str) -> None:
    (folder / "refunds.test.toml").write_text(CASE.replace(was, is_), "utf-8")
    (case,) = read_cases(folder)
    assert told in run_case(load(read_set(folder / "policy.toml")), case).wrong


UNUSABLE = {
    "a word that is no field": ("tool =", "tol =", "case 1: 'tol' is none of"),
    "no expectation": ('expect = "allowed"', "", "'expect' is missing"),
    "another word": ('"allowed"', '"yes"', "write 'allowed' or 'denied'"),
    "neither act": ('decide = "approve"', "", "either decide"),
    "no list": ('["approver-has-the-role"]', '"x"', "expected a list"),
    "no case": ("[[case]]", "[case]", "as a [[case]] table"),
}


@pytest.mark.parametrize(("was", "is_", "told"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_no_case_is_told(folder: Path, was: str, is_: str, told: str) -> None:
    (folder / "refunds.test.toml").write_text(CASE.replace(was, is_, 1), "utf-8")
    with pytest.raises(UnusableSet) as raised:
        read_cases(folder)
    assert told in str(raised.value)
