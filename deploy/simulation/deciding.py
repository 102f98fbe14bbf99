"""What must hold of decisions: who made them was allowed to, by the policy that was in force where they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...commands import models as m
from ...commands.policy import (
    FORBIDDEN,
    NO_POLICY,
    NOT_PERMITTED,
    OPEN_TO_ALL,
    POLICY_ERROR,
    Deciding,
    Policy,
    Question,
)
from ...events import records as r
from ...events.log.protocol import Place, Record
from ...events.records import Event
from ...events.verdicts import APPROVE, EDIT, REJECT, RESPOND
from ...processors.simulation.policies import in_force
from ...processors.simulation.world import World

Decision = r.ApprovalGranted | r.ApprovalRejected | r.ApprovalVoted | r.ApprovalAnswered
"""Facts that somebody's decision leads to."""

BY_POLICY = (NO_POLICY, NOT_PERMITTED, FORBIDDEN, POLICY_ERROR)
"""Why policy refuses a decision, as the refusal's reason."""

Load = Callable[[r.Payload], Any]
"""The value of a payload, whichever way it went."""


def decisions_are_allowed(
    control: Sequence[Record], events: Sequence[Event], unpublished: Policy
) -> Iterator[str]:
    """None was granted to one whom the policy at its control offset denies, and each names that policy."""
    for event in events:
        body, envelope = event.body, event.envelope
        if not isinstance(body, Decision):
            continue
        policy = in_force(control, envelope.control_offset, unpublished)
        act = Deciding("approve", "", "", "", None, "", "")
        asked = Question(envelope.tenant, envelope.actor, None, envelope.channel, act)
        what = f"{body.proposal_id} was decided by {envelope.actor}"
        at = f"at control offset {envelope.control_offset}"
        if not policy.rule(asked).allowed:
            yield f"{what}, whom the policy {at} denies"
        if body.policy_hash != policy.set_hash or not body.policy_ids:
            yield f"{what} by policies {body.policy_ids}, which are not those in force {at}"
        if (policy.set_hash is None) != (body.policy_ids == (OPEN_TO_ALL,)):
            yield f"{what} by {body.policy_ids}, with set {policy.set_hash!r} {at}"


def refusals_are_of_policy(
    control: Sequence[Record], events: Sequence[Event], unpublished: Policy
) -> Iterator[str]:
    """Nobody is refused as not permitted whom the policy at that control offset permits: a stranger stops no decision."""
    for event in events:
        body, envelope = event.body, event.envelope
        if not isinstance(body, r.CommandRefused) or body.reason not in BY_POLICY:
            continue
        act = Deciding("approve", "", "", "", None, "", "")
        asked = Question(envelope.tenant, envelope.actor, None, envelope.channel, act)
        if in_force(control, envelope.control_offset, unpublished).rule(asked).allowed:
            yield (
                f"{envelope.actor} was refused as {body.reason}, and the policy at control offset "
                f"{envelope.control_offset} permits it"
            )


def policies_are_fresh(world: World, events: Sequence[Event]) -> Iterator[str]:
    """Once all processors have told of a set, what is asked after that is decided by it, or by a later one."""
    topic = world.topics.commands
    for event in events:
        cause, offset = event.envelope.cause, event.envelope.control_offset
        if not isinstance(event.body, Decision):
            continue
        for policy_offset, ends in world.publisher.everywhere:
            asked_after = cause.offset >= ends[Place(topic, cause.partition)]
            if asked_after and (offset is None or offset <= policy_offset):
                yield (
                    f"{event.body.proposal_id} was decided at control offset {offset}, and asked after all "
                    f"processors had told of the set at {policy_offset}"
                )


def policies_arrive(world: World) -> Iterator[str]:
    """At rest, every processor has told of the newest set that can be used."""
    for name in world.publisher.unseen():
        yield f"{name} has never told of the newest policy"


def decisions_name_what_they_decide(
    events: Sequence[Event], commands: Mapping[tuple[int, int], m.Command], load: Load
) -> Iterator[str]:
    """A fact is caused by a decision about that very proposal, digest and verdict, and by its actor; or by an edit to it."""
    requests: dict[tuple[str, str], r.ApprovalRequested] = {}
    for event in events:
        body, cause = event.body, event.envelope.cause
        if isinstance(body, r.ApprovalRequested):
            requests[event.envelope.session_id, body.proposal_id] = body
        if not isinstance(body, Decision):
            continue
        command = commands.get((cause.partition, cause.offset))
        asked = command.body if command else None
        proposed = requests[event.envelope.session_id, body.proposal_id]
        if not isinstance(asked, m.DecideApproval) or not _says(asked, body, proposed, load):
            yield f"{type(body).__name__} of {body.proposal_id} is not what its command asked for: {asked}"
        if command is not None and command.header.actor != event.envelope.actor:
            yield f"{body.proposal_id} was decided by {command.header.actor}, not by {event.envelope.actor}"


def _says(
    asked: m.DecideApproval, body: Decision, proposed: r.ApprovalRequested, load: Load
) -> bool:
    """Whether a decision leads to this fact: an edit approves the action that it makes, and no other."""
    if asked.decision == EDIT and isinstance(body, r.ApprovalGranted | r.ApprovalVoted):
        made = None if asked.data is None else load(asked.data)
        return proposed.supersedes == asked.proposal_id and load(proposed.arguments) == made
    verdict = {r.ApprovalRejected: REJECT, r.ApprovalAnswered: RESPOND}.get(type(body), APPROVE)
    return (asked.proposal_id, asked.digest, asked.decision) == (
        body.proposal_id,
        body.digest,
        verdict,
    )
