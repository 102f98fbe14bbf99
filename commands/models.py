"""What may be asked: the commands, as plain frozen dataclasses, one per file in `schemas/`.

A command is a `CommandHeader` and a body. In Avro the two are one record whose first field is `header`.
External commands (people, services) are deduplicated by `command_id`; results are fenced by their attempt and
wake-ups by their timer, so a repeat of those is harmless without memory.
"""

from __future__ import annotations

from ..events.freezing import dataclass
from ..events.records import Attribute, Failure, Parent, Payload


@dataclass(frozen=True, slots=True)
class CommandHeader:
    """Who asks for what session, under which id. `expected_seq`: apply only if the session's last seq is this."""

    tenant: str
    session_id: str
    command_id: str
    issued_at_ms: int
    actor: str
    on_behalf_of: str | None
    channel: str
    expected_seq: int | None


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Opens the session with the workflow of this name, to be found by these attributes."""

    workflow: str
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Adds a message to the session's queue."""

    message: Payload


@dataclass(frozen=True, slots=True)
class DecideApproval:
    """Decides one proposal: `decision` is `approve`, `reject`, `edit` or `respond`; `digest` is that of the action shown.

    `data` is, for an edit, an object with the arguments as they should be; for a response, what the workflow is told.
    """

    proposal_id: str
    digest: bytes
    decision: str
    comment: str
    data: Payload | None = None


@dataclass(frozen=True, slots=True)
class CompleteActivity:
    """A worker's result for one attempt; `recovered` where it was looked up and not called for."""

    activity_id: str
    attempt: int
    result: Payload
    worker: str
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class FailActivity:
    """A worker's failure for one attempt."""

    activity_id: str
    attempt: int
    failure: Failure
    worker: str


@dataclass(frozen=True, slots=True)
class HeartbeatActivity:
    """A sign of life of a running attempt, and how far it has come."""

    activity_id: str
    attempt: int
    progress: Payload | None
    worker: str


@dataclass(frozen=True, slots=True)
class ReturnActivity:
    """A worker gives an attempt back that it certainly has not begun."""

    activity_id: str
    attempt: int
    reason: str
    worker: str


@dataclass(frozen=True, slots=True)
class FireTimer:
    """A wake-up from the owner of the partition: something of this session is due."""

    timer_id: str
    due_ms: int


@dataclass(frozen=True, slots=True)
class CancelSession:
    """Stops the session for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReleaseSession:
    """Lets a held session go on from where it was held."""

    reason: str


@dataclass(frozen=True, slots=True)
class ResetSession:
    """Takes the session back to where `to_turn` had ended, with the `state` that it left (null before the first).

    With `answers_again` the message of the turn that is open goes back to the head of the queue.
    """

    to_turn: int
    state: Payload | None
    answers_again: bool
    reason: str


@dataclass(frozen=True, slots=True)
class PinSession:
    """Lets turns begin on this version of the workflow from here on; null: on what rollouts say again."""

    version: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class RecoverSession:
    """Says that an attempt of an activity has stalled, or (where `activity_id` is empty) the session."""

    activity_id: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class ResolveActivity:
    """Says what became of an uncertain activity: `resolution` is `completed` (with its result) or `failed`."""

    activity_id: str
    resolution: str
    result: Payload | None
    comment: str


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Hands a named piece of data to the session, for a turn that asks for that name, now or later."""

    name: str
    data: Payload


@dataclass(frozen=True, slots=True)
class StartTurn:
    """Asks for a turn without a message: `trigger` is the kind of occasion, `reason` what it was in words."""

    trigger: str
    reason: str
    data: Payload


@dataclass(frozen=True, slots=True)
class ChangeArtifact:
    """Says that a thing outside, which the session relies on, has another version now."""

    artifact_id: str
    version: str


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """Says what became of an external job: its `result`, or the `failure` for which it will not be done."""

    job_id: str
    result: Payload | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class StartChild:
    """From the owner of a session to that of its child: opens it with this workflow, and its first turn with this message."""

    workflow: str
    message: Payload
    parent: Parent
    attributes: tuple[Attribute, ...] = ()
    tainted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndChild:
    """From the owner of a child to that of the session that opened it: it has `completed`, `failed`, or was `cancelled`."""

    child_id: str
    end: str
    result: Payload | None
    failure: Failure | None
    tainted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CancelChild:
    """From the owner of a session to that of its child: nobody waits for it any more."""

    parent_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartRun:
    """From the owner of a session to that of a run: opens it, where it is not there, and asks for a turn.

    `where_open` says what becomes of it where it is there; see `verdicts.WHERE_OPEN`.
    """

    workflow: str
    trigger: str
    reason: str
    data: Payload
    where_open: str
    attributes: tuple[Attribute, ...] = ()
    tainted_by: tuple[str, ...] = ()


CommandBody = (
    OpenSession
    | SendMessage
    | DecideApproval
    | CompleteActivity
    | FailActivity
    | FireTimer
    | CancelSession
    | ReleaseSession
    | HeartbeatActivity
    | ReturnActivity
    | ResolveActivity
    | SendSignal
    | StartTurn
    | ChangeArtifact
    | CompleteJob
    | ResetSession
    | PinSession
    | RecoverSession
    | StartChild
    | EndChild
    | CancelChild
    | StartRun
)

REPAIRS = (CancelSession, ReleaseSession, ResetSession, PinSession, RecoverSession)
"""What acts on a session that is held; every other command is kept until its release."""

BETWEEN_SESSIONS = (StartChild, EndChild, CancelChild, StartRun)
"""What processors tell each other. The last one is remembered like what people ask for, as nothing else fences it."""

INTERNAL = (
    *(CompleteActivity, FailActivity, HeartbeatActivity, ReturnActivity, FireTimer),
    *(StartChild, EndChild, CancelChild),
)


@dataclass(frozen=True, slots=True)
class Command:
    """One request to one session, as stored."""

    header: CommandHeader
    body: CommandBody
