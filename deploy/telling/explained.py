"""One session in words, as one object: what happened, what it waits for, what may come next, and the way out of a hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...commands.next_valid import next_valid, obligations
from ...events.errors import Unfoldable
from ...events.evolve import evolve
from ...events.log.protocol import Record
from ...events.records import Event
from ...events.state import State
from .not_let_in import not_let_in
from .story import Story
from .words import as_json, resolving, waits_among, wanting

STANDS = {
    "Opened": "is open, and nothing was asked of it yet",
    "Running": "is in turn {turn}",
    "Waiting": "waits in turn {turn}",
    "Suspended": "rests after turn {turn}, until the next message",
    "Recovering": "is held in turn {turn}: it goes on once somebody releases it",
    "Compensating": "is ending in turn {turn}, and takes back what it did: the last effect first",
    "Completed": "has ended with its outcome, in turn {turn}",
    "Failed": "has failed, in turn {turn}",
    "Cancelled": "was cancelled, in turn {turn}",
}


MENDING = {
    "nondeterminism": "deploy the code that took the recorded path, or guard the change with 'turn.version(…)', or raise the version",
    "does_not_fold": "deploy code that reads this history, and start the processors again",
    "workflow_missing": "deploy the workflow in that version, or set another rollout ('wakeful rollout show')",
    "workflow_raised": "mend what raised in the workflow, and deploy it",
    "handle_unreadable": "let what attaches the resource return a type that reads the stored handle, and deploy it",
    "wrong_signal": "let the workflow catch WrongSignal, or take that signal as it is, and deploy it (the turn is given the same signal again)",
    "workflow_misuse": "mend the workflow, and deploy it",
    "state_unreadable": "let the workflow's state type read what is stored, or give it upgrade=, and deploy it",
    "state_unserialisable": "let the workflow return what can be stored, and deploy it",
    "workflow_stuck": "mend what spins or blocks in the workflow, and deploy it",
    "workflow_spins": "let each round of the workflow's loop, or of 'turn.again', await what comes later, and deploy it",
    "process_died": "find out why the processor died of this command, and mend it",
    "engine_fault": "this is a fault of Wakeful: report it, with the processors' log",
    "verification_failed": "look at what its verification said",
    "payload_missing": "bring the payload back into the store of blobs (WAKEFUL_BLOBS)",
    "quarantined": "it was recovered again and again and did not go on: see what its workflow does, mend it and deploy",
    "compensation_failed": "see why the activity failed that takes the effect back, and mend it: a release tries it again; "
    "cancelled now, the session ends and the rest stays as it is",
    "payload_damaged": "restore the payload in the store of blobs (WAKEFUL_BLOBS)",
    "payload_unavailable": "bring the store of blobs (WAKEFUL_BLOBS) back",
}
"""What to do before a release, by the reason of a hold."""


@dataclass(slots=True)
class Found:
    """A session's row, what it asks of people (approvals, doubts), its last events, and what could not be had."""

    row: dict[str, Any]
    approvals: list[dict[str, Any]]
    uncertain: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def folded(events: Sequence[Event]) -> State | None:
    """The session's state; null where these are not all of its events, or they do not fold."""
    state: State | None = None
    for number, event in enumerate(events, start=1):
        if event.envelope.seq != number:
            return None
        try:
            state = evolve(state, event)
        except Unfoldable:
            return None
    return state


def explained(
    found: Found, story: Story, state: State | None, letters: Sequence[Record] = ()
) -> dict[str, Any]:
    """All that is told, as one JSON object. Without a state the views say what it awaits, as of its last rest."""
    row = found.row
    owed = row["waiting_for"] if state is None else as_json(waits_among(obligations(state)))
    valid = row["next_valid"] if state is None else as_json(next_valid(state))
    names = ("session_id", "tenant", "workflow", "workflow_version", "status", "turn")
    return {
        **{name: row[name] for name in names},
        "stands": STANDS.get(row["status"], row["status"]).format(turn=row["turn"]),
        "since_ms": int(row["updated_at"].timestamp() * 1000),
        "story": as_json(story.chapters),
        "waits_for": [_awaited(owed, found, story) for owed in owed or []],
        "holds": row["holds"] if state is None else _holds(state),
        "tainted_by": row["tainted_by"] if state is None else list(state.tainted_by),
        "next": [one for one in valid or [] if one["allowed"]],
        "not_next": [one for one in valid or [] if not one["allowed"]],
        "next_is_of_now": state is not None,
        "held": _held(row, 0 if state is None else len(state.parked)),
        "not_let_in": not_let_in(letters, state),
        "in_doubt": [_doubt(one) for one in found.uncertain],
    }


def _holds(state: State) -> list[dict[str, Any]]:
    """The resources that it holds, as the views show them."""
    return [
        {"kind": one.kind, "id": one.resource_id, "expires_at_ms": one.expires_at_ms}
        for one in state.resources
        if not one.gone
    ]


def _awaited(owed: dict[str, Any], found: Found, story: Story) -> dict[str, Any]:
    """A wait, since when, and the command that ends it; none where it ends by itself, or is told as a doubt."""
    told = ""
    if owed["kind"] != "uncertain":
        told = wanting(owed["kind"], owed["id"], owed["name"], found.row["session_id"])
    how = told.partition(": ")[2]
    asked = (a for a in found.approvals if owed["id"] in (a["proposal_id"], a.get("activity_id")))
    because: list[str] = next((a["because"] for a in asked), [])
    return {**owed, "since_ms": story.since_ms.get(owed["id"]), "how": how, "because": because}


def _held(row: dict[str, Any], parked: int) -> dict[str, Any] | None:
    """Why it is held, what to mend, and the commands that end a hold."""
    if not row["held_reason"]:
        return None
    session_id, reason = row["session_id"], row["held_reason"]
    return {
        "reason": reason,
        "detail": row["held_detail"] or "",
        "kept_commands": parked,
        "mend": MENDING.get(reason, "find out why in the processors' log, and mend it"),
        "release": f"wakeful session release {session_id}",
        "or_back": _way_back(row),
        "or_end": f"wakeful session cancel {session_id}",
    }


def _way_back(row: dict[str, Any]) -> str:
    """The command that takes it back to the end of a turn; empty where it takes effects back, or no turn has begun."""
    mends = row["held_reason"] not in ("compensation_failed", "does_not_fold")
    return f"wakeful repair reset {row['session_id']}" if mends and row["turn"] else ""


def _doubt(row: dict[str, Any]) -> dict[str, Any]:
    """An activity that nobody knows the end of: why, where to look, and how to say what was found."""
    failure = row["failure"] or {}
    return {
        "activity_id": row["activity_id"],
        "name": row["action"],
        "contract": row["contract"],
        "why": failure.get("message") or failure.get("kind") or "",
        "look": f"look where {row['action']} leaves its mark for the key {row['idempotency_key']}",
        "resolve": resolving(row["session_id"], row["activity_id"]),
    }
