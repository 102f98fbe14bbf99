"""Checks of approvals: decided once, by as many as must, for what is so now, and nothing runs but what was approved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...events import records as r
from ...events.verdicts import GRANTED, UNGATED
from .evidence import Violation
from .history import At, Fact, History, cause_of, of
from .invariants import AUTHORITY, DECISION_BINDS, NO_UNAPPROVED_START, ONE_DECISION

Ends = (
    r.ApprovalGranted
    | r.ApprovalRejected
    | r.ApprovalAnswered
    | r.ApprovalVoided
    | r.ApprovalExpired
    | r.ApprovalWithdrawn
)
BY_PEOPLE = r.ApprovalGranted | r.ApprovalRejected | r.ApprovalAnswered


@dataclass(slots=True)
class _Proposal:
    asked: r.ApprovalRequested
    decision: str | None = None
    used_by: str | None = None
    voters: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Session:
    """What one session's facts have said so far."""

    proposals: dict[str, _Proposal] = field(default_factory=dict)
    kept_ms: dict[At, int] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)


def approvals(history: History) -> Iterator[Violation]:
    """23 to 26: decided once, bound to its digest, by enough people, and run only as approved, once, in time."""
    for facts in history.sessions.values():
        session = _Session()
        for fact in facts:
            yield from _looked_at(fact, session)


def _looked_at(fact: Fact, session: _Session) -> Iterator[Violation]:
    body, envelope = fact.event.body, fact.event.envelope
    match body:
        case r.CommandParked():
            session.kept_ms.setdefault(cause_of(fact), envelope.at_ms)
        case r.ArtifactRecorded() | r.ArtifactChanged():
            session.artifacts[body.artifact_id] = body.version
        case r.ApprovalRequested():
            yield from _requested(fact, body, session.proposals)
        case r.ApprovalVoted():
            yield from _voted(fact, body, session.proposals.get(body.proposal_id))
        case (
            r.ApprovalGranted()
            | r.ApprovalRejected()
            | r.ApprovalAnswered()
            | r.ApprovalVoided()
            | r.ApprovalExpired()
            | r.ApprovalWithdrawn()
        ):
            # A decision that was kept while the session was held counts from when it came.
            came_ms = session.kept_ms.get(cause_of(fact), envelope.at_ms)
            proposal = session.proposals.get(body.proposal_id)
            yield from _decision(fact, body, proposal, came_ms)
            if isinstance(body, r.ApprovalGranted) and proposal is not None:
                yield from _drifted(fact, proposal.asked, session.artifacts)
        case r.ActivityRequested():
            yield from _start(fact, body, session.proposals)
            found = session.proposals.get(body.proposal_id or "")
            if found is not None:
                yield from _drifted(fact, found.asked, session.artifacts)
        case _:
            pass  # the others neither decide nor start anything


def _requested(
    fact: Fact, body: r.ApprovalRequested, proposals: dict[str, _Proposal]
) -> Iterator[Violation]:
    """A proposal is made once; one that takes another's place is of the same step, and the other is void."""
    if body.proposal_id in proposals:
        yield of(fact, ONE_DECISION, f"proposal {body.proposal_id} is requested twice")
    before = proposals.get(body.supersedes or "")
    if body.supersedes is not None and (
        before is None
        or before.decision != "ApprovalVoided"
        or (before.asked.turn, before.asked.step, before.asked.name)
        != (body.turn, body.step, body.name)
    ):
        told = f"proposal {body.proposal_id} supersedes {body.supersedes}, which is not void or not of its step"
        yield of(fact, ONE_DECISION, told)
    proposals[body.proposal_id] = _Proposal(body)


def _voted(fact: Fact, body: r.ApprovalVoted, proposal: _Proposal | None) -> Iterator[Violation]:
    actor = fact.event.envelope.actor
    if proposal is None or proposal.decision is not None:
        yield of(fact, ONE_DECISION, f"{actor} votes for {body.proposal_id}, which is not open")
        return
    yield from _may_approve(fact, proposal, body.proposal_id)
    proposal.voters.append(actor)
    if len(proposal.voters) >= proposal.asked.quorum:
        yield of(
            fact, AUTHORITY, f"enough have voted for {body.proposal_id}, and it is not granted"
        )


def _may_approve(fact: Fact, proposal: _Proposal, proposal_id: str) -> Iterator[Violation]:
    """Everybody once, and not for himself."""
    actor = fact.event.envelope.actor
    if actor in proposal.voters:
        yield of(fact, AUTHORITY, f"{actor} approves {proposal_id} twice")
    if actor == proposal.asked.requester:
        yield of(fact, AUTHORITY, f"{actor} approves {proposal_id}, which is done for {actor}")


def _decision(
    fact: Fact, body: Ends, proposal: _Proposal | None, came_ms: int
) -> Iterator[Violation]:
    word = type(body).__name__
    if proposal is None:
        yield of(
            fact, ONE_DECISION, f"{word} for proposal {body.proposal_id}, which was never requested"
        )
        return
    if proposal.decision is not None:
        told = f"proposal {body.proposal_id} is decided twice: {proposal.decision}, then {word}"
        yield of(fact, ONE_DECISION, told)
        return
    proposal.decision = word
    if isinstance(body, r.ApprovalGranted):
        yield from _may_approve(fact, proposal, body.proposal_id)
        if len(proposal.voters) + 1 < proposal.asked.quorum:
            told = f"{body.proposal_id} is granted by {len(proposal.voters) + 1} of {proposal.asked.quorum}"
            yield of(fact, AUTHORITY, told)
    if isinstance(body, BY_PEOPLE):
        if body.digest != proposal.asked.digest:
            yield of(
                fact,
                DECISION_BINDS,
                f"{word} names another digest than proposal {body.proposal_id}",
            )
        late_ms = came_ms - proposal.asked.expires_at_ms
        if late_ms >= 0:
            yield of(
                fact,
                NO_UNAPPROVED_START,
                f"proposal {body.proposal_id} was decided {late_ms} ms after it expired",
            )


def _drifted(
    fact: Fact, asked: r.ApprovalRequested, artifacts: Mapping[str, str]
) -> Iterator[Violation]:
    """What the action was made from must be so when it is granted, and when it is asked to run."""
    for relied in asked.relies_on:
        now = artifacts.get(relied.name, relied.version)
        if now != relied.version:
            told = f"{type(fact.event.body).__name__} on {asked.proposal_id}, made from {relied.name} {relied.version}, which is {now}"
            yield of(fact, DECISION_BINDS, told)


def _start(
    fact: Fact, body: r.ActivityRequested, proposals: dict[str, _Proposal]
) -> Iterator[Violation]:
    if body.proposal_id is None:
        if body.approval == GRANTED:
            yield of(
                fact,
                NO_UNAPPROVED_START,
                f"activity {body.activity_id} says it is granted and names no proposal",
            )
        elif body.approval == UNGATED:
            for proposal in proposals.values():
                if proposal.asked.digest == body.digest and proposal.asked.turn == body.turn:
                    told = f"activity {body.activity_id} runs ungated what {proposal.asked.proposal_id} proposes"
                    yield of(fact, NO_UNAPPROVED_START, told)
        return
    found = proposals.get(body.proposal_id)
    if found is None or found.decision != "ApprovalGranted":
        stands = "unknown" if found is None else found.decision or "open"
        yield of(
            fact,
            NO_UNAPPROVED_START,
            f"activity {body.activity_id} runs on proposal {body.proposal_id}, which is {stands}",
        )
        return
    if found.asked.digest != body.digest:
        yield of(
            fact,
            DECISION_BINDS,
            f"activity {body.activity_id} runs another action than {body.proposal_id} approved",
        )
    if found.used_by is not None:
        yield of(
            fact,
            NO_UNAPPROVED_START,
            f"proposal {body.proposal_id} was used by {found.used_by} and again by {body.activity_id}",
        )
    found.used_by = body.activity_id
