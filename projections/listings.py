"""Lists that are read in pages: by what each may be filtered, and in which order an index then gives its rows.

A combination of filters is offered where an index gives exactly the rows of the page in the order of the page, and not
otherwise: no question reads rows that it does not answer with. `tests/projections/test_plans.py` asks for the plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..events.errors import Rejected
from .sessions import WAITS

Wanted = Mapping[str, str | int]
"""Filters by name; a range is `<name>_since` (inclusive) and `<name>_until` (exclusive), in milliseconds."""

SINCE, UNTIL = "_since", "_until"

TIME_MAX_MS = 1 << 62


class NotOffered(Rejected):
    """No index serves this combination of filters."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way to read a list: the filters that it takes, the columns behind the tenant in the index that serves it.

    `joined` is a view whose index it is, where that is not the list's own.
    """

    filters: tuple[str, ...]
    order: tuple[str, ...]
    ranged: str | None = None
    descending: bool = True
    where: str = "true"
    joined: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list: its view, the columns of its rows, and the ways to read it; the first that fits is taken.

    `numbers` are the columns of any order that are numbers; the others are texts. `times` has the column of each range.
    """

    name: str
    view: str
    columns: str
    routes: Sequence[Route]
    times: Mapping[str, str]
    numbers: frozenset[str]

    def route(self, wanted: Wanted) -> Route:
        """The way that takes exactly these filters; `NotOffered` names those that there are."""
        ranges = {_range(name) for name in wanted} - {None}
        equal = {name for name in wanted if _range(name) is None}
        for route in self.routes:
            if equal == set(route.filters) and ranges <= {route.ranged}:
                return route
        raise NotOffered(
            f"{self.name} by {' and '.join(sorted(wanted)) or 'nothing'}: no index gives that. There are "
            f"{'; '.join(_told(route) for route in self.routes)}. Filter by one of these, and choose among its rows"
        )


def _range(name: str) -> str | None:
    for suffix in (SINCE, UNTIL):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return None


def _told(route: Route) -> str:
    named = " and ".join(route.filters) or "no filter"
    return f"{named} (with {route.ranged}{SINCE}, {route.ranged}{UNTIL})" if route.ranged else named


def _equal(column: str) -> str:
    return f"{column} = %({column})s::text"


def _waiting(kind: str) -> str:
    return f"waits & {WAITS[kind]} <> 0"


_BY_UPDATE = ("updated_at_ms", "session_id")

SESSIONS = Listing(
    "sessions",
    "sessions",
    "session_id, workflow, workflow_version, status, held_reason, turn, trigger, waiting_for, opened_by, opened_at, "
    "updated_at, messages, refusals, cancel_reason, attributes, parent, seq, escaped",
    (
        Route((), _BY_UPDATE, "updated"),
        Route((), ("opened_at_ms", "session_id"), "opened"),
        *(
            Route((name,), _BY_UPDATE, "updated", where=_equal(name))
            for name in ("status", "workflow", "opened_by")
        ),
        Route(
            ("workflow", "status"),
            _BY_UPDATE,
            "updated",
            where=f"{_equal('workflow')} AND {_equal('status')}",
        ),
        Route(("held",), _BY_UPDATE, "updated", where="held_reason IS NOT NULL"),
        *(Route((f"waiting_{k}",), _BY_UPDATE, "updated", where=_waiting(k)) for k in WAITS),
        Route(
            ("attributes",),
            ("since_ms", "found_id"),
            where="term = %(attributes)s::text",
            joined="terms",
        ),
        Route(
            ("id_prefix",),
            ("session_id",),
            descending=False,
            where="session_id >= %(id_prefix)s::text AND session_id < %(id_prefix)s::text || '~'",
        ),
    ),
    MappingProxyType({"updated": "updated_at_ms", "opened": "opened_at_ms"}),
    frozenset({"updated_at_ms", "opened_at_ms", "since_ms"}),
)
"""Newest first; by a term of attributes the one first that came to it last; by the start of their ids in the order of these, in which `~` lies behind all that an id may hold.

What a page shows of a session leaves out what may be large: its last reply, its outcome, its failure.
"""

ARGUMENTS_SHOWN_MAX = 8_192
"""Bytes, as stored, up to which a list of approvals shows what would be done; one approval has all of it."""

_OPEN = "status = 'requested'"
_BY_EXPIRY = ("expires_at_ms", "session_id", "proposal_id")

APPROVALS = Listing(
    "approvals",
    "approvals",
    "session_id, proposal_id, turn, step, action, contract, digest, approver, status, requested_at, expires_at, quorum, "
    "votes, requester, decided_by, decided_on_behalf_of, decided_at, comment, because, supersedes, activity_id, policies, "
    f"CASE WHEN pg_column_size(arguments) <= {ARGUMENTS_SHOWN_MAX} THEN arguments END AS arguments, "
    f"coalesce(pg_column_size(arguments) > {ARGUMENTS_SHOWN_MAX}, false) AS arguments_left_out, seq, escaped",
    (
        Route(("open",), _BY_EXPIRY, "expires", descending=False, where=_OPEN),
        *(
            Route(
                ("open", name),
                _BY_EXPIRY,
                "expires",
                descending=False,
                where=f"{_OPEN} AND {_equal(name)}",
            )
            for name in ("approver", "action")
        ),
        Route(
            ("status",),
            ("requested_at_ms", "session_id", "proposal_id"),
            "requested",
            where=_equal("status"),
        ),
        Route(
            ("session_id",),
            ("turn", "step", "proposal_id"),
            descending=False,
            where=_equal("session_id"),
        ),
    ),
    MappingProxyType({"expires": "expires_at_ms", "requested": "requested_at_ms"}),
    frozenset({"expires_at_ms", "requested_at_ms", "turn", "step"}),
)
"""The open ones with the next to expire first; those of another status with the newest first; of one session in the order of its steps."""

_BY_REQUEST = ("requested_at_ms", "session_id", "activity_id")

LEDGER = Listing(
    "ledger",
    "ledger",
    "session_id, activity_id, turn, step, action, queue, contract, digest, idempotency_key, asked_by, on_behalf_of, "
    "approval, proposal_id, approved_by, attempts, status, requested_at, deadline_at, settled_at, since, started_at, "
    "progress, progress_at, worker, result_digest, recovered, failure, resolved_by, comment, cancel_reason, "
    "late_results, untrusted, on_uncertain, compensates, compensated_by, seq, escaped",
    (
        Route((), _BY_REQUEST, "requested"),
        Route(("action",), _BY_REQUEST, "requested", where=_equal("action")),
        Route(
            ("status",),
            _BY_REQUEST,
            "requested",
            where=f"status <> 'completed' AND {_equal('status')}",
        ),
        Route(
            ("session_id",),
            ("turn", "step", "activity_id"),
            descending=False,
            where=_equal("session_id"),
        ),
    ),
    MappingProxyType({"requested": "requested_at_ms"}),
    frozenset({"requested_at_ms", "turn", "step"}),
)
"""Newest first; of one session in the order of its steps, by their numbers: 1.10 comes behind 1.9. Nearly all steps are completed: that is no filter."""

_BY_REFUSAL = ("refused_at_ms", "session_id", "command_offset")

REFUSALS = Listing(
    "refusals",
    "refusals",
    "session_id, command, reason, failed_check, detail, actor, channel, command_id, refused_at, seq, escaped",
    (
        Route((), _BY_REFUSAL, "refused"),
        Route(("reason",), _BY_REFUSAL, "refused", where=_equal("reason")),
        Route(("session_id",), ("command_offset",), where=_equal("session_id")),
    ),
    MappingProxyType({"refused": "refused_at_ms"}),
    frozenset({"refused_at_ms", "command_offset"}),
)
"""Newest first."""

_AWAITED = "status = 'awaited'"
_BY_DEADLINE = ("expires_at_ms", "session_id", "job_id")

JOBS = Listing(
    "jobs",
    "jobs",
    "session_id, job_id, turn, step, name, status, awaited_at, expires_at, ended_at, ended_by, result_digest, failure, "
    "seq, escaped",
    (
        Route(("open",), _BY_DEADLINE, "expires", descending=False, where=_AWAITED),
        Route(
            ("open", "name"),
            _BY_DEADLINE,
            "expires",
            descending=False,
            where=f"{_AWAITED} AND {_equal('name')}",
        ),
        Route(("session_id",), ("job_id",), descending=False, where=_equal("session_id")),
    ),
    MappingProxyType({"expires": "expires_at_ms"}),
    frozenset({"expires_at_ms"}),
)
"""Those that are awaited, with the next to expire first; of one session all of them."""

CHILDREN = Listing(
    "children",
    "children",
    "session_id, child_id, turn, step, workflow, status, started_at, expires_at, ended_at, result_digest, failure, "
    "tainted_by, late_end, seq, escaped",
    (
        Route(
            ("open",),
            ("expires_at_ms", "session_id", "child_id"),
            "expires",
            descending=False,
            where="status = 'open'",
        ),
        Route(
            ("session_id",),
            ("turn", "step", "child_id"),
            descending=False,
            where=_equal("session_id"),
        ),
    ),
    MappingProxyType({"expires": "expires_at_ms"}),
    frozenset({"expires_at_ms", "turn", "step"}),
)
"""The open ones with the next to expire first; of one session in the order of its steps."""

RESOURCES = Listing(
    "resources",
    "resources",
    "session_id, resource_id, turn, step, kind, status, reattached, attached_at, expires_at, ended_at, handle_digest, "
    "release_by, failure, seq, escaped",
    (
        Route(
            ("open",),
            ("expires_at_ms", "session_id", "resource_id"),
            "expires",
            descending=False,
            where="status = 'attached'",
        ),
        Route(
            ("kind", "open"),
            ("expires_at_ms", "session_id", "resource_id"),
            "expires",
            descending=False,
            where=f"{_equal('kind')} AND status = 'attached'",
        ),
        Route(
            ("session_id",),
            ("turn", "step", "resource_id"),
            descending=False,
            where=_equal("session_id"),
        ),
    ),
    MappingProxyType({"expires": "expires_at_ms"}),
    frozenset({"expires_at_ms", "turn", "step"}),
)
"""Those that are held with the next to expire first; of one session all of them, in the order of its steps."""

LISTINGS = (SESSIONS, APPROVALS, LEDGER, REFUSALS, JOBS, CHILDREN, RESOURCES)
