"""The fifth check, authority: whether policy lets this actor decide this proposal now.

It comes last, when the decision is known to be about an open proposal and its digest, and is asked by the policy that is
in force while the command is decided. What it rests on is recorded in the event, so that a replay never asks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..events import records as r
from ..events.state import State
from ..events.verdicts import APPROVE
from . import models as m
from .check import Refusal
from .policy import FORBIDDEN, NOBODY, NOT_PERMITTED, Deciding, Policy, Question, Ruling


@dataclass(frozen=True, slots=True)
class Authority:
    """The policy in force, and the proposal that a command decides, as the shell found it in the journal.

    `arguments` are read only where the policy wants them.
    """

    policy: Policy = NOBODY
    proposal: r.ApprovalRequested | None = None
    arguments: Mapping[str, Any] | None = None


def rule(
    state: State, header: m.CommandHeader, decision: m.DecideApproval, authority: Authority
) -> Ruling:
    """What the policy says to this decision of an open proposal."""
    asked = authority.proposal
    tool, approver = _asked_for(state, decision)
    if asked is not None:
        tool, approver = asked.name, asked.approver
    act = Deciding(
        decision=decision.decision,
        tool=tool,
        contract=asked.contract if asked is not None else "",
        workflow=state.workflow,
        arguments=authority.arguments,
        approver=approver,
        requester=state.requester,
    )
    question = Question(header.tenant, header.actor, header.on_behalf_of, header.channel, act)
    return authority.policy.rule(question)


def check_authority(
    state: State, header: m.CommandHeader, decision: m.DecideApproval, ruling: Ruling
) -> Refusal | None:
    """The refusal that follows from a ruling, with what would have been needed."""
    if ruling.allowed:
        return None
    tool, approver = _asked_for(state, decision)
    told = f"{header.actor!r} may not {decision.decision} {tool!r}, which asks for the role {approver!r}"
    why = "; ".join(ruling.reasons)
    told = f"{told}: {why}" if why else told
    if ruling.verdict in (NOT_PERMITTED, FORBIDDEN):
        told += "; let somebody decide who may, or publish a policy that lets this one"
    return Refusal("authority", ruling.verdict, told)


def applicable(
    policy: Policy, tenant: str, state: State, asked: r.ApprovalRequested
) -> bytes | None:
    """The hash of what policy says about deciding this proposal, whoever decides; null where nothing is published."""
    if policy.set_hash is None:
        return None
    act = Deciding(
        decision=APPROVE,
        tool=asked.name,
        contract=asked.contract,
        workflow=state.workflow,
        arguments=None,
        approver=asked.approver,
        requester=state.requester,
    )
    return policy.applicable_hash(Question(tenant, "", None, "", act))


def has_aged(policy: Policy, tenant: str, state: State, asked: r.ApprovalRequested) -> bool:
    """Whether other policies apply to the proposal now than when it was made; not where nothing is, or was, published."""
    now = applicable(policy, tenant, state, asked)
    return None not in (asked.policies, now) and now != asked.policies


def _asked_for(state: State, decision: m.DecideApproval) -> tuple[str, str]:
    """The tool, and the role that its rule names; freshness has found the proposal open."""
    found = (a for a in state.approvals if a.proposal_id == decision.proposal_id)
    return next(((a.name, a.approver) for a in found), ("", ""))
