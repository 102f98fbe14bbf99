"""Wakeful: durable agent sessions on Kafka. This module is the front door: what users import."""

from pathlib import Path as _Path

# Git without symlink support leaves a text file where a link to a folder belongs, and a wheel built
# from such a checkout has nothing there at all.
if not (_Path(__file__).parent / "events").is_dir():
    raise ImportError(
        "this checkout of wakeful has text files where links to folders belong: clone it again "
        "with `git clone -c core.symlinks=true`, or install a wheel"
    )

from .processors.activities.beats import AttemptCancelled
from .processors.activities.contracts import (
    NothingDone,
    Read,
    ResourceLost,
    Retry,
    RetryLater,
    Write,
)
from .processors.activities.credentials import Access, credentials
from .processors.activities.definitions import Action, Activity, activity
from .processors.activities.inside import cancelled, emit, heartbeat, progress
from .processors.activities.rules import Needs
from .processors.workflow.approval import Approval
from .processors.workflow.child import Child
from .processors.workflow.definitions import Message, Workflow, workflow
from .processors.workflow.errors import (
    ActivityError,
    ChildError,
    JobError,
    UnapprovedAction,
    Uncertain,
    VerificationFailed,
    WrongResult,
    WrongSignal,
)
from .processors.workflow.job import Job
from .processors.workflow.resources import Resource
from .processors.workflow.turn import Turn
from .processors.workflow.waits import Winner

__all__ = [
    "Access",
    "Action",
    "Activity",
    "ActivityError",
    "Approval",
    "AttemptCancelled",
    "Child",
    "ChildError",
    "Job",
    "JobError",
    "Message",
    "Needs",
    "NothingDone",
    "Read",
    "Resource",
    "ResourceLost",
    "Retry",
    "RetryLater",
    "Turn",
    "UnapprovedAction",
    "Uncertain",
    "VerificationFailed",
    "Winner",
    "Workflow",
    "Write",
    "WrongResult",
    "WrongSignal",
    "activity",
    "cancelled",
    "credentials",
    "emit",
    "heartbeat",
    "progress",
    "workflow",
]
