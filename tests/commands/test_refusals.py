"""A refusal names what was asked, what there is, and what to do next."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.commands.check import check
from wakeful.commands.opening import check_unknown
from wakeful.events.payloads import json_payload
from wakeful.events.state import (
    Decided,
    Head,
    OpenApproval,
    SessionState,
    Settled,
    State,
    Uncertain,
)
from wakeful.events.verdicts import APPROVE, COMPLETED, FAILED

HEADER = m.CommandHeader("acme", "s1", "c1", 1_000, "user:ann", None, "http", None)
PAID = json_payload({"paid": True}, b"k")

STATE = State(
    "desk",
    status="Waiting",
    uncertain=(Uncertain("1.2", 2, "pay", 1, "cut off"),),
    settled=(Settled("1.1", 1, COMPLETED, b""),),
    approvals=(OpenApproval("1.3-ab", 3, "refund", b"\x01", "supervisor", 9_000),),
    decided=(Decided("1.0-cd", "approved", "sue"),),
)

REFUSALS = {
    "opened twice": (
        m.OpenSession("other"),
        "already_open",
        "session 's1' exists already (workflow 'desk'): send it a message, or open one with another id",
    ),
    "not held": (
        m.ReleaseSession(""),
        "not_held",
        "the session is waiting and not held: there is nothing to release, go on without",
    ),
    "a word that is no resolution": (
        m.ResolveActivity("1.2", "done", None, ""),
        "unknown_resolution",
        "resolution 'done' is neither 'completed' nor 'failed': say which it was",
    ),
    "completed without a result": (
        m.ResolveActivity("1.2", COMPLETED, None, ""),
        "wrong_result",
        "activity '1.2' is resolved as 'completed' without a result: give what it would have returned",
    ),
    "failed with a result": (
        m.ResolveActivity("1.2", FAILED, PAID, ""),
        "wrong_result",
        "activity '1.2' is resolved as 'failed' with a result: leave the result out",
    ),
    "settled before": (
        m.ResolveActivity("1.1", FAILED, None, ""),
        "already_settled",
        "activity '1.1' is completed already: nothing is left to resolve",
    ),
    "another activity": (
        m.ResolveActivity("7.7", FAILED, None, ""),
        "not_uncertain",
        "activity '7.7' is not uncertain here (uncertain: 1.2): resolve one of these",
    ),
    "a word that is no decision": (
        m.DecideApproval("1.3-ab", b"\x01", "maybe", ""),
        "unknown_decision",
        "decision 'maybe' is none of approve, reject, edit, respond: say one of them",
    ),
    "decided before": (
        m.DecideApproval("1.0-cd", b"\x01", APPROVE, ""),
        "already_decided",
        "1.0-cd was approved by sue, and that stands: look at what became of it",
    ),
    "another proposal": (
        m.DecideApproval("7.7-ef", b"\x01", APPROVE, ""),
        "unknown_proposal",
        "no proposal '7.7-ef' is open here (open: 1.3-ab): decide one of these",
    ),
}


@pytest.mark.parametrize(
    ("decision", "actor", "told"),
    [
        ("approved", "sue", "was approved by sue"),
        ("rejected", "sue", "was rejected by sue"),
        ("answered", "sue", "was answered by sue"),
        ("withdrawn", "", "was withdrawn"),
        ("expired", "", "has expired"),
        ("voided", "sue", "is void"),
    ],
)
def test_how_a_proposal_ended_is_said_in_a_sentence(decision: str, actor: str, told: str) -> None:
    state = replace(STATE, decided=(Decided("1.0-cd", decision, actor),))
    body = m.DecideApproval("1.0-cd", b"\x01", APPROVE, "")
    refusal = check(SessionState(Head(seq=9), state), m.Command(HEADER, body), b"hash", 1_000)
    assert refusal is not None
    assert refusal.detail.startswith(f"1.0-cd {told}, and that stands: ")


@pytest.mark.parametrize(("body", "reason", "detail"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_what_to_do_next(body: m.CommandBody, reason: str, detail: str) -> None:
    refusal = check(SessionState(Head(seq=9), STATE), m.Command(HEADER, body), b"hash", 1_000)
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (reason, detail)


def test_where_nothing_is_open_that_is_what_is_said() -> None:
    session = SessionState(Head(seq=9), replace(STATE, uncertain=(), approvals=()))
    resolving = m.Command(HEADER, m.ResolveActivity("7.7", FAILED, None, ""))
    deciding = m.Command(HEADER, m.DecideApproval("7.7-ef", b"\x01", APPROVE, ""))
    refusals = [check(session, command, b"hash", 1_000) for command in (resolving, deciding)]
    assert [refusal and refusal.detail for refusal in refusals] == [
        "activity '7.7' is not uncertain here (uncertain: none): nothing is to be resolved",
        "no proposal '7.7-ef' is open here (open: none): nothing is to be decided",
    ]


def test_a_workflow_that_is_not_loaded_is_told_with_those_that_are() -> None:
    refusal = check_unknown(m.Command(HEADER, m.OpenSession("other")), frozenset({"desk"}), 0)
    assert refusal is not None
    assert (
        refusal.detail
        == "no workflow 'other' is loaded here (loaded: desk): open one of these, or load it"
    )


@pytest.mark.parametrize("session_id", [".", ".."])
def test_no_new_session_may_have_an_id_that_no_address_can_name(session_id: str) -> None:
    """What is in a log under such an id goes on: only an opening is asked."""
    header = replace(HEADER, session_id=session_id)
    refusal = check_unknown(m.Command(header, m.OpenSession("desk")), frozenset({"desk"}), 0)
    assert refusal is not None
    assert (refusal.check, refusal.reason) == ("scope", "invalid_session_id")
    assert f"session id {session_id!r} is not allowed" in refusal.detail
    other = m.Command(replace(header, session_id="..a"), m.OpenSession("desk"))
    assert check_unknown(other, frozenset({"desk"}), 0) is None
    known = SessionState(Head(seq=9), STATE)
    assert check(known, m.Command(header, m.SendMessage(PAID)), b"h", 1_000) is None
