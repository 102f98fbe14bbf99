"""What the views know of schedules: which there are, which one has a name now, what it has set to work."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..exits import Exit, Stopped

if TYPE_CHECKING:
    from ...projections.queries import Queries
    from ..settings import Settings

NEXT_SHOWN = 5
RUNS_SHOWN = 5

_OF_SCHEDULES = """
SELECT s.* FROM {views}.terms t JOIN {views}.sessions s ON s.tenant = t.tenant AND s.session_id = t.session_id
WHERE t.tenant = %(tenant)s
"""

LIST = (
    _OF_SCHEDULES
    + """
AND t.term IN ('paused=false', 'paused=true') AND s.workflow = %(workflow)s
AND s.status NOT IN ('Completed', 'Failed', 'Cancelled')
ORDER BY s.attributes ->> 'next' NULLS LAST, s.session_id LIMIT %(limit)s
"""
)

_NAMED = (
    _OF_SCHEDULES
    + """
AND t.term = %(term)s AND s.workflow = %(workflow)s ORDER BY s.opened_at DESC, s.session_id DESC LIMIT %(limit)s
"""
)

_RUNS = (
    _OF_SCHEDULES
    + """
AND t.term = %(term)s ORDER BY t.since_ms DESC, s.session_id DESC LIMIT %(limit)s
"""
)

_REFUSED = """
SELECT refused_at, reason, detail FROM {views}.refusals
WHERE tenant = %(tenant)s AND session_id = %(session_id)s AND command = 'StartRun' ORDER BY refused_at_ms DESC LIMIT %(limit)s
"""

GENERATIONS_MAX = 1_000
"""Schedules that one name is told of: those that have ended keep their sessions."""


def of_name(given: Settings, views: Queries, name: str) -> list[dict[str, Any]]:
    """The schedules of this name, the newest first; all but that one have ended."""
    from ...processors.schedules.spec import BY_NAME, WORKFLOW
    from .showing import catch_up

    catch_up(given, views, None)
    term = _term(BY_NAME, name)
    return views.ask(
        _NAMED, tenant=given.tenant, term=term, workflow=WORKFLOW, limit=GENERATIONS_MAX
    )


def _term(attribute: str, name: str) -> str:
    from ...events import attributes

    return attributes.wanted([f"{attribute}={name}"])


def next_generation(given: Settings, name: str) -> int:
    """The number of the next schedule of this name; `Stopped` while there is one.

    One that was opened and never told what it is keeps its number: its maker goes on with it.
    """
    from .context import queries

    with queries(given) as views:
        rows = of_name(given, views, name)
    if rows and is_half_made(rows[0]):
        return len(rows)
    if rows and not has_ended(rows[0]):
        raise Stopped(
            Exit.REFUSED,
            f"there is a schedule {name!r} ({standing(rows[0])}): 'wakeful schedule delete {name}' ends it, or take another name",
        )
    return len(rows) + 1


def open_one(given: Settings, name: str) -> str:
    """The session of the schedule of this name."""
    from .context import queries

    _checked(name)
    with queries(given) as views:
        rows = of_name(given, views, name)
    if not rows:
        raise _unknown(given, name)
    if has_ended(rows[0]):
        raise Stopped(
            Exit.REFUSED,
            f"schedule {name!r} has ended ({standing(rows[0])}): 'wakeful schedule create {name} …' makes another",
        )
    return str(rows[0]["session_id"])


def looked_up(
    given: Settings, name: str
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any] | None]:
    """Its row, its last runs, and the last of them that was refused."""
    from ...processors.schedules.spec import SCHEDULED_BY
    from .context import queries

    _checked(name)
    with queries(given) as views:
        rows = of_name(given, views, name)
        if not rows:
            raise _unknown(given, name)
        row, tenant = rows[0], given.tenant
        runs = views.ask(_RUNS, tenant=tenant, term=_term(SCHEDULED_BY, name), limit=RUNS_SHOWN)
        target = row["attributes"].get("session")
        refused = views.ask(_REFUSED, tenant=tenant, session_id=target, limit=1) if target else []
    return row, runs, refused[0] if refused else None


def _checked(name: str) -> str:
    """The name, if a schedule may have it."""
    from ...processors.schedules.spec import why_no_name

    if told := why_no_name(name):
        raise Stopped(Exit.USAGE, told)
    return name


def _unknown(given: Settings, name: str) -> Stopped:
    told = f"no schedule {name!r} of tenant {given.tenant}: see 'wakeful schedule list'"
    return Stopped(Exit.NOT_FOUND, told)


def has_ended(row: dict[str, Any]) -> bool:
    return row["status"] in ("Completed", "Failed", "Cancelled")


def is_half_made(row: dict[str, Any]) -> bool:
    """Whether it has been opened, and not been told yet when it is due."""
    return not has_ended(row) and not row["held_reason"] and "cron" not in row["attributes"]


def standing(row: dict[str, Any]) -> str:
    """Where it stands, as people say it of a schedule."""
    if row["held_reason"]:
        return f"held ({row['held_reason']})"
    if has_ended(row):
        return "deleted" if row["status"] == "Cancelled" else "ended"
    if is_half_made(row):
        return "not made yet"
    return "paused" if row["attributes"].get("paused") else "active"


def coming(found: dict[str, Any]) -> list[str]:
    """The next times, as its own clock shows them; the first is the one that it sleeps until."""
    from ...processors.schedules.times import moment, to_ms, upcoming, zone_of

    if "next" not in found:
        return []
    first_ms = to_ms(datetime.fromisoformat(found["next"]))
    limit_ms = to_ms(datetime.fromisoformat(found["until"])) if "until" in found else None
    later = upcoming(found["cron"], found["timezone"], first_ms, NEXT_SHOWN - 1)
    times = [one for one in (first_ms, *later) if limit_ms is None or one <= limit_ms]
    zone = zone_of(found["timezone"])
    return [moment(one).astimezone(zone).isoformat() for one in times]
