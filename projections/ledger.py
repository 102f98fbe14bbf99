"""What facts about activities mean for the ledger: one row per step, from the request to whoever settled it."""

from __future__ import annotations

import json

from ..events import records as r
from ..events.evolve_activities import Active
from ..events.verdicts import CANCELLED, COMPLETED, FAILED, UNCERTAIN
from .rows import LEDGER, Change
from .values import Values

PROGRESS_MAX = 500
"""Characters of the last progress that a row shows; the event has all of it."""

WITHHELD, BY_POLICY = "withheld", "by_policy"
"""An attempt that is not dispatched before somebody approves it; an approval that policy asks for, and no code."""

Recorded = Active | r.LateResultRecorded


def record(envelope: r.Envelope, body: Recorded) -> Change:
    """The change of the activity's row."""
    ledger = Values(envelope, body.activity_id)
    row = ledger.row
    match body:
        case r.ActivityRequested():
            _intent(ledger, envelope, body)
            return ledger.change(LEDGER, creates=body.attempt == 1)
        case r.ActivityCompleted():  # as often as a request, so it is asked for early
            _settled(ledger, envelope, body)
        case r.LateResultRecorded():
            return ledger.change(LEDGER, raises="late_results")
        case r.ActivityStarted():
            row["started_at_ms"] = envelope.at_ms
            ledger.text("worker", body.worker)
        case r.ActivityProgressed():
            row["progress_at_ms"] = envelope.at_ms
            ledger.text("progress", _told(body.progress))
        case r.ActivityReturned():
            _next_attempt(ledger, envelope, body.attempt + 1, body.withheld_ms)
        case r.ActivityRetried():
            if body.deadline_ms is not None:
                row["deadline_ms"] = body.deadline_ms
            _next_attempt(ledger, envelope, body.attempt, body.withheld_ms)
        case r.ActivityRetryScheduled():
            _stands(ledger, envelope, "retrying", body.attempt - 1)
            row["retry_due_ms"] = body.due_ms
            ledger.failure("failure", body.failure)
            ledger.text("worker", body.worker)
        case r.ActivityUncertain():
            _stands(ledger, envelope, UNCERTAIN, body.attempt)
            ledger.failure("failure", body.failure)
            ledger.text("worker", body.worker)
        case _:
            _settled(ledger, envelope, body)
    return ledger.change(LEDGER)


def withheld(envelope: r.Envelope, activity_id: str, proposal_id: str) -> Change:
    """Which approval the activity waits for by now: policy asks for it."""
    ledger = Values(envelope, activity_id)
    ledger.row["approval"] = BY_POLICY
    ledger.text("proposal_id", proposal_id)
    return ledger.change(LEDGER)


def compensated(envelope: r.Envelope, activity_id: str, by: str) -> Change:
    """Which activity takes its effect back; how that ended is in the row of that one."""
    ledger = Values(envelope, activity_id)
    ledger.text("compensated_by", by)
    return ledger.change(LEDGER)


def _settled(
    ledger: Values,
    envelope: r.Envelope,
    body: r.ActivityCompleted | r.ActivityFailed | r.ActivityResolved | r.ActivityCancelled,
) -> None:
    row = ledger.row
    row["settled_at_ms"] = envelope.at_ms
    match body:
        case r.ActivityCompleted():
            _stands(ledger, envelope, COMPLETED, body.attempt)
            row.update(result_digest=body.result.digest.hex(), failure=None)
            row["recovered"] = body.recovered
            ledger.text("worker", body.worker)
        case r.ActivityFailed():
            _stands(ledger, envelope, FAILED, body.attempt)
            ledger.failure("failure", body.failure)
            ledger.text("worker", body.worker)
        case r.ActivityResolved():
            _stands(ledger, envelope, body.resolution, body.attempt)
            ledger.text("resolved_by", envelope.actor)
            ledger.text("comment", body.comment)
            if body.result is not None:
                row.update(result_digest=body.result.digest.hex(), failure=None)
        case r.ActivityCancelled():
            _stands(ledger, envelope, CANCELLED, body.attempt)
            ledger.text("cancel_reason", body.reason)


def _intent(ledger: Values, envelope: r.Envelope, body: r.ActivityRequested) -> None:
    ledger.row.update(
        turn=body.turn,
        step=body.step,
        digest=body.digest.hex(),
        approval=body.approval,
        requested_at_ms=envelope.at_ms,
        deadline_ms=body.deadline_ms,
        settled_at_ms=None,
        untrusted=body.untrusted,
    )
    _next_attempt(ledger, envelope, body.attempt, body.withheld_ms)
    ledger.text("action", body.name)
    ledger.text("queue", body.queue)
    ledger.text("contract", body.contract)
    ledger.text("idempotency_key", body.idempotency_key)
    ledger.text("asked_by", envelope.actor)
    ledger.text("on_behalf_of", envelope.on_behalf_of)
    ledger.text("proposal_id", body.proposal_id)
    ledger.text("on_uncertain", body.on_uncertain)
    ledger.text("compensates", body.compensates)


def _next_attempt(
    ledger: Values, envelope: r.Envelope, attempt: int, withheld_ms: int | None
) -> None:
    """An attempt is handed out: nobody has begun it yet. What the one before told of its progress is handed to it.

    Or it is withheld until somebody approves it, and its time stands still.
    """
    ledger.row["started_at_ms"] = None
    _stands(ledger, envelope, "requested" if withheld_ms is None else WITHHELD, attempt)
    if withheld_ms is not None:
        ledger.row["deadline_ms"] = None


def _stands(ledger: Values, envelope: r.Envelope, status: str, attempts: int) -> None:
    ledger.row.update(status=status, since_ms=envelope.at_ms, attempts=attempts, retry_due_ms=None)


def _told(progress: r.Payload) -> str:
    """Progress in one short text: a text as it is, other JSON as it was stored, or how much lies elsewhere."""
    if progress.inline is None or progress.encoding != "json":
        return f"{progress.size} bytes of {progress.encoding}"
    stored = progress.inline.decode("utf-8", "backslashreplace")
    try:
        value = json.loads(stored)
    except (ValueError, RecursionError):
        value = stored
    told = value if isinstance(value, str) else stored
    return told if len(told) <= PROGRESS_MAX else f"{told[: PROGRESS_MAX - 1]}…"
