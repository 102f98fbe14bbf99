"""What became of a command: from the views where they have it, from the log where they do not yet."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from ...commands.sending import Receipt
from ...events.errors import Transient
from ...events.keys import session_key
from ...events.log.protocol import Place
from ...projections.queries import Queries
from ..faults import is_database
from ..telling.looking_back import look_back
from ..telling.watching import Verdict
from .bodies import Accepted, Fate
from .principals import May, Principal
from .problems import Problem
from .recent import Found
from .services import Services

STALE = "stale_state"

NEXT_STEPS = {
    STALE: "GET the session, look at what has changed, and ask again with its ETag",
    "unknown_session": "POST /v1/sessions with this session_id, then ask again",
    "not_uncertain": "GET the session for the activities that are",
    "already_settled": "GET the session for what became of it",
    "wrong_result": "give as 'result' what the tool would have returned, with 'completed' alone",
    "unknown_job": "GET /v1/jobs with this session_id for those that are awaited",
    "not_held": "GET the session: it goes on by itself",
    "wrong_digest": "GET the approval, look at the action as it is now, and decide with its digest",
}
"""What to do about refusals whose own words do not say it, over HTTP."""

STATES = {"accepted": "applied", "refused": "refused", "parked": "kept"}
"""A disposition of the views, as a state."""

CLOCKS_MS = 10_000
"""By how much the clocks of a broker and a processor may differ."""

_POSITION = re.compile(r"([0-9]{1,9}):([0-9]{1,18})", re.ASCII)

T = TypeVar("T")

logger = structlog.get_logger("wakeful.gateway")


def accepted(session_id: str, command_id: str, partition: int, offset: int) -> Accepted:
    """What is told of a command that the log has."""
    at = f"{partition}:{offset}"
    url = f"/v1/sessions/{session_id}/commands/{command_id}?position={at}"
    return Accepted(
        session_id=session_id, command_id=command_id, status_url=url, command_position=at
    )


def told(receipt: Receipt) -> Accepted:
    """The same of a receipt."""
    return accepted(receipt.session_id, receipt.command_id, receipt.partition, receipt.offset)


def fate(about: Accepted, verdict: Verdict, position: str | None = None) -> Fate:
    """A verdict, as it is told."""
    return Fate.model_validate(
        {
            **about.model_dump(),
            "state": verdict.kind,
            "reason": verdict.reason or None,
            "detail": verdict.detail or None,
            "next_step": NEXT_STEPS.get(verdict.reason),
            "position": None if verdict.kind == "undecided" else position,
        }
    )


def fate_of(
    shared: Services, who: Principal, session_id: str, command_id: str, position: str | None
) -> Fate:
    """What became of a command of this id; `Problem` 404 where there is no trace of one of this tenant.

    Who may see no sessions is told of its own commands, and the same 404 of all others.
    """
    place = None if position is None else _place(shared, position)
    row = first_outcome(shared, who, session_id, command_id)
    if row is not None and _may_know(who, row["actor"]):
        about = accepted(session_id, command_id, row["partition"], row["command_offset"])
        verdict = Verdict(STATES[row["disposition"]], row["reason"] or "", row["detail"] or "")
        return fate(about, verdict, row["at"])
    key = session_key(who.tenant, session_id)
    found = (
        shared.recent.find(key, command_id)
        if place is None
        else shared.recent.at(key, command_id, *place)
    )
    if found is None or not _may_know(who, found.actor):
        raise Problem(
            404,
            "unknown_command",
            f"no command {command_id!a} of session {session_id!r} here: use 'status_url' as it was given",
        )
    about = accepted(session_id, command_id, found.place.partition, found.offset)
    decided = (
        shared.backlog.next_offset(found.place) > found.offset
    )  # asked first: its facts are there then
    verdict_at = look_back(
        shared.log,
        shared.topics,
        (who.tenant, session_id),
        command_id,
        since_ms=(found.at_ms or 0) - CLOCKS_MS,
    )
    if verdict_at is not None:
        return fate(about, *verdict_at)
    return fate(about, Verdict("repeat" if decided else "undecided"))


def first_outcome(
    shared: Services, who: Principal, session_id: str, command_id: str
) -> dict[str, Any] | None:
    """The view's row of the first command with this id, and `at`, where the views were then; null where they have none."""

    def ask(views: Queries) -> dict[str, Any] | None:
        rows = views.outcomes(session_id=session_id, command_id=command_id)
        row = next((row for row in rows if row["command"] is not None), None)
        return None if row is None else {**row, "at": views.position()}

    return _from_views(shared, who, ask)


def known_seq(shared: Services, who: Principal, session_id: str) -> int | None:
    """The session's version, as far as the views know."""

    def ask(views: Queries) -> int | None:
        return next((int(row["seq"]) for row in views.session(session_id)), None)

    return _from_views(shared, who, ask)


def _from_views(shared: Services, who: Principal, ask: Callable[[Queries], T | None]) -> T | None:
    """Writes do not depend on the views: where these do not answer, nothing is known, and the log will tell."""
    try:
        with shared.queries(who) as views:
            return ask(views)
    except Transient as silent:
        logger.info("the views were not asked", why=str(silent))
    except Exception as error:
        if not is_database(error):
            raise
        logger.info("the views were not asked", why=type(error).__name__)
    return None


def earlier(shared: Services, who: Principal, session_id: str, command_id: str) -> Found | None:
    """The command of this id that the log or the views know already."""
    key = session_key(who.tenant, session_id)
    found = shared.recent.find(key, command_id)
    if found is not None:
        return found
    row = first_outcome(shared, who, session_id, command_id)
    if row is None:
        return None
    place = Place(shared.topics.commands, row["partition"])
    kept = shared.recent.at(key, command_id, place, row["command_offset"])
    return kept or Found(place, row["command_offset"], None, None, row["actor"])


def _may_know(who: Principal, actor: str | None) -> bool:
    return May.SEE in who.permissions or actor == who.actor


def _place(shared: Services, position: str) -> tuple[Place, int]:
    match = _POSITION.fullmatch(position)
    if match is None:
        told = (
            f"position {position[:40]!a}: give the 'command_position' of the answer, such as 0:17"
        )
        raise Problem(422, "wrong_position", told)
    partition, offset = int(match[1]), int(match[2])
    if partition >= shared.log.partitions(shared.topics.commands):
        told = f"position {position!r} names partition {partition}, which is not there: use 'status_url' as it was given"
        raise Problem(422, "wrong_position", told)
    return Place(shared.topics.commands, partition), offset
