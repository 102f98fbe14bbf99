"""What may stand in the place of an activity, and what comes of it."""

import asyncio
import threading
from unittest.mock import AsyncMock, Mock

import pytest
from pydantic import BaseModel

from tests.processors.desk import Desk, desk, find_order, refund, stubborn
from wakeful import ActivityError, Message, Read, Turn, activity, workflow
from wakeful.testing import KINDS, Misuse, rehearse


class Order(BaseModel):
    id: str
    cents: int = 0


@activity(contract=Read())
async def look_up(order_id: str, deep: bool = False, *, note: str = "") -> Order:
    """Never runs here."""
    raise NotImplementedError


@activity(contract=Read())
async def tags(order_id: str) -> list[str]:
    """Never runs here."""
    raise NotImplementedError


@activity(contract=Read(), timeout="20ms")
async def endless() -> None:
    """Runs until its time is up."""
    await asyncio.Event().wait()


@activity(contract=Read(), timeout="300ms")
def hung(released: bool) -> str:
    """A sync one: ends at once, or never."""
    if not released:
        threading.Event().wait()
    return threading.current_thread().name


@activity(contract=Read())
def impatient() -> None:
    """Raises what looks like a time-out of its attempt."""
    raise TimeoutError("the tool's own")


@workflow("orders", version=1)
async def orders(turn: Turn, desk: Desk, message: Message) -> Desk:
    """One call, and what came of it."""
    try:
        match message.text:
            case "tags":
                await turn.say({"tags": await turn.run(tags.call("7"))})
            case "endless":
                await turn.run(endless.call())
            case "impatient":
                await turn.run(impatient.call())
            case "hung" | "released":
                name = await turn.run(hung.call(message.text == "released"))
                await turn.say(f"{name == threading.current_thread().name}")
            case _:
                order = await turn.run(look_up.call(message.text, note="n"))
                await turn.say(f"{order.id} {order.cents}")
    except ActivityError as error:
        await turn.say(f"{error.failure.kind} {error.failure.type}")
    return desk


async def later(order_id, deep, *, note):
    await asyncio.sleep(0)
    return Order(id=order_id, cents=5)


@pytest.mark.parametrize(
    ("fake", "reply"),
    [
        (lambda order_id, deep, note: Order(id=f"{order_id}{deep}{note}", cents=1), "7Falsen 1"),
        (lambda *args, **kwargs: {"id": f"{args}{kwargs}"}, "('7', False){'note': 'n'} 0"),
        (Mock(return_value=Order(id="mock")), "mock 0"),
        (AsyncMock(return_value=Order(id="mock")), "mock 0"),
        (later, "7 5"),
        (Order(id="8", cents=9), "8 9"),
        ({"id": "8"}, "8 0"),
        (ValueError("no"), "raised ValueError"),
        (LookupError, "raised LookupError"),
        (Mock(side_effect=KeyError("k")), "raised KeyError"),
        ([Order(id="first")], "first 0"),
        ([ValueError("no")], "raised ValueError"),
        (look_up, "raised NotImplementedError"),
    ],
)
def test_a_fake_may_be(fake, reply) -> None:
    session = rehearse(orders, activities={"look_up": fake})
    session.send("7")
    assert session.replies == [reply]


def test_a_list_is_one_answer_per_call() -> None:
    session = rehearse(orders, activities={"tags": [["a"], RuntimeError(), lambda _: ["b", "c"]]})
    for _ in range(3):
        session.send("tags")
    assert session.replies == [{"tags": ["a"]}, "raised RuntimeError", {"tags": ["b", "c"]}]
    with pytest.raises(
        Misuse, match="the answers for 'tags' are used up, and it is called once more"
    ):
        session.send("tags")


def test_a_fake_gets_the_key_if_it_takes_one() -> None:
    keys = []
    session = rehearse(
        desk, activities={"find_order": 5, "refund": lambda cents, *, key: keys.append(key) or key}
    )
    session.send("go")
    assert keys == ["rehearsal/session-1/1/2"]


def test_an_assertion_in_a_fake_is_the_tests_own_word() -> None:
    def picky(cents):
        assert cents == 6

    session = rehearse(desk, activities={"find_order": 5, "refund": picky})
    with pytest.raises(AssertionError):
        session.send("go")
    assert session.waits[0].name == "refund"  # the call is still to be made
    session.fake("refund", "receipt")
    session.skip("1s")
    assert session.replies == ["refunded 5 as receipt"]


def test_a_fake_is_changed_on_the_way() -> None:
    session = rehearse(desk, activities={"find_order": 5, "refund": "a"})
    session.send("one")
    session.fake("refund", "b")
    session.send("two")
    assert session.replies == ["refunded 5 as a", "refunded 5 as b"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_call_fails_as_told_and_the_one_after_does_not(kind) -> None:
    session = rehearse(stubborn, activities={"find_order": 1})
    session.fail_next("find_order", kind=kind)
    session.send("go")
    session.send("go")
    assert session.replies == [kind]


def test_a_failure_that_nobody_handles_fails_the_session() -> None:
    session = rehearse(desk)
    session.fail_next("find_order", kind="timed_out", error_type="start_to_close", message="slow")
    session.send("go")
    assert session.status == "Failed"
    assert (session.failure.kind, session.failure.message) == ("timed_out", "slow")


def test_a_real_function_runs_under_its_own_time_out() -> None:
    session = rehearse(orders)
    session.send("endless")
    assert session.replies == ["timed_out start_to_close"]


def test_a_real_sync_function_runs_in_a_thread_under_its_own_time_out() -> None:
    session = rehearse(orders)
    for text in ("released", "hung", "impatient"):
        session.send(text)
    assert session.replies == ["False", "timed_out start_to_close", "raised TimeoutError"]


@pytest.mark.parametrize(
    ("fakes", "told"),
    [
        ({"find_ordr": 1}, r"no activity 'find_ordr' is known here .*did you mean 'find_order'\?"),
        ({"find_order": [5, lambda: 1]}, r"the fake of 'find_order' cannot take \(text\)"),
        ({"find_order": lambda: 1}, r"the fake of 'find_order' cannot take \(text\)"),
        ({"refund": lambda cents, order: 1}, r"the fake of 'refund' cannot take \(cents\)"),
    ],
)
def test_a_fake_that_cannot_stand_there_is_refused_at_once(fakes, told) -> None:
    with pytest.raises(Misuse, match=told):
        rehearse(desk, activities=fakes)


@pytest.mark.parametrize("fake", ["many", None, lambda _: "many", [object()]])
def test_a_fake_of_another_type_is_said_and_not_recorded(fake) -> None:
    session = rehearse(desk, activities={"find_order": fake})
    with pytest.raises(Misuse, match=r"the fake of 'find_order' gives .*, which is not what it"):
        session.send("go")
    assert "ActivityFailed" not in session.facts


def test_activities_given_by_hand_come_first() -> None:
    @activity(contract=Read(), name="find_order")
    async def other(text: str) -> int:
        return 1

    session = rehearse(desk, other, refund)
    session.send("a long text of an order")
    assert session.replies[0].startswith("refunded 1 as")
    assert find_order is not other


def test_a_fake_must_fit_the_code_that_is_deployed() -> None:
    @activity(contract=Read(), name="find_order")
    async def wider(text: str, shop: str) -> int:
        return 1

    session = rehearse(desk, activities={"find_order": lambda text: 5, "refund": "r"})
    with pytest.raises(Misuse, match=r"the fake of 'find_order' cannot take \(text, shop\)"):
        session.redeploy(desk, wider)
