"""A workflow that spins is held; the partition and everybody else's sessions go on."""

import signal
import time

from tests.processors.desk import Desk, Hand, find_order, kinds

from wakeful import Message, Turn, workflow
from wakeful.commands.check import Facts
from wakeful.deploy.time_limit import TimeLimit
from wakeful.processors.handler import CommandHandler


@workflow("desk", version=1)
async def spins(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Never comes back, and does not want to be told."""
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def test_a_workflow_that_spins_is_held_and_said_so() -> None:
    hand = Hand(spins, find_order)
    hand.handler = CommandHandler(hand.app, Facts(b"k"), limit=TimeLimit(0.05))
    began = time.monotonic()
    out = hand.open()
    assert time.monotonic() - began < 5
    assert kinds(out)[-2:] == ["SessionHeld", "CommandParked"]
    assert out[-2].reason == "workflow_stuck"
    assert "without a wait" in out[-2].detail


def test_the_limit_is_over_with_the_command() -> None:
    limit = TimeLimit(0.02)
    with limit:
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
