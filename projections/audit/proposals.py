"""Checks of approvals: decided once, by as many as must, for what is so now, and nothing runs but what was approved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...events import records as r
from ...events.state import NEVER_MS
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
    uses: dict[str, str] = field(default_factory=dict)
    """By activity the proposal that it runs on."""
    withheld: set[str] = field(default_factory=set)
    """Activities whose newest attempt is not dispatched."""
    forbidden: set[str] = field(default_factory=set)
    """Those of them that no approval can release."""
    unasked: str | None = None
    """An activity that was just withheld, and about which nobody is asked yet."""


def approvals(history: History) -> Iterator[Violation]:
    """23 to 26: decided once, bound to its digest, by enough people, and run only as approved, once, in time."""
    for facts in history.sessions.values():
        session = _Session()
        for fact in facts:
            yield from _looked_at(fact, session)


def _looked_at(fact: Fact, session: _Session) -> Iterator[Violation]:
    body, envelope = fact.event.body, fact.event.envelope
    yield from _asked_at_once(fact, session)
    match body:
        case r.CommandParked():
            session.kept_ms.setdefault(cause_of(fact), envelope.at_ms)
        case r.ArtifactRecorded() | r.ArtifactChanged():
            session.artifacts[body.artifact_id] = body.version
        case r.ApprovalRequested():
            yield from _requested(fact, body, session)
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
            if isinstance(body, r.ApprovalVoided) and _unused(session, proposal):
                session.proposals[body.proposal_id].decision = None
            yield from _decision(fact, body, proposal, came_ms)
            if isinstance(body, r.ApprovalGranted) and proposal is not None:
                yield from _drifted(fact, proposal.asked, session.artifacts)
                if proposal.asked.activity_id is not None:
                    session.uses[proposal.asked.activity_id] = body.proposal_id
        case r.ActivityRequested():
            yield from _start(fact, body, session.proposals)
            if body.proposal_id is not None:
                session.uses[body.activity_id] = body.proposal_id
            yield from _attempted(fact, body, session)
        case r.ActivityRetried() | r.ActivityReturned():
            yield from _attempted(fact, body, session)
        case _:
            pass  # the others neither decide nor start anything


def _asked_at_once(fact: Fact, session: _Session) -> Iterator[Violation]:
    """Whoever is withheld has people asked at once, when what it ran on is void; not where no approval would help."""
    body, activity_id = fact.event.body, session.unasked
    if isinstance(body, r.ApprovalRequested) and body.activity_id in session.forbidden:
        told = f"activity {body.activity_id} is asked about, and no approval can release it"
        yield of(fact, NO_UNAPPROVED_START, told)
    if activity_id is None or isinstance(body, r.ApprovalVoided):
        return
    session.unasked = None
    if not isinstance(body, r.ApprovalRequested) or body.activity_id != activity_id:
        told = f"activity {activity_id} is withheld, and nobody is asked to approve it"
        yield of(fact, NO_UNAPPROVED_START, told)


def _attempted(
    fact: Fact,
    body: r.ActivityRequested | r.ActivityRetried | r.ActivityReturned,
    session: _Session,
) -> Iterator[Violation]:
    """An attempt is dispatched on an approval that still stands, of what is so now; or it is withheld."""
    activity_id = body.activity_id
    used = session.proposals.get(session.uses.get(activity_id, ""))
    if activity_id in session.forbidden:
        told = f"activity {activity_id} is forbidden whoever approves it, and goes on"
        yield of(fact, NO_UNAPPROVED_START, told)
    if body.withheld_ms is not None:
        session.withheld.add(activity_id)
        if body.withheld_ms == NEVER_MS:
            session.forbidden.add(activity_id)
        else:
            session.unasked = activity_id
        return
    stands = used is not None and used.decision == "ApprovalGranted"
    if (used is not None or activity_id in session.withheld) and not stands:
        told = f"an attempt of activity {activity_id} is dispatched, and no approval of it stands"
        yield of(fact, NO_UNAPPROVED_START, told)
    session.withheld.discard(activity_id)
    if used is not None:
        yield from _drifted(fact, used.asked, session.artifacts)


def _unused(session: _Session, proposal: _Proposal | None) -> bool:
    """Whether it was granted, and the activity that runs on it is withheld: then it may still become void."""
    return (
        proposal is not None
        and proposal.decision == "ApprovalGranted"
        and any(session.uses.get(one) == proposal.asked.proposal_id for one in session.withheld)
    )


def _requested(fact: Fact, body: r.ApprovalRequested, session: _Session) -> Iterator[Violation]:
    """A proposal is made once; one that takes another's place is of the same step, and the other is void.

    One that policy asks for is about an activity that waits for it.
    """
    proposals = session.proposals
    if body.activity_id is not None and body.activity_id not in session.withheld:
        told = f"proposal {body.proposal_id} is about activity {body.activity_id}, which is not withheld"
        yield of(fact, ONE_DECISION, told)
    if body.activity_id is not None:
        yield from _drifted(fact, body, session.artifacts)
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
    """What the action was made from must be so when it is granted, when policy asks for it, and when it is to run."""
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
                asked = proposal.asked
                if asked.activity_id is None and (asked.digest, asked.turn) == (
                    body.digest,
                    body.turn,
                ):
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
