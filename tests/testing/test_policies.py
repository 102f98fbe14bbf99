"""A rehearsal under a published policy set: who may decide, what is withheld, and what untrusted content leads to."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from wakeful import ActivityError, Message, Needs, Read, Retry, Turn, Write, activity, workflow
from wakeful.testing import Misuse, Refused, Rehearsal, rehearse

FREEZE = """@id("frozen") forbid (principal, action == Action::"execute", resource == Tool::"refund")
unless { context.approved_by.contains(Actor::"rehearsal/dora") };"""
SUE = {"supervisor": ["sue"], "reviewer": ["rob"]}


class State(BaseModel):
    """None."""


@activity(
    contract=Write(idempotent=True),
    approval=Needs("supervisor"),
    retry=Retry(attempts=3, initial="1m", factor=1),
)
async def refund(cents: int, *, key: str) -> str:
    """Pays."""
    return f"{cents} paid"


@workflow("desk", version=1)
async def desk(turn: Turn, state: State, message: Message) -> State:
    """Asks and pays."""
    asked = await turn.approval(refund.call(25_000))
    if asked.granted:
        await turn.say(await turn.run(asked.action))
    return state


@activity(contract=Read(), untrusted=True)
async def read_page(url: str) -> str:
    """Of a stranger."""
    return f"the page of {url}"


@activity(contract=Write(idempotent=True))
async def post(text: str, *, key: str) -> str:
    """No rule asks anybody."""
    return "posted"


@workflow("browser", version=1)
async def browser(turn: Turn, state: State, message: Message) -> State:
    """Does what a page says."""
    page = await turn.run(read_page.call(message.text))
    try:
        await turn.say(await turn.run(post.call(page)))
    except ActivityError as error:
        await turn.say(error.failure.message)
    return state


def asking() -> Rehearsal:
    session = rehearse(desk)
    session.publish(roles=SUE)
    session.send("it broke", by="ann")
    return session


def test_who_has_no_role_may_not_decide_and_who_has_it_may() -> None:
    session = asking()
    with pytest.raises(Refused, match="no policy permits it"):
        session.approve(by="eve")
    session.approve(by="sue")
    assert session.replies == ["25000 paid"]


@pytest.mark.parametrize("crashes", [False, True])
def test_what_policy_forbids_by_now_is_withheld_and_asked_again(crashes: bool) -> None:
    session = asking()
    session.fail_next("refund")
    session.approve(by="sue")
    if crashes:
        session.crash_everywhere()
    session.publish(FREEZE, roles=SUE)
    session.skip("1m")
    assert session.status == "Waiting"
    assert {(owed.kind, owed.name) for owed in session.waits} == {
        ("activity", "refund"),
        ("approval", "refund"),
    }
    session.publish(roles=SUE)
    session.approve(by="sue")
    assert session.replies == ["25000 paid"]
    assert session.facts.count("ApprovalVoided") == 1


def test_another_process_decides_by_the_set_that_was_published() -> None:
    session = asking()
    session.redeploy(desk)
    with pytest.raises(Refused, match="no policy permits it"):
        session.approve(by="eve")


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_what_untrusted_content_led_to_waits_for_a_reviewer(word: str) -> None:
    session = rehearse(browser)
    session.publish(roles=SUE)
    session.send("http://x")
    assert session.tainted_by == ("read_page",)
    assert session.calls("post") == []
    getattr(session, word)(by="rob")
    told = {"approve": "posted", "reject": "post was not carried out: rob rejected it"}
    assert session.replies == [told[word]]


def test_policies_may_look_at_the_arguments_that_a_test_declares() -> None:
    session = rehearse(desk)
    session.publish(
        """@id("large") forbid (principal, action == Action::"decide", resource == Tool::"refund")
        when { context.arguments has cents && context.arguments.cents > 10000 }
        unless { principal in Role::"rehearsal/director" };""",
        roles=SUE | {"director": ["dora"]},
        arguments={"refund": {"cents": "Long"}},
    )
    session.send("it broke", by="ann")
    with pytest.raises(Refused, match="forbidden by large"):
        session.approve(by="sue")


def test_a_set_that_cannot_be_published_says_why() -> None:
    session = rehearse(desk)
    with pytest.raises(Misuse, match=r"cannot be published: .*nonsense"):
        session.publish('@id("nonsense") permit (principal, action == Action::"dance", resource);')
    with pytest.raises(Misuse, match="a list of names"):
        session.publish(roles={"supervisor": "sue"})
    with pytest.raises(Misuse, match="roles= is a mapping"):
        session.publish(roles=["sue"])  # type: ignore[arg-type]
