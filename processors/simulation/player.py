"""The workflow of the simulation: it plays a script, so that a seed can write any turn.

A message's text is a script such as `think sleep:2 refund:500 say:done`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pydantic import BaseModel

from ..activities.definitions import Action
from ..workflow.definitions import Message, workflow
from ..workflow.errors import (
    ActivityError,
    UnapprovedAction,
    Uncertain,
    VerificationFailed,
    WrongResult,
    WrongSignal,
)
from ..workflow.turn import Turn
from .boards import PRICES
from .bookings import book, reserve, unbook, unbook_dearly
from .lodgings import WORDS as LODGES
from .lodgings import lodge
from .nursery import WORDS, raise_children
from .tools import (
    bonus,
    charge,
    check_outcome,
    crunch,
    flaky,
    fragile,
    hire,
    pay,
    rebate,
    refund,
    ship,
    stuck,
    think,
    transfer,
    wire,
)


class Memory(BaseModel):
    """What survives between turns and stretches; `at` is the word to go on from, `loops` how often it was repeated."""

    turns: int = 0
    cents: int = 0
    answers: int = 0
    at: int = 0
    loops: int = 0


@workflow("player", version=1)
async def player(turn: Turn, memory: Memory, message: Message) -> Memory:
    """Plays the message's script, word by word."""
    cents, answers = memory.cents, memory.answers
    words = message.text.split()
    for at in range(memory.at, len(words)):
        step, _, argument = words[at].partition(":")
        if step == "refund":
            cents += await _refund(turn, int(argument))
        elif step == "bargain":  # what is proposed depends on what the model says
            answers += 1
            cents += await _refund(turn, 200 + await turn.run(think.call(argument)))
        elif step == "think":
            answers += 1
            await turn.say(f"{await turn.run(think.call(argument))}")
        elif step == "again":  # so many stretches from this word, each with a step of its own
            kept = Memory(turns=memory.turns, cents=cents, answers=answers)
            if memory.loops < int(argument):
                await turn.run(pay.call(memory.loops))
                return turn.again(kept.model_copy(update={"at": at, "loops": memory.loops + 1}))
            memory = memory.model_copy(update={"loops": 0})
        else:
            await _other(turn, step, argument)
    return Memory(turns=memory.turns + 1, cents=cents, answers=answers)


async def _refund(turn: Turn, cents: int) -> int:
    asked = await turn.approval(refund.call(cents))
    if not asked.granted:
        await turn.say("declined")
        return 0
    await turn.run(asked.action)
    return int(asked.action.arguments["cents"])


async def _ask_the_board(turn: Turn, step: str, cents: int) -> None:
    """What two must approve; or what relies on prices, and comes a moment after its approval."""
    if step == "rely":
        await turn.artifact(PRICES, f"v{turn.number}")
        asked = await turn.approval((rebate if cents % 2 else refund).call(cents))
        await turn.sleep(0.5)
    else:
        asked = await turn.approval(bonus.call(cents))
    if not asked.granted:
        await turn.say(f"{asked.decision} {asked.answer}")
        return
    try:
        await turn.say(await turn.run(asked.action))
    except UnapprovedAction:
        await turn.say("approved no more")


async def _other(turn: Turn, step: str, argument: str) -> None:
    match step:
        case "say":
            await turn.say(argument)
        case "sleep":
            await turn.sleep(float(argument))
            await turn.say(f"{turn.now():%H:%M:%S} {turn.uuid()}")
        case "pay":
            await turn.run(pay.call(int(argument)))
        case "ship":
            await turn.say(await turn.run(ship.call(int(argument))))
        case "flaky":
            try:
                await turn.say(f"{await turn.run(flaky.call(argument))}")
            except ActivityError as error:
                await turn.say(f"{error.failure.type} {turn.now():%H:%M:%S}")
        case "break":  # nobody catches it: the session fails
            await turn.run(fragile.call(argument))
        case "bonus" | "rely":
            await _ask_the_board(turn, step, int(argument))
        case "sneak":  # gated, and nobody asked
            await turn.run(refund.call(5_000))
        case "complete":
            await turn.complete({"outcome": argument})
        case "stuck" | "fragile" | "crunch" | "charge" | "wire" | "transfer" | "doubt":
            await _try(turn, step, argument)
        case "book" | "reserve" | "dear" | "committed" | "both-booked":
            await _book(turn, step, argument)
        case "raise" | "exit" | "cling" | "io":
            await _misbehave(turn, step, argument)
        case _:
            await _receive(turn, step, argument)


async def _try(turn: Turn, step: str, argument: str) -> None:
    """Runs it, and tells what came of it."""
    named: dict[str, Any] = {
        "stuck": stuck,
        "fragile": fragile,
        "crunch": crunch,
        "charge": charge,
        "wire": wire,
        "transfer": transfer,
    }
    try:
        if step == "doubt":  # the workflow decides what is to become of it
            await turn.say(await turn.run(wire.call(argument), on_uncertain="raise"))
        else:
            action: Action[Any] = named[step].call(argument)
            await turn.say(f"{await turn.run(action)}")
    except Uncertain as error:
        await turn.say(f"uncertain {error.key}")
    except ActivityError as error:
        await turn.say(error.failure.kind)


async def _book(turn: Turn, step: str, mood: str) -> None:
    """Does what is taken back should the session fail; what goes wrong with it is told, and the turn goes on."""
    try:
        match step:
            case "book":
                await turn.run(book.call(mood), compensate=unbook)
            case "reserve":
                await turn.run(reserve.call(mood), compensate=unbook)
            case "dear":
                await turn.run(book.call(mood), compensate=unbook_dearly)
            case "both-booked":
                first = turn.run(book.call(mood), compensate=unbook)
                await turn.gather(first, turn.run(reserve.call(mood), compensate=unbook))
            case _:
                await turn.committed()
    except ActivityError as error:
        await turn.say(error.failure.kind)


async def _receive(turn: Turn, step: str, argument: str) -> None:
    match step:
        case "signal":  # for a while
            won = await turn.first(turn.signal(argument), turn.sleep(1.5))
            await turn.say(f"{won.index} {won.value}")
        case "await":  # as long as it takes
            try:
                await turn.say(await turn.signal(argument, str))
            except WrongSignal:
                await turn.say("wrong signal")
        case "inbox":
            taken = await turn.inbox()
            await turn.say([message.text for message in taken])
        case "mail":
            won = await turn.first(turn.inbox(wait=True), turn.sleep(1))
            await turn.say([message.text for message in won.value or []])
        case "race":  # what loses is cancelled
            raced = await turn.first(turn.run(stuck.call("r")), turn.sleep(0.4), cancel=True)
            await turn.say(f"{raced.index}")
        case "hurry":  # what nobody decides in time is withdrawn
            decided = await turn.first(turn.approval(refund.call(700)), turn.sleep(1))
            await turn.say(f"{decided.index}")
        case "both":
            asked = turn.approval(refund.call(900))
            answer, verdict = await turn.gather(turn.run(crunch.call("steady")), asked)
            await turn.say(f"{answer} {verdict.decision}")
        case "version":
            await turn.say(f"{turn.version(argument)}")
        case "artifact":
            await turn.artifact(argument, f"v{turn.number}")
        case "verify":
            await turn.complete({"outcome": "ok"}, verify=check_outcome.call(argument))
        case "doublecheck":
            try:
                await turn.complete({"outcome": "ok"}, verify=check_outcome.call(argument))
            except VerificationFailed:
                await turn.say("not yet")
        case _:
            await _elsewhere(turn, step, argument)


async def _elsewhere(turn: Turn, step: str, argument: str) -> None:
    match step:
        case "found":  # set, set again, and taken back
            await turn.attributes({"mood": argument, "turn": turn.number, "size": 1.5})
            await turn.attributes({"mood": argument})
            await turn.sleep(0.2)
            if argument == "gone":
                await turn.attributes({"mood": None})
        case "job":  # handed out before it is awaited
            job = turn.job("dig", within=float(argument), expect=int)
            try:
                await turn.run(hire.call(job.id))
                await turn.say(f"{await job}")
            except (ActivityError, WrongResult) as error:
                await turn.say(str(error))
        case "errand":  # nobody waits for it to the end
            await turn.run(hire.call(turn.job("errand", within=float(argument)).id))
        case "contract":  # of two jobs the first that ends counts
            one, other = turn.job("one", within=float(argument)), turn.job("other", within="1s")
            try:
                await turn.gather(turn.run(hire.call(one.id)), turn.run(hire.call(other.id)))
                won = await turn.first(one, other)
                await turn.say(f"{won.index} {won.value}")
            except ActivityError as error:
                await turn.say(str(error))
        case _ if step in WORDS:
            await raise_children(turn, step, argument)
        case _ if step in LODGES:
            await lodge(turn, step, argument)
        case _:
            await turn.say(f"{step}?")


async def _misbehave(turn: Turn, step: str, argument: str) -> None:
    match step:
        case "raise":
            raise ValueError(argument)
        case "exit":
            sys.exit(argument)
        case "cling":  # catches what drops it, and still asks
            try:
                await turn.sleep(1)
            except BaseException:
                await turn.say("clings")
                raise
        case _:
            await asyncio.sleep(1)


@workflow("player", version=1)
async def changed_player(turn: Turn, memory: Memory, message: Message) -> Memory:
    """The same version with other steps: what a careless deploy brings."""
    await turn.say("before anything else")
    return await player.function(turn, memory, message)


@workflow("player", version=1)
async def guarded_player(turn: Turn, memory: Memory, message: Message) -> Memory:
    """The same version with a step more, behind a guard: what a careful deploy brings."""
    if turn.version("politeness"):
        await turn.say("good day")
    return await player.function(turn, memory, message)


def carried(stored: Any, version: int) -> Memory:
    """What the other version has left, which holds the same here; a version asks for nothing of its own."""
    if version not in (1, 2):
        raise ValueError(f"no version {version} has ever run")
    return Memory(**stored)


@workflow("player", version=2, upgrade=carried)
async def second_player(turn: Turn, memory: Memory, message: Message) -> Memory:
    """The next version, loaded beside the first: it takes other steps."""
    await turn.say("version two")
    return await player.function(turn, memory, message)
