"""What is asked for, made of what a person gives: each body is checked, and its data stored, before anything is sent."""

from __future__ import annotations

from typing import Any

from ..events.blobs import Blobs, fetched
from ..events.errors import Rejected
from ..events.failures import JOB_FAILED
from ..events.keys import check_id, session_of_job
from ..events.payloads import load_json
from ..events.records import Failure, Payload
from ..events.verdicts import COMPLETED, DECISIONS, EDIT, FAILED, RESOLUTIONS, RESPOND
from . import inputs
from .models import (
    CancelSession,
    ChangeArtifact,
    CompleteJob,
    DecideApproval,
    PinSession,
    RecoverSession,
    ReleaseSession,
    ResetSession,
    ResolveActivity,
    SendMessage,
    SendSignal,
    StartTurn,
)


class Bodies:
    """Makes the bodies of one tenant's commands, for `Client.post` and `Client.command`."""

    def __init__(self, *, tenant: str, digest_key: bytes, blobs: Blobs | None) -> None:
        self.tenant = check_id("tenant", tenant)
        self._digest_key = digest_key
        self._blobs = blobs

    def message(self, message: Any) -> SendMessage:
        """The body of `send`, for `post`: a text becomes `{"text": …}`, other JSON stays as it is."""
        value = {"text": message} if isinstance(message, str) else message
        return SendMessage(self.payload(value, "message"))

    def payload(self, value: Any, what: str = "payload") -> Payload:
        """Anything that is JSON as commands carry it. What is too large for a record is in the store before this returns.

        Without a store that is `PayloadTooLarge`, which calls it `what`; `BlobUnavailable` where the store is silent.
        """
        return inputs.data(what, value, self.tenant, self._digest_key, self._blobs)

    def load(self, payload: Payload) -> Any:
        """The value of a payload, as outcomes carry it: inline, or from the store, proved to be what was recorded.

        Raises `BlobMissing`, `BlobDamaged` or `BlobUnavailable` where it is referred to and cannot be had.
        """
        return load_json(fetched(payload, self.tenant, self._digest_key, self._blobs))

    def signal_body(self, name: str, data: Any = None) -> SendSignal:
        """The body of `Client.signal`."""
        return SendSignal(inputs.name("signal", name), self.payload(data, "signal's data"))

    def trigger_body(self, trigger: str, reason: str = "", data: Any = None) -> StartTurn:
        """The body of `Client.start_turn`."""
        return StartTurn(
            inputs.trigger(trigger),
            inputs.text("reason", reason),
            self.payload(data, "trigger's data"),
        )

    def resolution_body(
        self, activity_id: str, resolution: str, result: Any = None, comment: str = ""
    ) -> ResolveActivity:
        """The body of `Client.resolve`."""
        if resolution not in RESOLUTIONS:
            raise Rejected(
                f"resolution {resolution!r} is not one: use 'completed' or 'failed', for what happened"
            )
        if resolution == FAILED and result is not None:
            raise Rejected("a failed activity has no result: leave it out, or say 'completed'")
        found = None
        if resolution == COMPLETED:
            found = self.payload(result, "result")
        return ResolveActivity(
            inputs.activity_id(activity_id), resolution, found, inputs.text("comment", comment)
        )

    def decision_body(
        self,
        proposal_id: str,
        digest: bytes | str,
        decision: str,
        comment: str = "",
        data: Any = None,
    ) -> DecideApproval:
        """The body of `Client.decide`."""
        if decision not in DECISIONS:
            raise Rejected(f"decision {decision!r} is not one: use one of {', '.join(DECISIONS)}")
        if (decision in (EDIT, RESPOND)) != (data is not None):
            advice = "leave data out" if data is not None else "give data"
            raise Rejected(f"decision {decision!r}: {advice}")
        told = {"text": data} if isinstance(data, str) else data
        return DecideApproval(
            inputs.name("proposal id", proposal_id),
            inputs.digest(digest),
            decision,
            inputs.text("comment", comment),
            None if told is None else self.payload(told, f"data of {decision}"),
        )

    def job_body(self, job_id: str, result: Any = None) -> CompleteJob:
        """The body of `Client.complete_job`."""
        session_of_job(job_id)
        return CompleteJob(job_id, self.payload(result, "job's result"), None)

    def failed_job_body(self, job_id: str, message: str, kind: str = "") -> CompleteJob:
        """The body of `Client.fail_job`."""
        session_of_job(job_id)
        type_ = inputs.name("type of the failure", kind) if kind else ""
        failure = Failure(JOB_FAILED, type_, inputs.text("message", message), "")
        return CompleteJob(job_id, None, failure)

    def artifact_body(self, artifact_id: str, version: str) -> ChangeArtifact:
        """The body of `Client.change_artifact`."""
        return ChangeArtifact(
            inputs.name("artifact id", artifact_id), inputs.name("version", version)
        )

    def cancel_body(self, reason: str = "") -> CancelSession:
        """The body of `Client.cancel`."""
        return CancelSession(inputs.text("reason", reason))

    def reset_body(
        self, to_turn: int, state: Payload | None, *, answers_again: bool = True, reason: str = ""
    ) -> ResetSession:
        """The body of `Client.reset`."""
        if to_turn < 0 or (to_turn == 0) != (state is None):
            raise Rejected(
                f"a reset to turn {to_turn} comes {'without' if state is None else 'with'} a state: give what its "
                "TurnCompleted holds, and nothing for turn 0"
            )
        return ResetSession(to_turn, state, answers_again, inputs.text("reason", reason))

    def pin_body(self, version: int | None, reason: str = "") -> PinSession:
        """The body of `Client.pin`."""
        return PinSession(version, inputs.text("reason", reason))

    def recovery_body(
        self, reason: str = "", *, activity_id: str = "", attempt: int = 0
    ) -> RecoverSession:
        """The body of `Client.recover`."""
        inputs.attempt(attempt)
        if bool(activity_id) != (attempt > 0):
            raise Rejected(
                f"activity {activity_id!r}, attempt {attempt}: give both, as 'session show' has them, or neither, "
                "where the session has stalled"
            )
        named = inputs.activity_id(activity_id) if activity_id else ""
        return RecoverSession(named, attempt, inputs.text("reason", reason))

    def release_body(self, reason: str = "") -> ReleaseSession:
        """The body of `Client.release`."""
        return ReleaseSession(inputs.text("reason", reason))
