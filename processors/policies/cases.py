"""Tests of a policy set, as files: questions with the rulings that are expected, for whoever answers for security to read.

[[case]]
name = "a supervisor approves somebody else's refund"
tenant = "acme"
actor = "sue"
decide = "approve"                         # or "reject", "edit", "respond"; or execute = true
tool = "refund"
approver = "supervisor"                    # the role that the action's rule names
requester = "ann"
arguments = { cents = 500 }
expect = "allowed"                         # or "denied"
because = ["approver-has-the-role"]        # the policies that it rests on; may be left out
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...commands.policy import Deciding, Executing, Policy, Question, Ruling
from ...events.verdicts import DECISIONS
from .files import UnusableSet, read_toml

SET_FILE = "policy.toml"
CASES = "*.test.toml"

ALLOWED, DENIED = "allowed", "denied"

_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("name", "tenant", "actor", "on_behalf_of", "channel", "decide", "tool"), str),
    **dict.fromkeys(("contract", "workflow", "approver", "requester", "expect"), str),
    **dict.fromkeys(("execute", "tainted"), bool),
    **dict.fromkeys(("approved_by", "because"), list),
    "arguments": dict,
}
_NEEDED = ("name", "actor", "tool", "expect")


@dataclass(frozen=True, slots=True)
class Case:
    """One question and its expected answer; `because` is null where any policies will do."""

    file: str
    name: str
    question: Question
    expect: str
    because: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a case; `wrong` says how the ruling differs, and is empty where it does not."""

    case: Case
    ruling: Ruling
    wrong: str


def read_cases(folder: Path) -> list[Case]:
    """The cases of a folder, file by file; `UnusableSet` where there is none, or one is not a case."""
    files = sorted(folder.glob(CASES))
    if not files:
        raise UnusableSet([f"no file {CASES} in {str(folder)!r}: write one with [[case]] tables"])
    return [case for path in files for case in _cases(path)]


def run_case(policy: Policy, case: Case) -> Told:
    """Asks, and compares."""
    ruling = policy.rule(case.question)
    found = ALLOWED if ruling.allowed else DENIED
    wrong = ""
    if found != case.expect:
        why = "; ".join(ruling.reasons) or f"by {', '.join(ruling.policy_ids)}"
        wrong = f"expected {case.expect}, it is {found}: {why}"
    elif case.because is not None and sorted(case.because) != sorted(ruling.policy_ids):
        wrong = (
            f"it is {found} by {', '.join(ruling.policy_ids) or 'no policy'}, "
            f"expected {', '.join(case.because) or 'no policy'}"
        )
    return Told(case, ruling, wrong)


def _cases(path: Path) -> Iterator[Case]:
    content = read_toml(path)
    tables = content.get("case")
    if set(content) != {"case"} or not isinstance(tables, list):
        raise UnusableSet([f"{path.name}: write each test as a [[case]] table, and nothing else"])
    for number, table in enumerate(tables, start=1):
        where = f"{path.name}, case {number}"
        _check(where, table)
        yield Case(
            path.name,
            table["name"],
            _question(table),
            table["expect"],
            tuple(table["because"]) if "because" in table else None,
        )


def _check(where: str, table: Mapping[str, Any]) -> None:
    for name, value in table.items():
        if name not in _KINDS:
            raise UnusableSet([f"{where}: {name!r} is none of {', '.join(_KINDS)}"])
        if not isinstance(value, _KINDS[name]):
            raise UnusableSet([f"{where}: {name} is {value!r}, expected a {_KINDS[name].__name__}"])
    missing = [name for name in _NEEDED if not table.get(name)]
    if missing:
        raise UnusableSet([f"{where}: {missing[0]!r} is missing"])
    if table["expect"] not in (ALLOWED, DENIED):
        raise UnusableSet([f"{where}: expect is {table['expect']!r}: write 'allowed' or 'denied'"])
    if ("decide" in table) == bool(table.get("execute")):
        raise UnusableSet([f'{where}: write either decide = "approve" or execute = true'])
    if "decide" in table and table["decide"] not in DECISIONS:
        raise UnusableSet(
            [f"{where}: decide is {table['decide']!r}: write one of {', '.join(DECISIONS)}"]
        )


def _question(table: Mapping[str, Any]) -> Question:
    common = {
        "tool": table["tool"],
        "contract": table.get("contract", ""),
        "workflow": table.get("workflow", ""),
        "arguments": table.get("arguments", {}),
        "requester": table.get("requester", ""),
    }
    act: Deciding | Executing
    if "decide" in table:
        act = Deciding(decision=table["decide"], approver=table.get("approver", ""), **common)
    else:
        approved_by = tuple(table.get("approved_by", ()))
        act = Executing(approved_by=approved_by, tainted=table.get("tainted", False), **common)
    return Question(
        table.get("tenant", "local"),
        table["actor"],
        table.get("on_behalf_of"),
        table.get("channel", "cli"),
        act,
    )
