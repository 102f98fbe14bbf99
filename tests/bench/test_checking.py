"""The measure of checks measures what processors do: all are made, and nothing is refused."""

import json
from dataclasses import replace

import pytest
from bench import checking, vouching

from wakeful.commands.identity import INSECURE


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "ROUNDS", 2)
    monkeypatch.setattr(checking, "SESSIONS", 5)
    monkeypatch.setattr(vouching, "RESULTS", 10)


def test_it_tells_what_is_added_to_the_bare_fold() -> None:
    said: list[str] = []
    checking.main(said.append)
    found = json.loads(said[0])
    assert list(found) == ["result", "approval"]
    assert set(found["approval"]) == {
        *(*checking.PARTS, "fold_us"),
        *("adds_us", "ratio", "goal_us"),
    }
    assert set(found["result"]) == set(found["approval"]) - {"policy_us", "look_us"}
    for took in found.values():
        assert took["adds_us"] > 0
        assert took["fold_us"] > took["sign_us"]


def test_it_measures_nothing_where_a_decision_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = checking._policy()
    monkeypatch.setattr(checking, "_policy", lambda: replace(nobody, roles=()))
    with pytest.raises(RuntimeError, match="5 are refused"):
        checking.Approvals(INSECURE).took()
