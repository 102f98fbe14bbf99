"""Facts about a session and its turns."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Attribute, ChildEnd, Failure, NextValid, Obligation, Parent, Payload, Version


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A conversation exists; nothing runs until its first message or trigger.

    A child has a `parent`, and begins `tainted_by` whatever had tainted that one.
    """

    workflow: str
    attributes: tuple[Attribute, ...] = ()
    parent: Parent | None = None
    tainted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A message joined the session's queue; the next turn (or the running one, if it asks) takes it."""

    message_id: str
    message: Payload


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn began on these versions; `message_id` is null for a trigger without a message.

    `rollout_offset` is where the rollout lies that gave the workflow's; null where none did.
    """

    turn: int
    trigger: str
    reason: str
    message_id: str | None
    workflow: str
    workflow_version: int
    versions: tuple[Version, ...]
    rollout_offset: int | None = None


@dataclass(frozen=True, slots=True)
class ReplySent:
    """The workflow said something to the conversation."""

    turn: int
    step: int
    message: Payload


@dataclass(frozen=True, slots=True)
class SessionWaiting:
    """Only waits are left; nothing runs, and memory is released."""

    turn: int
    obligations: tuple[Obligation, ...]
    next_valid: tuple[NextValid, ...]


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """The turn's function returned; `state` is what the next turn starts from."""

    turn: int
    steps: int
    state: Payload
    obligations: tuple[Obligation, ...]
    next_valid: tuple[NextValid, ...]


@dataclass(frozen=True, slots=True)
class TurnContinued:
    """The stretch ended, and the function runs again from its top with this state and the same message.

    `stretch` is the number of the one that begins, and `steps` those of the turn so far: ids go on from there.
    """

    turn: int
    stretch: int
    steps: int
    state: Payload


@dataclass(frozen=True, slots=True)
class VersionMarked:
    """The code passed a change that it guards by name; every replay takes the same side of it."""

    turn: int
    step: int
    change: str


@dataclass(frozen=True, slots=True)
class AttributesSet:
    """The turn said by what the session is to be found: `attributes` are all that it has now, by name.

    `changed` names those that were set to something else, or removed.
    """

    turn: int
    step: int
    attributes: tuple[Attribute, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArtifactChanged:
    """Somebody says that a thing outside, which the session relies on, has another version now."""

    artifact_id: str
    version: str


@dataclass(frozen=True, slots=True)
class ArtifactRecorded:
    """The turn relies on this version of something outside: a document, a price list, a data set."""

    turn: int
    step: int
    artifact_id: str
    version: str


@dataclass(frozen=True, slots=True)
class SessionCompleted:
    """The session ended with an outcome; `verified_by` names the activity that verified it, if one did."""

    turn: int
    steps: int
    outcome: Payload
    state: Payload
    verified_by: str | None
    messages_unread: int


@dataclass(frozen=True, slots=True)
class SessionFailed:
    """The session ended because an activity's failure was not handled by its workflow.

    The lists are those of `SessionCancelled`, and empty where nothing was to be compensated and no child was open.
    """

    turn: int
    failure: Failure
    messages_unread: int
    done: tuple[str, ...] = ()
    compensated: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    not_compensated: tuple[str, ...] = ()
    children: tuple[ChildEnd, ...] = ()


@dataclass(frozen=True, slots=True)
class CancellationRequested:
    """Somebody asked the session to stop; no new work is dispatched from here on."""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionCancelled:
    """The stop was carried out: activities done, withdrawn before they ran, and in doubt (they may have run).

    Those that were taken back are `compensated`; those that were to be, and stand, `not_compensated`. `children` are
    those that were open when the stop came, and how each has ended.
    """

    done: tuple[str, ...]
    undone: tuple[str, ...]
    uncertain: tuple[str, ...]
    compensated: tuple[str, ...] = ()
    not_compensated: tuple[str, ...] = ()
    children: tuple[ChildEnd, ...] = ()


@dataclass(frozen=True, slots=True)
class CompensationStarted:
    """The session ends, and what it did is taken back first: one after another, the last one first.

    `cause` is `cancelled` or `failed`; `compensating` names the activities whose effects are to be taken back, in this
    order. The other lists are of those that have no compensation. `children` are cancelled with it, by commands that go out
    with this, and are waited for before anything is taken back.
    """

    turn: int
    cause: str
    failure: Failure | None
    compensating: tuple[str, ...]
    done: tuple[str, ...]
    undone: tuple[str, ...]
    uncertain: tuple[str, ...]
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompensationsReleased:
    """What was done so far stands: its compensations are dropped."""

    turn: int
    step: int


@dataclass(frozen=True, slots=True)
class NondeterminismFound:
    """Replay gave another step than the history holds; the session is held and nothing else happened."""

    turn: int
    step: int
    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class SessionHeld:
    """The session cannot go on; everything is kept until an operator releases it."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class CommandParked:
    """A command that arrived while held, byte for byte; it is decided, in order, on release."""

    command_type: str
    fingerprint: bytes
    command: bytes


@dataclass(frozen=True, slots=True)
class SessionReleased:
    """An operator let the session go on from where it was held."""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionReset:
    """An operator took the session back to where `to_turn` had ended; turns count on from `turn`.

    `workflow_version` has left the `state`. The lists are of activities since then: done, and those that may have run.
    """

    turn: int
    to_turn: int
    state: Payload | None
    workflow_version: int
    message_id: str | None
    done: tuple[str, ...]
    uncertain: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SessionPinned:
    """Turns begin on this version from here on, whatever rollouts say; null: on theirs again."""

    version: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryRequested:
    """Somebody saw that an attempt had stalled, or (where `activity_id` is empty) the session: it is given up, and goes on."""

    activity_id: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """A command was not applied: the check that failed, the reason in one word, and what to do in words."""

    command_type: str
    check: str
    reason: str
    detail: str
