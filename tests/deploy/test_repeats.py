"""An approval that the code alone does not ask for says why: withheld, or asked again in the place of one that is void."""

from __future__ import annotations

from typing import Any

import pytest
from tests.processors.desk import Hand
from tests.processors.test_gate import FREEZE, STOP, policy, retrying

from wakeful.deploy.cli.repeats import add_voids, asked_because
from wakeful.deploy.telling.story import tell
from wakeful.deploy.telling.words import event_line
from wakeful.events import records as r

WHY = "refund may not be carried out: forbidden by frozen"


def row(**changes: Any) -> dict[str, Any]:
    return {
        "proposal_id": "1.2-a",
        "session_id": "s1",
        "action": "refund",
        "activity_id": None,
        "because": [],
        "supersedes": None,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"because": [WHY]}, f"policy asks, since {WHY}"),
        (
            {"activity_id": "1.3", "because": [WHY]},
            f"refund (1.3) is withheld, since {WHY}",
        ),
        (
            {"supersedes": "1.2-o", "supersedes_because": "order was v1 and is v2 now"},
            "asked again, as 1.2-o is void, since order was v1 and is v2 now",
        ),
        (
            {
                "activity_id": "1.3",
                "because": [WHY],
                "supersedes": "1.2-o",
                "supersedes_because": WHY,
            },
            f"refund (1.3) is withheld, since {WHY}; asked again, as 1.2-o is void",
        ),
        ({"supersedes": "1.2-o", "because": [WHY]}, f"asked again, as 1.2-o is void, since {WHY}"),
    ],
)
def test_why_it_is_asked_is_one_sentence(changes: dict[str, Any], told: str) -> None:
    assert asked_because(row(**changes)) == told


class Views:
    """Two void proposals of one session."""

    def approvals(self, **asked: Any) -> list[dict[str, Any]]:
        assert (asked["tenant"], asked["session_id"], asked["status"]) == ("acme", "s1", "voided")
        return [
            {"proposal_id": "1.2-o", "comment": "it drifted"},
            {"proposal_id": "1.2-p", "comment": None},
        ]


def test_what_drifted_is_found_at_the_one_that_is_void() -> None:
    first, again, lost = row(), row(supersedes="1.2-o"), row(supersedes="1.2-q")
    views: Any = Views()
    add_voids(views, "acme", [first, again, lost])
    found = [one["supersedes_because"] for one in (first, again, lost)]
    assert found == [None, "it drifted", None]
    assert asked_because(again) == "asked again, as 1.2-o is void, since it drifted"
    assert asked_because(lost) == "asked again, as 1.2-q is void"


def told_of(text: str) -> tuple[list[str], list[str]]:
    """The events as lines, and the story, of a refund that this policy stops before its second attempt."""
    hand: Hand = retrying()
    hand.handler.go_by(policy(text), 8)
    hand.wake()
    events = [stamped.event for stamped in hand.log]
    lines = [line.text for chapter in tell(events).chapters for line in chapter.lines]
    return [event_line(one) for one in events if isinstance(one.body, r.ActivityRetried)], lines


def test_an_attempt_that_was_withheld_is_called_so_with_its_policies_and_the_drift() -> None:
    (event,), story = told_of(FREEZE)
    assert event.endswith("withheld by frozen, until it is approved")
    (called,) = [line for line in story if line.startswith("called refund")]
    assert called.endswith(
        f"attempt 2 was withheld by frozen, until it is approved: {WHY}; asked again"
    )


def test_one_that_no_approval_would_let_go_is_said_to_be_withheld_for_good() -> None:
    (event,), story = told_of(STOP)
    assert event.endswith("withheld by stopped, for good")
    (called,) = [line for line in story if line.startswith("called refund")]
    hashed = (policy(STOP).set_hash or b"").hex()[:16]
    assert "attempt 2 was withheld by stopped, for good: it failed (forbidden: " in called
    assert f"forbidden by stopped (policy set {hashed}), whoever approves it)" in called
