"""What a workflow may see raised, and the engine's own signals that it must never catch."""

from __future__ import annotations

from ...events.records import Failure


class ActivityError(Exception):
    """An activity ended without a result; `failure.kind` is the engine's word for it, such as `timed_out`.

    Uncaught, it ends the session as failed.
    """

    def __init__(self, name: str, failure: Failure) -> None:
        super().__init__(f"activity {name} {failure.kind}: {failure.message}")
        self.name = name
        self.failure = failure


class UnapprovedAction(ActivityError):
    """A gated action was run without a live approval of exactly these arguments."""

    def __init__(self, name: str, approver: str) -> None:
        told = (
            f"{name} needs the approval of {approver!r} for these arguments: "
            "'await turn.approval(action)' first, and run the same action"
        )
        super().__init__(
            name,
            Failure(kind="unapproved_action", type="UnapprovedAction", message=told, detail=""),
        )


class WorkflowMisuse(Exception):
    """The workflow did what no workflow may (real I/O, a step after the end); says what to use instead."""


class WorkflowStuck(BaseException):
    """This activation ran for too long without a wait. Not an Exception on purpose: it must get out of user code."""


class TurnDropped(BaseException):
    """This coroutine was let go; whatever it still asks for is discarded. Not an Exception on purpose."""
