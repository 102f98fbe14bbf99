"""What a step is given and cannot use holds the session in one short line, which names the value and the next step."""

import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel
from tests.processors.workflow.hands import Desk, Message, Turn, find_order, hand_of, kinds, refund

from wakeful import Read, activity, workflow
from wakeful.processors.workflow.driver import DETAIL_MAX
from wakeful.testing import Held, rehearse


class Broken:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("bad repr")


class Mute(RuntimeError):
    def __str__(self) -> str:
        raise RuntimeError("bad str")


class Exits(RuntimeError):
    """Asks its process to end, whatever is asked of it."""

    def __str__(self) -> str:
        raise SystemExit

    @property
    def __notes__(self) -> list[str]:
        raise SystemExit


class Told(BaseModel):
    text: str = Field("hello", alias="theText")
    at: datetime = datetime(2026, 11, 30, tzinfo=UTC)


class Word(RootModel[str]):
    pass


class Loose(BaseModel):
    at: dict[str, Any] = {}


class Rate(BaseModel):
    per_cent: float


class Name(StrEnum):
    paid = "paid"


@activity(contract=Read())
async def weigh(grams: float) -> float:
    return grams


Given = Callable[[Turn], Awaitable[Any]]


def misuses(step: Given) -> str:
    """What the hold says."""

    async def misuse(turn: Turn, desk: Desk, message: Message) -> Desk:
        await step(turn)
        return desk

    out = hand_of(misuse).open()
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_misuse")
    assert "\n" not in out[-1].detail
    assert len(out[-1].detail) <= DETAIL_MAX
    return str(out[-1].detail).removeprefix("workflow desk: ")


async def returns(turn: Turn, desk: Desk, message: Message) -> Any:
    return Broken()


async def goes_again(turn: Turn, desk: Desk, message: Message) -> Any:
    await turn.sleep(0)
    turn.again(Broken())
    return desk


WRONG: list[tuple[Any, str]] = [
    (lambda t: t.inbox(wait="30s"), "turn.inbox was given wait='30s': write wait=True or wait="),
    (lambda t: t.inbox(wait=1), "turn.inbox was given wait=1: write"),
    (lambda t: t.first(t.sleep(1), cancel="no"), "turn.first was given cancel='no': write cancel="),
    (lambda t: t.first(t.sleep(1), cancel=Broken()), "cancel=<Broken, whose repr raises"),
    (lambda t: t.first(), "turn.first was given nothing to wait for: give it one awaitable"),
    (lambda t: t.sleep("hello"), "turn.sleep: 'hello' is not a duration: write it like"),
    (lambda t: t.sleep(-1), "turn.sleep: -1 is out of range"),
    (lambda t: t.sleep(10**5000), "turn.sleep: <int of 16610 bits> is out of range"),
    (lambda t: t.sleep(Broken()), "turn.sleep: <Broken, whose repr raises RuntimeError> is not a"),
    (lambda t: t.sleep("x" * 2_000_000), "turn.sleep: 'xxx"),
    (
        lambda t: t.say({1, 2}),
        "turn.say was given {1, 2}, which cannot be stored (the value has no",
    ),
    (
        lambda t: t.say([math.nan]),
        "turn.say was given [nan], which cannot be stored (the value has",
    ),
    (lambda t: t.say({"a": Told()}), "is JSON after model_dump(mode='json')"),
    (lambda t: t.say({(1, 2): 3}), "json keys are text, got (1, 2) (tuple): make a text of it"),
    (lambda t: t.say(Rate(per_cent=math.inf)), "turn.say was given Rate(per_cent=inf), which"),
    (lambda t: t.say(Loose(at={"x": math.nan})), "cannot be stored (field 'at.x' holds a number"),
    (lambda t: t.complete(Loose(at={"x": math.inf})), "cannot be stored (field 'at.x' holds a"),
    (lambda t: t.say(10**5000), "turn.say was given <int of 16610 bits>, which cannot be stored"),
    (lambda t: t.say(Broken()), "turn.say was given <Broken, whose repr raises RuntimeError>"),
    (lambda t: t.complete(datetime(2026, 1, 1)), "turn.complete was given datetime.datetime(2026"),
    (lambda t: t.run(refund.call("many")), "cents: Input should be a valid integer, unable"),
    (lambda t: t.run(refund.call()), ": missing a required argument: 'cents'"),
    (
        lambda t: t.run(weigh.call(math.nan)),
        "weigh(grams: float) -> float: field 'grams' holds a number that JSON",
    ),
    (
        lambda t: t.approval(refund.call(Broken())),
        "refund(cents: 'int') -> 'str': cents: Input should",
    ),
    (lambda t: t.run(Broken()), "turn.run takes an action, got <Broken, whose repr raises"),
    (lambda t: t.gather(t.sleep(1), Broken()), "take awaitables such as turn.run(…), got <Broken"),
    (lambda t: t.signal(Broken()), "signal name <Broken, whose repr raises RuntimeError> is not"),
    (
        lambda t: t.signal("x", Broken()),
        "turn.signal was given the type <Broken, whose repr raises",
    ),
    (lambda t: t.complete(1, verify=Broken()), "verify=<Broken, whose repr raises RuntimeError>"),
]


@pytest.mark.parametrize(("step", "told"), WRONG, ids=[told for _, told in WRONG])
@pytest.mark.filterwarnings("ignore:coroutine 'Turn.sleep' was never awaited")
def test_the_hold_is_one_line_that_names_the_value(step: Given, told: str) -> None:
    assert told in misuses(step)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (returns, "it returned <Broken, whose repr raises RuntimeError>: return the Desk"),
        (goes_again, "it called turn.again and returned another object, Desk("),
    ],
)
def test_so_is_what_is_returned(function: Any, told: str) -> None:
    hand = hand_of(function)
    out = hand.open()
    while not out or kinds(out)[-1] == "SessionWaiting":
        out = hand.wake()
    assert out[-1].reason == "workflow_misuse"
    assert told in out[-1].detail


@pytest.mark.parametrize("kind", [Mute, Exits])
def test_an_error_that_cannot_be_told_is_the_workflows_own(kind: type[Exception]) -> None:
    async def raises(turn: Turn, desk: Desk, message: Message) -> Desk:
        raise kind

    assert hand_of(raises).open()[-1].reason == "workflow_raised"


def test_models_are_said_and_completed_with_as_their_json_by_alias() -> None:
    @workflow("desk", version=1)
    async def tells(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(Told())
        await turn.say(Word("a word"))
        await turn.complete(Told(theText="bye"))
        return desk

    session = rehearse(tells)
    session.send("go")
    at = "2026-11-30T00:00:00Z"
    assert session.replies == [{"theText": "hello", "at": at}, "a word"]
    assert session.outcome == {"theText": "bye", "at": at}


def test_gathering_nothing_gives_nothing_at_once_and_records_nothing() -> None:
    seen: list[Any] = []

    async def gathers(turn: Turn, desk: Desk, message: Message) -> Desk:
        seen.append(await turn.gather(*(turn.run(find_order.call(x)) for x in [])))
        seen.append(await turn.gather(turn.gather(), turn.sleep("1m")))
        return desk

    hand = hand_of(gathers, always_replay=True)
    out = hand.open()
    assert [kind for kind in kinds(out) if kind not in ("SessionOpened", "MessageReceived")] == [
        "TurnStarted",
        "TimerSet",
        "SessionWaiting",
    ]
    hand.now_ms += 60_000
    assert kinds(hand.wake())[-1] == "TurnCompleted"
    assert seen[-1] == ((), None)
    assert all(each == () for each in seen[:-1])


def test_a_member_of_an_enumeration_of_texts_is_a_name() -> None:
    @workflow("desk", version=1)
    async def waits(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.artifact(Name.paid, Name.paid)
        await turn.say(await turn.signal(Name.paid))
        return desk

    session = rehearse(waits)
    session.send("go")
    session.signal("paid", "700")
    assert session.replies == ["700"]


def test_the_first_hold_of_a_gather_does_not_wait_for_the_others() -> None:
    @workflow("desk", version=1)
    async def gathers(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.gather(turn.sleep("1h"), turn.sleep("soon"))
        return desk

    with pytest.raises(Held, match="'soon' is not a duration"):
        rehearse(gathers).send("go")
