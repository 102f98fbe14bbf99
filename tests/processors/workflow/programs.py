"""Random workflows: a program is a list of steps, nested in `gather`, `first` and `finally`, with guards anywhere."""

from __future__ import annotations

import random
from typing import Any

from tests.processors.workflow.hands import (
    ACTIVITIES,
    Desk,
    Hand,
    Message,
    Turn,
    adds_up,
    book,
    desk_of,
    find_order,
    refund,
    wire,
)

from wakeful import ActivityError, Uncertain, VerificationFailed
from wakeful.events import records as r
from wakeful.processors.workflow.errors import BranchLost

Program = list[Any]

STEPS = (
    "say",
    "run",
    "run",
    "sleep",
    "signal",
    "signal",
    "inbox",
    "wait",
    "approve",
    "wire",
    "book",
    "artifact",
    "random",
)


def drawn(chance: random.Random, *, depth: int = 0, guards: bool = False) -> Program:
    """A program."""
    program: Program = ["say"] if depth == 0 else []
    for _ in range(chance.randint(1, 4 if depth == 0 else 2)):
        kind = chance.random()
        if depth < 2 and kind < 0.3:
            inner = [drawn(chance, depth=depth + 1, guards=guards) for _ in range(2)]
            program.append((chance.choice(["gather", "first", "first and cancel"]), *inner))
        elif kind < 0.36:  # what may have to be undone, against what comes soon
            program.append((chance.choice(["first", "first and cancel"]), ["book"], ["signal"]))
        elif depth and kind < 0.45:
            program.append(("tidy", drawn(chance, depth=depth + 1, guards=guards)))
        elif guards and kind < 0.6:
            program.append(("guard", chance.choice("ab")))
        else:
            program.append(chance.choice(STEPS))
    return program


class Bomb(Exception):
    """What broken code raises."""


def code_of(program: Program, *, guarded: bool = False, fuse: int | None = None) -> Any:
    """The program as a workflow; with a `fuse` it is broken, and raises when it comes to that step."""

    async def play(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def one(step: Any) -> None:
            if isinstance(step, str):
                await _simple(turn, step)
            elif step[0] == "guard":
                if guarded and turn.version(step[1]):
                    await turn.say(f"new {step[1]}")
            elif step[0] == "gather":
                await turn.gather(*(several(inner) for inner in step[1:]))
            elif step[0] == "tidy":
                await tidied(step[1])
            else:
                cancel = step[0] == "first and cancel"
                await turn.first(*(several(inner) for inner in step[1:]), cancel=cancel)

        async def tidied(steps: Program) -> None:
            lost = False
            try:
                await several(steps)
            except BranchLost:
                lost = True
                raise
            finally:
                await turn.say(f"tidied {turn.random()}")
                if guarded and turn.version("tidies"):
                    await turn.artifact("prices", f"lost {lost}")

        async def several(steps: Program) -> None:
            for step in steps:
                await one(step)

        for number, step in enumerate(program):
            if (
                number == fuse
            ):  # not inside a gather, which would keep the error and let others go on
                raise Bomb
            await one(step)
        if desk.refunded_cents < 1:
            return turn.again(Desk(refunded_cents=1))
        try:
            await turn.complete({"ok": True}, verify=adds_up.call(1))
        except VerificationFailed:
            await turn.say("not verified")
        return desk

    return desk_of(play)


async def _simple(turn: Turn, step: str) -> None:
    match step:
        case "say":
            await turn.say(f"said {turn.now():%M:%S}")
        case "run":
            await turn.run(find_order.call("x"))
        case "sleep":
            await turn.sleep("1m")
        case "signal":
            await turn.say(f"{await turn.signal('s')}")
        case "inbox" | "wait":
            messages = await turn.inbox(wait=step == "wait")
            await turn.say(" ".join(message.text for message in messages))
        case "approve":
            if (await turn.approval(refund.call(500))).granted:
                await turn.run(refund.call(500))
        case "wire":
            try:
                await turn.run(wire.call(1), on_uncertain="raise")
            except Uncertain as error:
                await turn.say(error.reason.kind)
        case "book":
            try:
                await turn.run(book.call(1))
            except ActivityError as error:
                await turn.say(error.failure.kind)
        case "artifact":
            await turn.artifact("prices", "7")
        case _:
            await turn.say(f"{turn.random()} {turn.uuid()}")


def hand_for(code: Any, *, always_replay: bool = False) -> Hand:
    """A session of this code, opened."""
    hand = Hand(code, *ACTIVITIES, always_replay=always_replay)
    hand.open("go")
    return hand


MOVES = (
    "result",
    "result",
    "result",
    "lose",
    "lose",
    "decide",
    "signal",
    "signal",
    "say",
    "wake",
    "no",
)


def move(hands: list[Hand], chance: random.Random) -> None:
    """Something happens to all of them: whatever fits the first, which are to be equal."""
    kind, pick, pause = (
        chance.choice(MOVES),
        chance.random(),
        chance.choice([0, 1_000, 60_000]),
    )
    for hand in hands:
        hand.now_ms += pause
        state: Any = hand.session.state
        if kind in ("result", "lose", "no") and state.activities:
            running = state.activities[int(pick * len(state.activities))]
            _answer(hand, running, kind)
        elif kind == "decide" and state.approvals:
            asked = state.approvals[int(pick * len(state.approvals))].proposal_id
            proposals = hand.bodies(r.ApprovalRequested)
            decision = "approve" if pick < 0.7 else "reject"
            hand.decide(decision, proposal=next(p for p in proposals if p.proposal_id == asked))
        elif kind == "signal":
            hand.signal("s", "x")
        elif kind == "say":
            hand.say("more")
        else:
            hand.wake()


def _answer(hand: Hand, running: Any, kind: str) -> None:
    once = running.name in ("wire", "book")
    if kind == "lose" and once:
        hand.lose(running.activity_id)
    elif running.name == "adds_up":
        hand.result(running.activity_id, kind != "no")
    else:
        hand.result(running.activity_id, 7 if running.name == "find_order" else "k")
