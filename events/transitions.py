"""The lifecycle of a session, as a table; the diagram in `docs/` is drawn from it.

Rules:
- A row is (from, event, to). `None` is "no session yet".
- An event with no row for any status never moves a session (see `STILL`).
- An event that has rows, met in a status without one, does not fold: the session is held.
- A repeat of a wait's end in Running stays in Running: several waits may end in one batch.
"""

from __future__ import annotations

from . import records as r
from .state import Status as S

Row = tuple[str | None, type, str]

_OPEN = (S.OPENED, S.RUNNING, S.WAITING, S.SUSPENDED, S.RECOVERING)
_WAIT_ENDS = (r.ApprovalGranted, r.ApprovalRejected, r.ApprovalExpired, r.TimerFired)

ROWS: tuple[Row, ...] = (
    (None, r.SessionOpened, S.OPENED),
    (S.OPENED, r.TurnStarted, S.RUNNING),
    (S.SUSPENDED, r.TurnStarted, S.RUNNING),
    (S.RUNNING, r.SessionWaiting, S.WAITING),
    *((S.WAITING, ends, S.RUNNING) for ends in _WAIT_ENDS),
    *((S.RUNNING, ends, S.RUNNING) for ends in _WAIT_ENDS),
    (S.RUNNING, r.TurnCompleted, S.SUSPENDED),
    (S.RUNNING, r.SessionCompleted, S.COMPLETED),
    (S.RUNNING, r.SessionFailed, S.FAILED),
    (S.RUNNING, r.NondeterminismFound, S.RECOVERING),
    *((status, r.SessionHeld, S.RECOVERING) for status in _OPEN if status != S.RECOVERING),
    (S.RECOVERING, r.SessionReleased, S.OPENED),
    (S.RECOVERING, r.SessionReleased, S.RUNNING),
    (S.RECOVERING, r.SessionReleased, S.SUSPENDED),
    *((status, r.SessionCancelled, S.CANCELLED) for status in _OPEN),
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
    lines += [f"    {ended} --> [*]" for ended in (S.COMPLETED, S.FAILED, S.CANCELLED)]
    return "\n".join(lines)
