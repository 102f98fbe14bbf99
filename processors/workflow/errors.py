"""What a workflow may see raised, and the engine's own signals that it must never catch."""

from __future__ import annotations

from ...events.errors import OwnSignal
from ...events.failures import RESOURCE_LOST
from ...events.payloads import storable_text
from ...events.records import Failure


class ActivityError(Exception):
    """An activity ended without a result; `failure.kind` is the engine's word for it, such as `timed_out`.

    Uncaught, it ends the session as failed.
    """

    def __init__(self, name: str, failure: Failure) -> None:
        super().__init__(f"activity {name} {failure.kind}: {failure.message}")
        self.name = name
        self.failure = failure

    @property
    def lost(self) -> str | None:
        """The kind of resource that the activity found gone (`ResourceLost`); None where it was anything else."""
        return self.failure.type if self.failure.kind == RESOURCE_LOST else None


class UnapprovedAction(ActivityError):
    """A gated action was run without a live approval of exactly these arguments.

    `drift` says what changed since one was given: then it counts no more, and is to be asked for again.
    """

    def __init__(self, name: str, approver: str, drift: str = "") -> None:
        why = f", since {drift}" if drift else ""
        told = (
            f"{name} needs the approval of {approver!r} for these arguments{why}: "
            "'await turn.approval(action)' first, and run the action that it gives"
        )
        super().__init__(
            name,
            Failure(kind="unapproved_action", type="UnapprovedAction", message=told, detail=""),
        )


class Uncertain(ActivityError):
    """Nobody knows whether the activity was carried out; its `failure.kind` is `uncertain`.

    `reason` is the failure that left it open (a lost worker, a time-out), `key` the idempotency key of the call: with
    it the other side can be asked.
    """

    def __init__(self, name: str, reason: Failure, *, key: str, told: str = "") -> None:
        told = told or f"it may have been carried out or not ({reason.kind}: {reason.message})"
        failure = Failure("uncertain", reason.type, storable_text(told), reason.detail)
        super().__init__(name, failure)
        self.reason = reason
        self.key = key

    @property
    def lost(self) -> str | None:
        """See `ActivityError`."""
        return self.reason.type if self.reason.kind == RESOURCE_LOST else None


class VerificationFailed(Exception):
    """`turn.complete(outcome, verify=…)`: the check said no, or gave no answer (then `failure` says why).

    Uncaught, it holds the session, and a release verifies again. Caught, the workflow goes on, and may complete later.
    """

    def __init__(self, name: str, failure: Failure | None) -> None:
        why = (
            "said no" if failure is None else f"gave no answer ({failure.kind}: {failure.message})"
        )
        super().__init__(f"verification {name} {why}")
        self.name = name
        self.failure = failure


class WrongSignal(Exception):
    """A signal came whose data is not of the type that was asked for. It is used up; the workflow may wait for another."""

    def __init__(self, name: str, problems: str) -> None:
        super().__init__(
            f"the data of signal {name!r} does not fit: {problems}; catch WrongSignal and wait for "
            f"another, or take it as it is with turn.signal({name!r})"
        )
        self.name = name


class JobError(ActivityError):
    """An external job ended without a result: `failure.kind` is `job_failed`, or `job_expired` where nobody said anything.

    Uncaught, it ends the session as failed.
    """

    def __init__(self, name: str, failure: Failure) -> None:
        super().__init__(name, failure)
        self.args = (f"job {name} {failure.kind.removeprefix('job_')}: {failure.message}",)


class ChildError(ActivityError):
    """A child ended without an outcome: `failure.kind` is `child_failed`, `child_cancelled`, `child_expired`, or
    `child_not_started`. `type` is then what failed in it, or why it was not opened; `child_id` is its session's id.

    Uncaught, it ends the session as failed.
    """

    def __init__(self, workflow: str, failure: Failure, child_id: str) -> None:
        super().__init__(workflow, failure)
        how = failure.kind.removeprefix("child_").replace("_", " ")
        self.args = (f"child {workflow} {how}: {failure.message}",)
        self.child_id = child_id


class WrongResult(Exception):
    """What a job or a child gave is not of the type that was expected. It is over; its data are in the history."""

    def __init__(self, name: str, problems: str, what: str = "job") -> None:
        super().__init__(
            f"the result of {what} {name!r} does not fit: {problems}; catch WrongResult, or take it as it is, without expect="
        )
        self.name = name


class WrongHandle(Exception):
    """The handle of a resource cannot be read as what `attach` returns now."""

    def __init__(self, kind: str, problems: str) -> None:
        super().__init__(
            f"the handle of resource {kind!r} is not what its attach returns: {problems}; let the type of that read what is "
            "stored (reconstruct= has to return the same type), and deploy it"
        )


class WorkflowMisuse(Exception):
    """The workflow did what no workflow may (real I/O, a step after the end); says what to use instead."""


class Unstorable(Exception):
    """A state that the next turn could not read back as it is; says which field, and what to do."""


class WorkflowStuck(OwnSignal):
    """This activation ran for too long without a wait. Not an Exception on purpose: it must get out of user code."""


class WorkflowSpins(Exception):
    """A workflow goes on and on after one command, and nothing that it waits for has to come from outside."""

    def __init__(self, workflow: str, facts: int) -> None:
        super().__init__(
            f"workflow {workflow!r} came to {facts} facts after one command and would go on: each round of its loop, or of "
            "turn.again, has to await what comes later (turn.run, turn.signal, turn.inbox(wait=True), turn.sleep); "
            "mend it, deploy, then release"
        )


class BranchLost(OwnSignal):
    """Another branch of `first` was over first, and this one is let go; it may tidy up, and may not wait.

    Not an Exception on purpose.
    """


class TurnDropped(OwnSignal, GeneratorExit):
    """This coroutine was let go; whatever it still asks for is discarded. Not an Exception on purpose.

    Python takes a GeneratorExit for the good end of what it closes, an async generator that nobody closed, say: it
    prints nothing of it.
    """
