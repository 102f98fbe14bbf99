"""Rehearsed activities keep their contracts: what may be called again is, what can be looked up is, the rest is not."""

from pydantic import BaseModel

from wakeful import ActivityError, Message, NothingDone, Retry, Turn, Write, activity, workflow
from wakeful.testing import rehearse

SENT: dict[str, str] = {}
FOUND: list[str] = []


class Desk(BaseModel):
    pass


async def find(key: str) -> str | None:
    FOUND.append(key)
    return SENT.get(key)


@activity(contract=Write(lookup=find), retry=Retry(attempts=2, initial="1s"))
async def send(to: str, *, key: str) -> str:
    return SENT.setdefault(key, f"sent to {to}")


@activity(contract=Write())
async def wire(to: str) -> str:
    return to


@workflow("post", version=1)
async def post(turn: Turn, desk: Desk, message: Message) -> Desk:
    """One write, by the name of its contract."""
    try:
        name, _, to = message.text.partition(" ")
        await turn.say(await turn.run((send if name == "send" else wire).call(to)))
    except ActivityError as error:
        await turn.say(error.failure.kind)
    return desk


def test_after_a_crash_the_real_look_up_is_asked_and_finds_it() -> None:
    SENT.clear()
    FOUND.clear()
    session = rehearse(post)
    session.crash_at(1)
    session.send("send ann")
    assert session.replies == ["sent to ann"]
    assert len(session.calls("send")) == len(FOUND) == len(SENT) == 1


def test_after_a_crash_a_fake_is_not_called_again_once_it_has_answered() -> None:
    FOUND.clear()
    session = rehearse(post, activities={"send": ["done"]})
    session.crash_at(1)
    session.send("send ann")
    assert session.replies == ["done"]
    assert (len(session.calls("send")), FOUND) == (1, [])


def test_nothing_done_is_a_failure_for_certain_raised_or_on_demand() -> None:
    session = rehearse(post, activities={"wire": NothingDone("closed")})
    session.send("wire ann")
    session.fail_next("wire", "nothing_done")
    session.send("wire ann")
    assert session.replies == ["nothing_done"] * 2


def test_after_a_crash_what_is_called_at_most_once_is_not_called_again() -> None:
    session = rehearse(post, activities={"wire": "done"})
    session.crash_at(1)
    session.send("wire ann")
    assert len(session.calls("wire")) == 1
    assert session.replies == []
    session.answer("wire", "found in the bank's books")
    assert session.replies == ["found in the bank's books"]


def test_crashes_everywhere_spare_what_is_called_at_most_once() -> None:
    session = rehearse(post, activities={"wire": "done"})
    session.crash_everywhere()
    session.send("wire ann")
    assert (session.replies, len(session.calls("wire"))) == (["done"], 1)
