"""One approval as a person must see it to decide: what exactly is done, from which data, who may say so, and what changed.

What was shown goes along with the answer. Where it is no longer what is, the answer is refused here, with what changed;
the log itself lets no decision through that names another digest or a proposal that no longer stands.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....events import records as r
from ....events.keys import ID
from ....events.verdicts import EDIT, RESPOND
from ...telling.story import ALONE
from ...telling.words import as_json
from ..problems import Problem
from .pages import pretty
from .visits import Visit

ALL_OF_A_SESSION = 1_000

CHANGES_MAX = 20

TELLING = (
    *(r.MessageReceived, r.ArtifactChanged, r.ArtifactRecorded, r.SignalReceived),
    *(r.SessionHeld, r.SessionReleased, r.SessionReset, r.CancellationRequested),
)
"""Facts that somebody who decides should know of."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The row, its session's row, and from the events: what it relies on, who voted, and what happened since."""

    row: dict[str, Any]
    arguments: Any
    session: dict[str, Any]
    relies_on: tuple[r.Version, ...]
    now_at: Mapping[str, str]
    votes: tuple[str, ...]
    since: Sequence[tuple[int, str]]
    successor: dict[str, Any] | None
    predecessor: dict[str, Any] | None
    arguments_before: Any = None

    @property
    def open(self) -> bool:
        """Whether it waits for a decision."""
        return bool(self.row["status"] == "requested")

    @property
    def answers(self) -> tuple[str, ...]:
        """What may be answered: where policy asks, nobody waits for an edit or a word."""
        every = ("approve", EDIT, RESPOND, "reject")
        return every if self.row["activity_id"] is None else ("approve", "reject")

    @property
    def shown(self) -> str:
        """What somebody who decides has seen, for `changes`."""
        return json.dumps(
            {
                "status": self.row["status"],
                "digest": self.row["digest"],
                "votes": list(self.votes),
                "messages": self.session["messages"],
                "data": dict(self.now_at),
                "tainted": list(self.session["tainted_by"]),
                "held": self.session["held_reason"] or "",
            },
            sort_keys=True,
        )


def proposal_of(visit: Visit, session_id: str, proposal_id: str) -> Proposal:
    """The approval; `Problem` 404 where there is none, in the same words where it is another tenant's."""
    tenant = visit.principal.tenant
    row, rows, sessions = None, [], []
    with visit.services.queries(visit.principal) as views:
        if ID.fullmatch(session_id) and proposal_id.isprintable():
            row = views.approval(session_id, proposal_id, tenant=tenant)
            rows = views.approvals(
                tenant=tenant, session_id=session_id, status=None, limit=ALL_OF_A_SESSION
            )
            sessions = views.session(session_id, tenant=tenant)
    if row is None or not sessions:
        raise Problem(
            404, "unknown_approval", f"no approval {proposal_id!r} of a session {session_id!r} here"
        )
    session = sessions[0]
    events = visit.events(session_id, session["seq"])
    asked, since = _since(events, proposal_id)
    relies_on = () if asked is None else asked.relies_on
    successor = next((one for one in rows if one["supersedes"] == proposal_id), None)
    predecessor = next((one for one in rows if one["proposal_id"] == row["supersedes"]), None)
    before = None if predecessor is None else _since(events, predecessor["proposal_id"])[0]
    return Proposal(
        row,
        row["arguments"] if asked is None else as_json(asked.arguments),
        session,
        relies_on,
        _artifacts(events),
        tuple(
            e.envelope.actor
            for e in events
            if isinstance(e.body, r.ApprovalVoted) and e.body.proposal_id == proposal_id
        ),
        since,
        successor,
        predecessor,
        None if before is None else as_json(before.arguments),
    )


def changes(shown: str, now: Proposal) -> list[str]:
    """What is no longer as it was shown, in sentences; empty where all is. What cannot be read was never shown here."""
    try:
        was = dict(json.loads(shown))
        data, votes, seen = dict(was["data"]), list(was["votes"]), list(was["tainted"])
        messages = int(was["messages"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return ["the form did not say what it had shown: decide from this page"]
    found, row = [], now.row
    if was.get("status") != row["status"]:
        found.append(_ended(row))
    if was.get("digest") != row["digest"]:
        found.append("the proposed action is another one by now")
    for name, version in now.now_at.items():
        if data.get(name) != version:
            before = f"version {data[name]}" if name in data else "not known"
            found.append(f"{name} was {before}, and is version {version} now")
    found += [f"{actor} has approved it meanwhile" for actor in now.votes if actor not in votes]
    came = now.session["messages"] - messages
    if came > 0:
        found.append(f"{came} more message{'s' * (came != 1)} came in from the conversation")
    found += [
        f"{name} has brought in content that nobody vouches for"
        for name in now.session["tainted_by"]
        if name not in seen
    ]
    if (was.get("held") or "") != (now.session["held_reason"] or ""):
        held = now.session["held_reason"]
        found.append(
            f"the session is held by now: {held}" if held else "the session is no longer held"
        )
    return found


def edited(text: str, before: Any) -> dict[str, Any]:
    """The arguments that a person wrote; `Problem` 422 says what is wrong with them, and what to write."""
    try:
        value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Problem(422, "invalid_arguments", f"the arguments are no JSON ({error})") from None
    if not isinstance(value, dict) or not isinstance(before, dict):
        told = f"the arguments are an object by name, such as {pretty(before)}"
        raise Problem(422, "invalid_arguments", told)
    strange = sorted(set(value) - set(before))
    missing = sorted(set(before) - set(value))
    if strange or missing:
        wrong = [f"unknown: {', '.join(strange)}"] * bool(strange)
        wrong += [f"missing: {', '.join(missing)}"] * bool(missing)
        raise Problem(
            422,
            "invalid_arguments",
            f"{'; '.join(wrong)}. Write {', '.join(sorted(before))}, each once",
        )
    for name, was in before.items():
        if was is not None and _type(value[name]) != _type(was):
            told = f"{name} is {_type(value[name])}, and the tool was to be given {_type(was)}: write one"
            raise Problem(422, "invalid_arguments", told)
    if value == before:
        raise Problem(
            422, "nothing_edited", "the arguments are those that were proposed: approve it instead"
        )
    return value


def difference(before: Any, after: Any) -> list[tuple[str, str]]:
    """The lines of both: `+`, `-` or a space, and the text; none where they are the same."""
    if before == after:
        return []
    was, now = (
        pretty(json.dumps(one, indent=2, ensure_ascii=False, sort_keys=True)).splitlines()
        for one in (before, after)
    )
    lines = difflib.ndiff(was, now)
    return [(line[0], line[2:]) for line in lines if line[0] in "+- "]


def _since(
    events: Sequence[r.Event], proposal_id: str
) -> tuple[r.ApprovalRequested | None, list[tuple[int, str]]]:
    """How it was asked, and what happened since then that somebody who decides should know."""
    asked: r.ApprovalRequested | None = None
    since: list[tuple[int, str]] = []
    for event in events:
        envelope, body = event.envelope, event.body
        if isinstance(body, r.ApprovalRequested) and body.proposal_id == proposal_id:
            asked = body
        elif asked is None:
            continue
        elif isinstance(body, TELLING):
            since.append((envelope.at_ms, ALONE[type(body)](envelope, body)))
        elif isinstance(body, r.ApprovalVoted) and body.proposal_id == proposal_id:
            since.append((envelope.at_ms, f"{envelope.actor} approved it"))
        elif isinstance(body, r.CommandRefused) and proposal_id in body.detail:
            since.append((envelope.at_ms, ALONE[type(body)](envelope, body)))
    return asked, since[-CHANGES_MAX:]


def _artifacts(events: Sequence[r.Event]) -> dict[str, str]:
    """The version that each artifact of the session has now."""
    return {
        e.body.artifact_id: e.body.version
        for e in events
        if isinstance(e.body, r.ArtifactRecorded | r.ArtifactChanged)
    }


def _ended(row: Mapping[str, Any]) -> str:
    by = f" by {row['decided_by']}" if row["decided_by"] else ""
    why = f": {row['comment']}" if row["comment"] else ""
    return f"it was {row['status']}{by} meanwhile{why}"


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    names: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), "null")
