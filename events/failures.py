"""The words for how an attempt failed, as they are stored: a failure's kind, and the limit that a time-out names."""

from __future__ import annotations

RAISED = "raised"
"""The function raised."""

NOTHING_DONE = "nothing_done"
"""It raised, and says itself that it has changed nothing."""

TIMED_OUT = "timed_out"
"""It was over one of the three limits below."""

LOOK_UP_FAILED = "look_up_failed"
"""Nobody knows whether it was done, and another attempt looks it up again."""

CUT_OFF = "cut_off"
"""Its worker ended in the middle of a call that is made once, or of any call too often."""

STOPPED = "stopped"
"""Its worker stopped it, since nobody waits for it any more: it may have done something before. Said of an attempt
that is over, so no activity ends so."""

UNKNOWN_ACTIVITY = "unknown_activity"
"""The worker's code has none of this name."""

WRONG_ARGUMENTS = "wrong_arguments"
"""The worker's code does not take the recorded arguments."""

ARGUMENTS_UNAVAILABLE = "arguments_unavailable"
"""They lie in a store that does not give them."""

NO_CREDENTIALS = "no_credentials"
"""The provider gave none, so nothing ran."""

UNSERIALISABLE_RESULT = "unserialisable_result"
"""What it returned has no JSON form, or does not read back as its type."""

RESULT_TOO_LARGE = "result_too_large"
"""What it returned is over the limit."""

RESULT_NOT_STORED = "result_not_stored"
"""What it returned belongs into a store that does not take it."""

UNAPPROVED = "unapproved"
"""Policy wanted this attempt approved, and nobody did, so it was not made; no worker reports this."""

FORBIDDEN = "forbidden"
"""Policy forbids this attempt whatever anybody approves, so it was not made; no worker reports this."""

JOB_FAILED, JOB_EXPIRED = "job_failed", "job_expired"
"""Of an external job: whoever does it said that it will not be done, or nobody said anything in time."""

CHILD_FAILED, CHILD_CANCELLED, CHILD_EXPIRED = "child_failed", "child_cancelled", "child_expired"
"""Of a child: it failed, was cancelled by somebody else, or had not ended in time."""

CHILD_NOT_STARTED = "child_not_started"
"""It was never opened: its workflow is not loaded, or its tenant asks for too many sessions."""

RESOURCE_LOST = "resource_lost"
"""It found a resource gone that its session holds; the failure's type is the kind of it."""

WORKER_STOPS = "worker_stops"
"""Why an attempt is given back: its worker ends, and has not begun it."""

AUTHORITY_STALE = "authority_stale"
"""Why an attempt is given back: the authority by which it was let go has aged, and it was not begun."""

NOT_WANTED = "not_wanted"
"""Why an attempt is given back: nobody waits for it any more, and it was not begun."""

TAKEN_OVER = "authority_stale_taken_over"
"""The same of an attempt that another worker had before, and may have begun."""

KINDS = (
    RAISED,
    NOTHING_DONE,
    TIMED_OUT,
    LOOK_UP_FAILED,
    CUT_OFF,
    UNKNOWN_ACTIVITY,
    WRONG_ARGUMENTS,
    ARGUMENTS_UNAVAILABLE,
    NO_CREDENTIALS,
    UNSERIALISABLE_RESULT,
    RESULT_TOO_LARGE,
    RESULT_NOT_STORED,
    RESOURCE_LOST,
)
"""How an attempt may fail, as a worker reports it."""

START_TO_CLOSE = "start_to_close"
"""Type of the failure of an attempt that took too long."""

SCHEDULE_TO_CLOSE = "schedule_to_close"
"""Type of the failure that ends an activity at its deadline, attempts left or not."""

STALLED = "stalled"
"""The type of an attempt's failure that somebody gave up, as it had stalled."""

HEARTBEAT = "heartbeat"
"""Type of the failure of an attempt that was silent for too long."""
