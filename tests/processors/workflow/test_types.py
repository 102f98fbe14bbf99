"""What a type checker knows of a workflow: a user's module under mypy --strict."""

import subprocess
import sys
import textwrap

import pytest

MODULE = """
from typing import Any, assert_type

from pydantic import BaseModel
from wakeful import (
    ActivityError, Approval, Message, Needs, Read, Turn, Uncertain, VerificationFailed, Winner,
    Write, WrongSignal, activity, workflow,
)


class Desk(BaseModel):
    rounds: int = 0


class Order(BaseModel):
    cents: int


class Paid(BaseModel):
    cents: int


@activity(contract=Read())
async def find_order(text: str) -> Order:
    return Order(cents=len(text))


@activity(contract=Read())
async def adds_up(cents: int) -> bool:
    return cents > 0


@activity(contract=Write(idempotent=True), approval=Needs("supervisor"))
async def refund(cents: int, *, key: str) -> str:
    return key


@workflow("desk", version=1)
async def desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    assert_type(message.trigger, str)
    order = assert_type(await turn.run(find_order.call("x"), on_uncertain="raise"), Order)
    asked = assert_type(await turn.approval(refund.call(order.cents)), Approval[str])
    assert_type(await turn.run(asked.action), str)
    assert_type(await turn.signal("paid", Paid), Paid)
    assert_type(await turn.signal("total", int), int)
    assert_type(await turn.signal("anything"), Any)
    pair = await turn.gather(turn.run(find_order.call("a")), turn.signal("paid", Paid))
    assert_type(pair, tuple[Order, Paid])
    won = await turn.first(turn.run(find_order.call("a")), turn.run(find_order.call("b")))
    assert_type(won, Winner[Order])
    assert_type(await turn.inbox(wait=True), list[Message])
    await turn.artifact("prices", "7")
    if assert_type(turn.version("change"), bool):
        await turn.sleep("1m")
    try:
        await turn.complete({"ok": True}, verify=adds_up.call(order.cents))
    except (VerificationFailed, WrongSignal, Uncertain, ActivityError) as error:
        await turn.say(error.name)
    return assert_type(turn.again(desk), Desk)
"""

WRONG = """
    await turn.complete("x", verify=find_order.call("x"))
    await turn.run(find_order.call("x"), on_uncertain="retry")
    await turn.inbox(True)
    turn.again()
"""


@pytest.mark.slow
def test_each_wait_has_the_type_of_what_it_gives_and_wrong_calls_are_found(tmp_path):
    right = tmp_path / "right.py"
    right.write_text(textwrap.dedent(MODULE))
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MODULE.replace("    await turn.artifact(", WRONG + "    await turn.artifact("))
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-incremental",
            "--follow-imports=silent",
            str(right),
            str(wrong),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
    )
    found = checked.stdout.splitlines()
    assert [line for line in found if line.startswith("right.py")] == [], checked.stdout
    errors = [line for line in found if line.startswith("wrong.py") and ": error:" in line]
    assert len(errors) == 4, checked.stdout
