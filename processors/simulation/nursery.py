"""What turns of the simulation do with children: one, several at once, the first of two, one that nobody awaits."""

from __future__ import annotations

from typing import Any

from ..workflow.child import Child
from ..workflow.errors import ActivityError
from ..workflow.turn import Turn

WORDS = frozenset({"child", "brood", "rivals", "orphan", "stranger", "strict", "halt"})

JOINS = "+"
"""Between the words of a child's script, inside the one word that opens it; `*` for one of its own."""

WITHIN = "6s"


async def raise_children(turn: Turn, step: str, argument: str) -> None:
    """One of these words; the argument is the script of the child, or of each."""
    try:
        match step:
            case "child":
                await turn.say(await _child(turn, argument))
            case "strict":
                await turn.say(await _child(turn, argument))
            case "brood":
                brood = [_child(turn, argument) for _ in range(3)]
                await turn.say(list(await turn.gather(*brood)))
            case "rivals":
                won = await turn.first(
                    _child(turn, argument), _child(turn, "sleep:2+complete:slow")
                )
                await turn.say(f"{won.index} {won.value}")
            case "halt":  # held while the other one is open
                other = _child(turn, "sleep:1+complete:late")
                await _child(turn, argument)
                raise ValueError(other.id)
            case "stranger":
                await turn.child("nobody", argument, within=WITHIN)
            case _:
                _child(turn, argument)
    except ActivityError as error:
        if step == "strict":
            raise
        await turn.say(f"{error.failure.kind} {error.failure.type}")


def _child(turn: Turn, script: str) -> Child[Any]:
    own = script.replace(JOINS, " ").replace("*", JOINS)
    return turn.child("player", own, within=WITHIN, attributes={"mood": "young"})
