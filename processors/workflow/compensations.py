"""What a workflow says of how its effects are taken back: the record of it, and how many a session can keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...events import records as r
from ...events.contracts import UNDO
from ...events.shown import shown
from ...events.state import State
from ...events.undoing import COMPENSATIONS_BYTES_MAX, COMPENSATIONS_MAX
from ..activities.contracts import Read
from ..activities.definitions import Action, Activity
from .errors import WorkflowMisuse


def checked_compensation(action: Action[Any], given: object, key: str) -> Action[Any] | None:
    """The action that takes this one back, if there is one; of an activity, the one with the same arguments.

    `key` is the idempotency key of what is taken back, for an activity that asks for it by the name of `done_key`.
    """
    if given is None:
        return None
    name = action.activity.name
    if isinstance(action.activity.contract, Read):
        raise WorkflowMisuse(
            f"turn.run was given compensate= for {name}, which changes nothing: leave it out"
        )
    if action.activity.contract.word == UNDO:
        raise WorkflowMisuse(
            f"turn.run was given compensate= for {name}, whose contract has an undo already: give it another contract"
        )
    if isinstance(given, Activity):
        return given.taking_back(action, key)
    if not isinstance(given, Action):
        raise WorkflowMisuse(
            f"turn.run was given compensate={shown(given)}: give it an action, compensate=undo.call(…), or an activity "
            "that takes the same arguments, compensate=undo"
        )
    return given


def check_changes(compensation: Action[Any]) -> None:
    """Whether it takes anything back at all."""
    if isinstance(compensation.activity.contract, Read):
        name = compensation.activity.name
        raise WorkflowMisuse(
            f"turn.run was given compensate={name}, which is a Read() and so takes nothing back: give it a Write(…)"
        )


def compensation_of(action: Action[Any], digest: bytes, arguments: r.Payload) -> r.Compensation:
    """The action as it is recorded: all that its request will need, whatever code is loaded then."""
    activity = action.activity
    rule = activity.approval
    return r.Compensation(
        name=activity.name,
        queue=activity.queue,
        contract=activity.contract.word,
        arguments=arguments,
        digest=digest,
        start_to_close_ms=activity.start_to_close_ms,
        schedule_to_close_ms=activity.schedule_to_close_ms,
        approver=rule.approver if rule is not None and action.needs_approval() else "",
        retry=activity.retry.policy,
        settle_ms=activity.settle_ms,
        heartbeat_ms=activity.heartbeat_ms,
        untrusted=activity.untrusted,
        quorum=rule.quorum if rule is not None else 1,
        four_eyes=rule is not None and rule.four_eyes,
    )


def overfull(state: State, bodies: Iterable[r.EventBody]) -> str:
    """Why these facts would leave more to take back than a session can keep; empty where they would not."""
    kept = [one.compensation for one in state.registered]
    for body in bodies:
        if isinstance(body, r.CompensationsReleased):
            kept.clear()
        elif isinstance(body, r.ActivityRequested) and body.compensation is not None:
            kept.append(body.compensation)
            size = sum(len(one.arguments.inline or b"") for one in kept)
            if len(kept) > COMPENSATIONS_MAX or size > COMPENSATIONS_BYTES_MAX:
                return (
                    f"workflow {state.workflow}: with {body.name} there would be {len(kept)} compensations of {size} bytes, "
                    f"and {COMPENSATIONS_MAX} of {COMPENSATIONS_BYTES_MAX} bytes are kept: call turn.committed() where "
                    "what was done stands, then deploy and release"
                )
    return ""
