"""Decisions on proposals: approved by one or several, edited, answered, void when what they were made from changes."""

import pytest

from wakeful import Message, Needs, Read, Turn, Write, activity, workflow
from wakeful.commands.models import DecideApproval
from wakeful.events import records as r
from wakeful.processors.activities.signatures import Declined
from wakeful.processors.workflow.errors import UnapprovedAction
from wakeful.testing import Refused, rehearse


@activity(contract=Read())
async def price(order: str) -> int:
    return 500


@activity(contract=Write(idempotent=True), approval=Needs("boss", expires="1h"))
async def pay(order: str, cents: int, note: str = "", *, key: str) -> str:
    return f"{cents} for {order}{note and f' ({note})'} as {key}"


@activity(
    contract=Write(idempotent=True),
    approval=Needs("board", expires="1h", quorum=2, four_eyes=True),
)
async def wire(cents: int, *, key: str) -> str:
    return f"wired {cents}"


@workflow("payer", version=1)
async def payer(turn: Turn, paid: list, message: Message) -> list:
    """Relies on the order's version, asks, and runs what was approved."""
    cents = await turn.run(price.call("o1"))
    await turn.artifact("order o1", "v1")
    asked = await turn.approval(pay.call("o1", cents))
    if not asked.granted:
        await turn.say({"decision": asked.decision, "by": asked.actor, "answer": asked.answer})
        return paid
    return [*paid, await turn.run(asked.action)]


@workflow("stubborn", version=1)
async def stubborn(turn: Turn, paid: list, message: Message) -> list:
    """Runs what it asked for, whatever was approved."""
    action = pay.call("o1", 500)
    await turn.approval(action)
    return [*paid, await turn.run(action)]


@workflow("wirer", version=1)
async def wirer(turn: Turn, wired: list, message: Message) -> list:
    asked = await turn.approval(wire.call(900))
    return [*wired, await turn.run(asked.action) if asked.granted else asked.decision]


@workflow("sleeper", version=1)
async def sleeper(turn: Turn, paid: list, message: Message) -> list:
    """An hour between the approval and the action, and as often as it takes."""
    await turn.artifact("order o1", "v1")
    while True:
        asked = await turn.approval(pay.call("o1", 500))
        if not asked.granted:
            return [*paid, asked.decision]
        await turn.sleep("1h")
        try:
            return [*paid, await turn.run(asked.action)]
        except UnapprovedAction as stale:
            await turn.say(stale.failure.message)


def facts(session, *kinds):
    return [one for one in session.events if isinstance(one, kinds)]


def open_proposal(session):
    return session._state.approvals[-1]


def started(name, by="customer"):
    session = rehearse(payer, stubborn, wirer, sleeper, price, pay, wire, workflow=name)
    session.send("go", by=by)
    return session


def test_an_edit_voids_the_proposal_and_runs_what_the_approver_made_of_it():
    session = started("payer")
    shown = open_proposal(session)
    session.edit({"order": "o1", "cents": 300}, by="boss", comment="half of it")
    assert session.state == ["300 for o1 as rehearsal/session-1/1/4"]
    [voided] = facts(session, r.ApprovalVoided)
    assert (voided.proposal_id, voided.reason) == (shown.proposal_id, "edited")
    assert voided.drift == ("boss changed the arguments: half of it",)
    first, fresh = facts(session, r.ApprovalRequested)
    assert (fresh.supersedes, fresh.step) == (first.proposal_id, first.step)
    [granted], [ran] = facts(session, r.ApprovalGranted), facts(session, r.ActivityRequested)[-1:]
    assert granted.digest == fresh.digest == ran.digest != first.digest
    assert ran.proposal_id == granted.proposal_id == fresh.proposal_id


def test_an_approval_of_an_edited_action_is_none_of_the_one_before():
    session = started("stubborn")
    session.edit({"order": "o1", "cents": 300})
    assert session.status == "Failed"
    assert session.failure.kind == "unapproved_action"
    assert facts(session, r.ActivityRequested) == []


@pytest.mark.parametrize(
    ("arguments", "reason", "told"),
    [
        ({"order": "o1", "cents": "much"}, "wrong_arguments", "cents"),
        ({"cents": 1}, "wrong_arguments", "order"),
        ({"order": "o1", "cents": 1, "tip": 2}, "wrong_arguments", "tip"),
        ({"order": "o1", "cents": True}, "wrong_arguments", "'cents' is true and would become 1: "),
        ({"order": "o1", "cents": "7"}, "wrong_arguments", "'cents' is \"7\" and would become 7: "),
        ({"order": "o1", "cents": 500}, "not_edited", "those that were shown"),
        ({"order": "o1", "cents": 500.0}, "not_edited", "those that were shown"),
    ],
)
def test_an_edit_must_be_one_that_the_tool_can_take(arguments, reason, told):
    session = started("payer")
    with pytest.raises(Refused, match=reason) as refused:
        session.edit(arguments)
    assert told in str(refused.value)
    session.approve()
    assert session.state == ["500 for o1 as rehearsal/session-1/1/4"]


def test_an_answer_goes_to_the_workflow_and_grants_nothing():
    session = started("payer")
    session.respond("ask for the invoice first", by="boss")
    assert session.replies[-1] == {
        "decision": "answered",
        "by": "boss",
        "answer": "ask for the invoice first",
    }
    assert facts(session, r.ApprovalGranted) == []


def test_a_quorum_takes_different_people_and_none_of_them_is_the_requester():
    session = started("wirer", by="rita")
    with pytest.raises(Refused, match="own_request"):
        session.approve(by="rita")
    session.approve(by="ann")
    with pytest.raises(Refused, match="already_voted"):
        session.approve(by="ann")
    assert (session.status, session.state) == ("Waiting", [])
    session.approve(by="bob")
    assert session.state == ["wired 900"]
    assert [type(one) for one in facts(session, r.ApprovalVoted, r.ApprovalGranted)] == [
        r.ApprovalVoted,
        r.ApprovalGranted,
    ]


def test_one_no_is_enough_and_may_be_the_requesters():
    session = started("wirer", by="rita")
    session.approve(by="ann")
    session.reject(by="rita")
    assert session.state == ["rejected"]


def test_an_edit_needs_the_other_voters_anew():
    session = started("wirer", by="rita")
    session.approve(by="ann")
    with pytest.raises(Refused, match="own_request"):
        session.edit({"cents": 800}, by="rita")
    session.edit({"cents": 800}, by="bob")
    assert session.status == "Waiting"
    with pytest.raises(Refused, match="already_voted"):
        session.approve(by="bob")
    session.approve(by="ann")
    assert session.state == ["wired 800"]


def test_a_change_of_what_it_was_made_from_voids_a_proposal_and_asks_anew():
    session = started("payer")
    shown = open_proposal(session)
    session.change_artifact("order o1", "v2")
    assert (session.status, len(session.waits)) == ("Waiting", 1)
    fresh = open_proposal(session)
    assert shown.digest != fresh.digest
    [voided] = facts(session, r.ApprovalVoided)
    assert voided.drift == ("order o1 was v1 and is v2 now",)
    late = DecideApproval(shown.proposal_id, shown.digest, "approve", "")
    with pytest.raises(Refused, match="already_decided"):
        session._command(late, actor="boss")
    session.approve()
    assert session.state == ["500 for o1 as rehearsal/session-1/1/4"]


def test_a_change_of_something_else_leaves_the_proposal_as_it_is():
    session = started("payer")
    shown = open_proposal(session)
    with pytest.raises(Refused, match="unknown_artifact"):
        session.change_artifact("order o2", "v2")
    with pytest.raises(Refused, match="same_version"):
        session.change_artifact("order o1", "v1")
    assert open_proposal(session) == shown


def test_what_was_approved_before_a_change_does_not_run_after_it():
    session = started("sleeper")
    session.approve()
    session.change_artifact("order o1", "v2")
    session.skip("1h")
    assert "since order o1 was v1 and is v2 now" in session.replies[-1]
    session.approve()
    session.skip("1h")
    assert session.state == ["500 for o1 as rehearsal/session-1/1/7"]


def test_a_voided_proposal_expires_at_its_own_time():
    session = started("payer")
    session.skip("50m")
    session.change_artifact("order o1", "v2")
    session.skip("50m")
    assert session.status == "Waiting"
    session.expire()
    assert session.replies[-1]["decision"] == "expired"


@pytest.mark.parametrize("step", range(1, 5))
def test_a_crash_anywhere_changes_nothing_of_this(step):
    calm, rough = started("payer"), rehearse(payer, price, pay, workflow="payer")
    rough.crash_at(step, turn=1)
    rough.send("go")
    for session in (calm, rough):
        session.change_artifact("order o1", "v2")
        session.edit({"order": "o1", "cents": 300}, by="boss")
    assert rough.state == calm.state


@pytest.mark.parametrize("quorum", [0, 21, True, 1.5])
def test_a_rule_that_nobody_could_meet_is_declined(quorum):
    with pytest.raises(Declined, match="quorum="):
        activity(contract=Read(), approval=Needs("boss", quorum=quorum))(lambda: None)


def test_four_eyes_is_yes_or_no():
    with pytest.raises(Declined, match="four_eyes="):
        activity(contract=Read(), approval=Needs("boss", four_eyes="yes"))(lambda: None)
