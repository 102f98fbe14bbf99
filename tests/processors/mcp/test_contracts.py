"""From claims and reviews to contracts, and what becomes of a session under each."""

import pytest

from wakeful import ActivityError, Message, Needs, Read, Turn, Write, workflow
from wakeful.agents import AgentLoop, ScriptedModel, ToolCall
from wakeful.mcp import Claims
from wakeful.processors.mcp.claims import Said, terms_of
from wakeful.testing import rehearse

READ, AGAIN, ONCE = Read(), Write(idempotent=True), Write()


@pytest.mark.parametrize(
    ("claims", "contract", "gated"),
    [
        ({"read_only": True}, READ, False),
        ({"read_only": True, "destructive": False}, READ, False),
        ({"read_only": True, "destructive": True}, ONCE, True),
        ({"read_only": True, "idempotent": True}, READ, False),
        ({"read_only": False}, ONCE, True),
        ({"idempotent": True, "destructive": False}, AGAIN, False),
        ({"idempotent": True}, AGAIN, True),
        ({"idempotent": True, "destructive": True}, ONCE, True),
        ({"destructive": False}, ONCE, False),
        ({"destructive": True}, ONCE, True),
        ({}, ONCE, True),
    ],
)
def test_what_a_trusted_server_claims_counts_and_a_strangers_word_does_not(claims, contract, gated):
    terms = terms_of(Claims(**claims), Said(), trusted=True, approver="sue")
    assert (terms.contract, terms.approval) == (contract, Needs("sue") if gated else None)
    assert not terms.untrusted
    strange = terms_of(Claims(**claims), Said(), trusted=False, approver="sue")
    assert (strange.contract, strange.approval, strange.untrusted) == (ONCE, Needs("sue"), True)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    ("said", "contract", "approver"),
    [
        ({"contract": "read"}, READ, None),
        ({"contract": "idempotent", "approver": "nobody"}, AGAIN, None),
        ({"contract": "once", "approver": "owner"}, ONCE, "owner"),
        ({"approver": "nobody"}, ONCE, None),
    ],
)
def test_what_people_say_counts_in_any_case(said, contract, approver, trusted):
    terms = terms_of(Claims(destructive=True), Said(**said), trusted=trusted, approver="sue")
    assert (terms.contract, terms.approval) == (contract, Needs(approver) if approver else None)


def test_what_comes_of_an_open_world_is_nobodys_word():
    open_world = Claims(read_only=True, open_world=True)
    assert terms_of(open_world, Said(), trusted=True, approver="sue").untrusted
    mended = terms_of(open_world, Said(untrusted=False), trusted=True, approver="sue")
    assert not mended.untrusted


def calling(tool, **arguments):
    @workflow("caller", version=1)
    async def caller(turn: Turn, state: None, message: Message) -> None:
        asked = await turn.approval(tool.call(**arguments))
        if not asked.granted:
            return
        try:
            await turn.say(await turn.run(asked.action))
        except ActivityError as error:
            await turn.say(f"{error.failure.kind}: {error.failure.type.rpartition('.')[2]}")

    return rehearse(caller)


def test_a_read_whose_server_died_is_asked_again(stranger):
    session = calling(stranger.server()["die_once"], n=1)
    session.send("go")
    session.skip("1m")
    assert session.replies == ["here again"]
    assert stranger.noted("calls") == ["die_once", "die_once"]


def test_a_write_whose_server_died_is_uncertain_and_not_made_again(stranger):
    session = calling(stranger.server()["pay_and_die"], n=1)
    session.send("go")
    session.approve(by="supervisor")
    session.skip("2h")
    assert [(wait.kind, wait.name) for wait in session.waits] == [("uncertain", "them_pay_and_die")]
    assert stranger.noted("calls") == ["pay_and_die"]
    session.resolve(None, "paid", by="ann")
    assert session.replies == ["paid"]


def test_a_write_is_called_with_its_key(stranger):
    session = calling(stranger.server()["pay"], n=1)
    session.send("go")
    session.approve(by="supervisor")
    assert session.replies == [f"pay 1 {session.calls('them_pay')[0].key}"]


def test_a_claim_that_lies_is_mended_by_a_line_of_the_manifest(stranger):
    """It says that it only reads, and pays: nobody asks, until people say otherwise."""
    lied = stranger.server()["read"]
    assert (lied.contract, lied.approval) == (Read(), None)
    stranger.said("read", 'contract = "once"\napprover = "owner"')
    session = calling(stranger.server()["read"], n=1)
    session.send("go")
    assert [(wait.kind, wait.name) for wait in session.waits] == [("approval", "them_read")]
    assert stranger.noted("calls") == []
    session.reject(by="owner")


def test_a_failure_that_a_tool_tells_is_not_tried_again(stranger):
    session = calling(stranger.server()["fail"])
    session.send("go")
    session.skip("1h")
    assert session.replies == ["raised: ToolFailed"]
    assert stranger.noted("calls") == ["fail"]


def test_what_has_drifted_fails_for_certain_whatever_its_contract(stranger):
    stranger.said("read", 'contract = "once"\napprover = "nobody"')
    session = calling(stranger.server("drift")["read"], n=1)
    session.send("go")
    assert session.replies == ["nothing_done: SchemaChanged"]


def test_an_agent_calls_the_tools_and_a_strangers_answer_taints_its_session(stranger):
    stranger.said("read", 'contract = "read"')
    script = [
        ToolCall("", "them_read", {"n": "1"}),
        ToolCall("", "them_read", {"n": 1}),
        "one it is",
    ]
    desk = AgentLoop(
        name="desk",
        version=1,
        model=ScriptedModel(script),
        prompt="Count.",
        tools=stranger.server(trusted=False).tools,
    )
    session = rehearse(desk)
    session.send("How many?")
    results = [said.content for said in session.state.messages if said.role == "tool"]
    assert "Not carried out: the arguments of them_read do not fit" in results[0]
    assert results[1].startswith("read 1")
    assert session.replies == ["one it is"]
    assert session.tainted_by == ("them_read",)
