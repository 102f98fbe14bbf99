"""What must hold of decisions: who made them was allowed to, by the policy that was in force where they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...commands.policy import OPEN_TO_ALL, Deciding, Question
from ...events import records as r
from ...events.log.protocol import Place, Record
from ...events.records import Event
from ...processors.simulation.policies import in_force
from ...processors.simulation.world import World


def decisions_are_allowed(control: Sequence[Record], events: Sequence[Event]) -> Iterator[str]:
    """None was granted to one whom the policy at its control offset denies, and each names that policy."""
    for event in events:
        body, envelope = event.body, event.envelope
        if not isinstance(body, r.ApprovalGranted | r.ApprovalRejected):
            continue
        policy = in_force(control, envelope.control_offset)
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


def policies_are_fresh(world: World, events: Sequence[Event]) -> Iterator[str]:
    """Once all processors have told of a set, what is asked after that is decided by it, or by a later one."""
    topic = world.topics.commands
    for event in events:
        cause, offset = event.envelope.cause, event.envelope.control_offset
        if not isinstance(event.body, r.ApprovalGranted | r.ApprovalRejected):
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
