"""`wakeful repair`: whom it is about is said before anything is opened, and the state to go back to is that of the events."""

from typing import Any

import pytest

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.repairing import NoSuchTurn, left_by
from wakeful.events import records as r
from wakeful.events.payloads import json_payload

ENVELOPE: Any = None


def ended(turn: int, left: int) -> r.Event:
    return r.Event(ENVELOPE, r.TurnCompleted(turn, 0, json_payload(left, b"key"), (), ()))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("release",), "say which sessions: their ids, or --where"),
        (("release", "s1", "--where", "status=Recovering"), "say which sessions"),
        (("reset", "--where", "colour=red"), "by status, workflow, version, reason, turn"),
        (("reset", "--where", "status"), "write NAME=VALUE"),
        (("release", "--where", "status=Waiting"), "'Waiting' and 'Recovering' are both named"),
        (("pin", "s1"), "give --version N, or --unpin"),
        (("pin", "s1", "--version", "1", "--unpin"), "give --version N, or --unpin"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error_before_anything_is_opened(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(("repair", *words)) == Exit.USAGE
    assert told in capsys.readouterr().err


def test_the_last_turn_that_has_ended_is_gone_back_to_where_none_is_named() -> None:
    events = [ended(1, 10), ended(2, 20), ended(4, 40)]
    assert left_by(events, None) == (4, json_payload(40, b"key"))
    assert left_by(events, 2) == (2, json_payload(20, b"key"))
    assert left_by(events, 0) == (0, None)
    assert left_by([], None) == (0, None)
    with pytest.raises(NoSuchTurn, match="no end of turn 3: name one of turns 0, 1, 2, 4"):
        left_by(events, 3)
