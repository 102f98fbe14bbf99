"""The lifecycle of a session, as a table; the diagram in `docs/` is drawn from it.

Rules:
- A row is (from, event, to). `None` is "no session yet".
- An event with no row for any status never moves a session (see `STILL`).
- An event that has rows, met in a status without one, does not fold: the session is held.
- A repeat of a wait's end in Running stays in Running: several waits may end in one batch.
"""

from __future__ import annotations

from . import records as r
from .state import Status

Row = tuple[str | None, type, str]

_OPEN = (Status.OPENED, Status.RUNNING, Status.WAITING, Status.SUSPENDED, Status.RECOVERING)
_CHILD_ENDS = (r.ChildCompleted, r.ChildFailed, r.ChildCancelled, r.ChildExpired)
_COMPENSATES = (
    r.ApprovalGranted,
    r.ApprovalRejected,
    r.ApprovalExpired,
    r.ActivityResolved,
    r.ActivityCompleted,
    r.ActivityFailed,
    *_CHILD_ENDS,
)
"""Ends of waits that what takes an effect back may have, and of children that are cancelled with it."""
_WAIT_ENDS = (
    r.ApprovalGranted,
    r.ApprovalRejected,
    r.ApprovalExpired,
    r.ApprovalAnswered,
    r.TimerFired,
    r.SignalDelivered,
    r.InboxTaken,
    r.JobCompleted,
    r.JobFailed,
    r.JobExpired,
    *_CHILD_ENDS,
    r.ActivityResolved,
    r.ActivityCompleted,  # the late result of one that was uncertain; else met in Running
    r.ActivityFailed,  # the same
)

ROWS: tuple[Row, ...] = (
    (None, r.SessionOpened, Status.OPENED),
    (Status.OPENED, r.TurnStarted, Status.RUNNING),
    (Status.SUSPENDED, r.TurnStarted, Status.RUNNING),
    (Status.RUNNING, r.SessionWaiting, Status.WAITING),
    (Status.WAITING, r.SessionWaiting, Status.WAITING),  # for another proposal than before
    *((Status.WAITING, ends, Status.RUNNING) for ends in _WAIT_ENDS),
    *((Status.RUNNING, ends, Status.RUNNING) for ends in _WAIT_ENDS),
    (Status.RUNNING, r.TurnCompleted, Status.SUSPENDED),
    (Status.RUNNING, r.SessionCompleted, Status.COMPLETED),
    (Status.RUNNING, r.SessionFailed, Status.FAILED),
    (Status.RUNNING, r.NondeterminismFound, Status.RECOVERING),
    *(
        (status, r.SessionHeld, Status.RECOVERING)
        for status in _OPEN
        if status != Status.RECOVERING
    ),
    (Status.RECOVERING, r.SessionReleased, Status.OPENED),
    (Status.RECOVERING, r.SessionReleased, Status.RUNNING),
    (Status.RECOVERING, r.SessionReleased, Status.SUSPENDED),
    *(
        (status, r.SessionReset, Status.SUSPENDED)
        for status in _OPEN
        if status != Status.OPENED  # no turn has begun, so there is nothing to go back to
    ),
    *((status, r.SessionCancelled, Status.CANCELLED) for status in _OPEN),
    *(
        (status, r.CompensationStarted, Status.COMPENSATING)
        for status in _OPEN
        if status != Status.OPENED  # nothing was done yet
    ),
    *((Status.COMPENSATING, ends, Status.COMPENSATING) for ends in _COMPENSATES),
    (Status.COMPENSATING, r.SessionHeld, Status.RECOVERING),
    (Status.RECOVERING, r.SessionReleased, Status.COMPENSATING),
    (Status.COMPENSATING, r.SessionCancelled, Status.CANCELLED),
    (Status.COMPENSATING, r.SessionFailed, Status.FAILED),
)

_TARGETS: dict[tuple[str | None, type], tuple[str, ...]] = {}
for _from, _event, _to in ROWS:
    _TARGETS[_from, _event] = (*_TARGETS.get((_from, _event), ()), _to)

MOVERS = frozenset(event for _, event, _ in ROWS)
"""Events that move a session; every other one leaves its status as it is."""


def targets(status: str | None, event: type) -> tuple[str, ...]:
    """Where this event may lead from here: empty where it may not happen at all.

    An event that never moves a session leads from an existing session to where it stands.
    """
    if event in MOVERS:
        return _TARGETS.get((status, event), ())
    return () if status is None else (status,)


def mermaid() -> str:
    """The table as a Mermaid state diagram, one arrow per (from, to)."""
    arrows: dict[tuple[str | None, str], list[str]] = {}
    for source, event, target in ROWS:
        arrows.setdefault((source, target), []).append(event.__name__)
    lines = ["stateDiagram-v2"]
    for (source, target), events in arrows.items():
        lines.append(f"    {source or '[*]'} --> {target}: {', '.join(events)}")
    lines += [
        f"    {ended} --> [*]" for ended in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
    ]
    return "\n".join(lines)
