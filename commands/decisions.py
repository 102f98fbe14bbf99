"""What follows from a decision on a proposal, and from the news that what it was made from has changed.

A proposal is an action as it was shown. What changes the action makes it void, and another one takes its place: the
workflow waits on, and is told of the one that ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ..events import records as r
from ..events import verdicts
from ..events.state import OpenApproval, State
from . import models as m
from .authority import Authority, check_authority, has_aged, rule
from .check import Refusal
from .policy import Ruling

EDITED, ARTIFACT_CHANGED = "edited", "artifact_changed"
POLICY_CHANGED, UNAUTHORIZED = "policy_changed", "authority"
"""Why a proposal is void: of the last two, other policies apply to it now, and policy does not let it be carried out."""


class Proposals(Protocol):
    """What the shell knows of a session's open proposals and the core does not; each is asked by its id."""

    def authority(self, proposal_id: str) -> Authority:
        """The policy in force, and the proposal as it was asked for, if it is open."""
        ...

    def edited(self, proposal_id: str, arguments: r.Payload) -> Fresh | Refusal:
        """The same activity with other arguments, as it would be asked for now; a refusal where these are none of its own."""
        ...

    def as_of_now(self, proposal_id: str, because: tuple[str, ...]) -> Fresh | Refusal:
        """The same action, under the policies that apply to it now; a refusal where it cannot be read any more."""
        ...

    def relying_on(self, proposal_id: str, changed: r.Version) -> Fresh | Refusal:
        """The same action, made from another version of something; a refusal where it cannot be read any more."""
        ...


@dataclass(frozen=True, slots=True)
class Fresh:
    """A proposal made again, and the authority that its decision goes by."""

    asked: r.ApprovalRequested
    authority: Authority


def refused(command: m.Command, refusal: Refusal) -> r.CommandRefused:
    """The refusal as a fact of the session."""
    return r.CommandRefused(
        type(command.body).__name__, refusal.check, refusal.reason, refusal.detail
    )


def decided(
    state: State, command: m.Command, decision: m.DecideApproval, proposals: Proposals
) -> list[r.EventBody]:
    """The last check, authority, and then the facts; they say which policies they rest on.

    An edit is approved by its author at once, where policy lets him approve what he made of it; else others must. Where
    other policies apply than when it was shown, it is asked for again and not approved.
    """
    proposal_id, digest, comment = decision.proposal_id, decision.digest, decision.comment
    authority = proposals.authority(proposal_id)
    ruling = rule(state, command.header, decision, authority)
    refusal = check_authority(state, command.header, decision, ruling)
    if refusal is not None:
        return [refused(command, refusal)]
    shown, tenant = authority.proposal, command.header.tenant
    approves = decision.decision in (verdicts.APPROVE, verdicts.EDIT)
    if approves and shown and has_aged(authority.policy, tenant, state, shown):
        return _asked_again(command, decision, proposals)
    match decision:
        case m.DecideApproval(decision=verdicts.EDIT, data=r.Payload() as arguments):
            return _edited(state, command, decision, proposals.edited(proposal_id, arguments))
        case m.DecideApproval(decision=verdicts.RESPOND, data=r.Payload() as answer):
            return [r.ApprovalAnswered(proposal_id, digest, answer, *_by(ruling))]
        case m.DecideApproval(decision=verdicts.APPROVE):
            asked = next(a for a in state.approvals if a.proposal_id == proposal_id)
            return [_approved(proposal_id, digest, len(asked.votes), asked.quorum, comment, ruling)]
        case _:
            return [r.ApprovalRejected(proposal_id, digest, comment, *_by(ruling))]


def _asked_again(
    command: m.Command, decision: m.DecideApproval, proposals: Proposals
) -> list[r.EventBody]:
    """It was shown under other policies: void, made again, and this decision is about neither."""
    drift = ("the policies that apply to it are others than when it was shown",)
    fresh = proposals.as_of_now(decision.proposal_id, drift)
    if isinstance(fresh, Refusal):
        return [refused(command, fresh)]
    told = f"{drift[0]}: look at {fresh.asked.proposal_id}, which takes its place, and decide that"
    return [
        r.ApprovalVoided(decision.proposal_id, POLICY_CHANGED, drift),
        fresh.asked,
        refused(command, Refusal("freshness", POLICY_CHANGED, told)),
    ]


def _edited(
    state: State, command: m.Command, decision: m.DecideApproval, fresh: Fresh | Refusal
) -> list[r.EventBody]:
    if isinstance(fresh, Refusal):
        return [refused(command, fresh)]
    asked, comment = fresh.asked, decision.comment
    told = f"{command.header.actor} changed the arguments" + (f": {comment}" if comment else "")
    facts: list[r.EventBody] = [r.ApprovalVoided(decision.proposal_id, EDITED, (told,)), asked]
    approving = replace(decision, decision=verdicts.APPROVE)
    ruling = rule(state, command.header, approving, fresh.authority)
    if ruling.allowed:
        facts.append(_approved(asked.proposal_id, asked.digest, 0, asked.quorum, comment, ruling))
    return facts


def changed(
    state: State, command: m.Command, change: m.ChangeArtifact, proposals: Proposals
) -> list[r.EventBody]:
    """The news, and for each open proposal that relies on another version: void, and asked for anew."""
    facts: list[r.EventBody] = [r.ArtifactChanged(change.artifact_id, change.version)]
    now = r.Version(change.artifact_id, change.version)
    for proposal in state.approvals:
        before = _version(proposal, change.artifact_id)
        if before in (None, change.version):
            continue
        fresh = proposals.relying_on(proposal.proposal_id, now)
        if isinstance(fresh, Refusal):
            return [refused(command, fresh)]
        told = f"{change.artifact_id} was {before} and is {change.version} now"
        facts += [r.ApprovalVoided(proposal.proposal_id, ARTIFACT_CHANGED, (told,)), fresh.asked]
    return facts


def _approved(
    proposal_id: str, digest: bytes, votes: int, quorum: int, comment: str, ruling: Ruling
) -> r.ApprovalGranted | r.ApprovalVoted:
    if votes + 1 < quorum:
        return r.ApprovalVoted(proposal_id, digest, comment, *_by(ruling))
    return r.ApprovalGranted(proposal_id, digest, comment, *_by(ruling))


def _by(ruling: Ruling) -> tuple[tuple[str, ...], bytes | None]:
    return ruling.policy_ids, ruling.set_hash


def _version(proposal: OpenApproval, artifact_id: str) -> str | None:
    return next((v.version for v in proposal.relies_on if v.name == artifact_id), None)
