"""Queries: lists in pages, and one session, approval or step, as their tenant is shown them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field, model_validator

from ...events.attributes import wanted as term_of
from ...events.errors import InvalidKey
from ...events.keys import check_id
from ...projections import listings
from ...projections.queries import Answer, Queries
from ..telling.statuses import StatusName
from .asking import Viewer
from .problems import Problem
from .viewing import EACH_ONCE, PageAsked, Plain, Signing, Text, Time, Views, found

router = APIRouter(prefix="/v1", tags=["queries"], dependencies=EACH_ONCE)

AT_REST = frozenset({"Waiting", "Suspended"})
"""Statuses in which what may be asked next is as the session's last rest had it."""

ATTRIBUTE = "attribute."
"""Before the name of an attribute, in the address."""

LISTED_MAX = 200
"""Approvals and doubts that one session's answer has."""


class SessionsAsked(PageAsked):
    """Filters of sessions. Which go together, the answer to those that do not says."""

    status: StatusName | None = None
    workflow: Text | None = None
    opened_by: Text | None = None
    held: Literal["true"] | None = None
    waiting: (
        Literal["activity", "approval", "timer", "uncertain", "signal", "inbox", "job"] | None
    ) = None
    id_prefix: Text | None = None
    attribute: Annotated[
        list[Text],
        Field(
            default_factory=list,
            description="One or two, as name=value; or each as attribute.NAME=VALUE.",
        ),
    ]
    updated_since: Time = None
    updated_until: Time = None
    opened_since: Time = None
    opened_until: Time = None

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        """`attribute.customer=ivo` is the same as `attribute=customer=ivo`."""
        if not isinstance(given, dict):
            return given
        named = {key: value for key, value in given.items() if key.startswith(ATTRIBUTE)}
        told = given.get("attribute", [])
        told = [told] if isinstance(told, str) else [*told]
        for key, value in named.items():
            values = [value] if isinstance(value, str) else value
            told += [f"{key.removeprefix(ATTRIBUTE)}={one}" for one in values]
        return {**{k: v for k, v in given.items() if k not in named}, "attribute": told}

    def wanted(self) -> dict[str, str | int]:
        """See `PageAsked`; each kind of wait is a filter of its own."""
        wanted = super().wanted()
        del wanted["attribute"]
        if self.attribute:
            wanted["attributes"] = term_of(self.attribute)
        kind = wanted.pop("waiting", None)
        return wanted if kind is None else {**wanted, f"waiting_{kind}": 1}


class ApprovalsAsked(PageAsked):
    """Filters of approvals: the open ones, unless another status or a session is asked for."""

    status: (
        Literal["requested", "granted", "rejected", "answered", "expired", "withdrawn", "voided"]
        | None
    ) = None
    approver: Text | None = None
    action: Text | None = None
    session_id: Text | None = None
    expires_since: Time = None
    expires_until: Time = None
    requested_since: Time = None
    requested_until: Time = None

    def wanted(self) -> dict[str, str | int]:
        """See `PageAsked`."""
        wanted = super().wanted()
        if wanted.get("status") == "requested":
            del wanted["status"]
            return {**wanted, "open": 1}
        return wanted if {"status", "session_id"} & wanted.keys() else {**wanted, "open": 1}


class LedgerAsked(PageAsked):
    """Filters of consequential steps."""

    status: (
        Literal["requested", "retrying", "withheld", "failed", "uncertain", "cancelled"] | None
    ) = None
    action: Text | None = None
    session_id: Text | None = None
    requested_since: Time = None
    requested_until: Time = None


class JobsAsked(PageAsked):
    """Filters of external jobs: those that are awaited, or all of a session."""

    name: Text | None = None
    session_id: Text | None = None
    expires_since: Time = None
    expires_until: Time = None

    def wanted(self) -> dict[str, str | int]:
        """See `PageAsked`."""
        wanted = super().wanted()
        return wanted if "session_id" in wanted else {**wanted, "open": 1}


class ChildrenAsked(PageAsked):
    """Filters of children: those that are open, or all of a session."""

    session_id: Text | None = None
    expires_since: Time = None
    expires_until: Time = None

    def wanted(self) -> dict[str, str | int]:
        """See `PageAsked`."""
        wanted = super().wanted()
        return wanted if "session_id" in wanted else {**wanted, "open": 1}


class ResourcesAsked(PageAsked):
    """Filters of resources: those that are held, or all of a session."""

    session_id: Text | None = None
    kind: Text | None = None
    expires_since: Time = None
    expires_until: Time = None

    def wanted(self) -> dict[str, str | int]:
        """See `PageAsked`."""
        wanted = super().wanted()
        return wanted if "session_id" in wanted else {**wanted, "open": 1}


class RefusalsAsked(PageAsked):
    """Filters of commands that were not applied."""

    reason: Text | None = None
    session_id: Text | None = None
    refused_since: Time = None
    refused_until: Time = None


@router.get("/sessions")
def sessions(
    asked: Annotated[SessionsAsked, Query()], views: Views, cursors: Signing
) -> dict[str, Any]:
    """Sessions, the one with the latest event first."""
    return found(views, cursors, listings.SESSIONS, asked.wanted(), asked)


@router.get("/sessions/{session_id}")
def session(
    session_id: str, asked: Plain, views: Views, viewer: Viewer, response: Response
) -> dict[str, Any]:
    """One session: where it stands, what it waits for, what may be asked of it. Its version, `seq`, is the ETag."""
    del asked
    row = session_row(views, session_id, viewer.tenant)
    response.headers["ETag"] = f'"{row["seq"]}"'
    mine = {"tenant": viewer.tenant, "session_id": session_id}
    return {
        **without_tenant(row),
        "next_valid_is_of_now": row["status"] in AT_REST,
        "approvals": [without_tenant(one) for one in views.approvals(**mine, limit=LISTED_MAX)],
        "in_doubt": [
            without_tenant(one) for one in views.ledger(**mine, in_doubt=True, limit=LISTED_MAX)
        ],
    }


@router.get("/approvals")
def approvals(
    asked: Annotated[ApprovalsAsked, Query()], views: Views, cursors: Signing
) -> dict[str, Any]:
    """The inbox: open approvals, the next to expire first. Or those of a status or a session."""
    return found(views, cursors, listings.APPROVALS, asked.wanted(), asked)


@router.get("/approvals/{session_id}/{proposal_id}")
def approval(
    session_id: str, proposal_id: str, asked: Plain, views: Views, viewer: Viewer
) -> dict[str, Any]:
    """One proposal with all that would be done, and the version of its session."""
    del asked
    row = None
    if _may_be(session_id) and "\0" not in proposal_id:
        row = views.approval(session_id, proposal_id, tenant=viewer.tenant)
    if row is None:
        raise Problem(
            404,
            "unknown_approval",
            f"no approval {proposal_id[:128]!a} of session {session_id[:128]!a} here: see /v1/approvals",
        )
    stands = session_row(views, session_id, viewer.tenant)
    return {
        **without_tenant(row),
        "session_status": stands["status"],
        "session_seq": stands["seq"],
        "tainted_by": stands["tainted_by"],
    }


@router.get("/ledger")
def ledger(
    asked: Annotated[LedgerAsked, Query()], views: Views, cursors: Signing
) -> dict[str, Any]:
    """Consequential steps, the newest first: who asked, who approved, how each ended."""
    return found(views, cursors, listings.LEDGER, asked.wanted(), asked)


@router.get("/jobs")
def jobs(asked: Annotated[JobsAsked, Query()], views: Views, cursors: Signing) -> dict[str, Any]:
    """External jobs that are awaited, the next to expire first; or all of a session."""
    return found(views, cursors, listings.JOBS, asked.wanted(), asked)


@router.get("/children")
def children(
    asked: Annotated[ChildrenAsked, Query()], views: Views, cursors: Signing
) -> dict[str, Any]:
    """Children that are open, the next to expire first; or all that a session has opened."""
    return found(views, cursors, listings.CHILDREN, asked.wanted(), asked)


@router.get("/resources")
def resources(
    asked: Annotated[ResourcesAsked, Query()], views: Views, cursors: Signing
) -> dict[str, Any]:
    """Resources that sessions hold, the next to expire first; or all that a session has held."""
    return found(views, cursors, listings.RESOURCES, asked.wanted(), asked)


@router.get("/refusals")
def refusals(
    asked: Annotated[RefusalsAsked, Query()], views: Views, cursors: Signing
) -> dict[str, Any]:
    """Commands that were not applied and why, the newest first."""
    return found(views, cursors, listings.REFUSALS, asked.wanted(), asked)


def session_row(views: Queries, session_id: str, tenant: str) -> Answer:
    """The session's row; `Problem` 404 in the same words whether it is another's or nobody's, 410 where it was archived."""
    may_be = _may_be(session_id)
    rows = views.session(session_id, tenant=tenant) if may_be else []
    if not rows and may_be and (archived := views.archived(session_id, tenant=tenant)):
        raise Problem(
            410,
            "archived",
            f"session {session_id!a} ended as {archived['status']} and was archived at {archived['archived_at']:%Y-%m-%d}: "
            "ask an operator for the archive",
        )
    if not rows:
        raise Problem(
            404, "unknown_session", f"no session {session_id[:128]!a} here: see /v1/sessions"
        )
    return rows[0]


def without_tenant(row: Answer) -> Answer:
    """The row without what its reader knows, and without columns that are there to be indexed."""
    left_out = {"tenant", "waits"}
    return {k: v for k, v in row.items() if k not in left_out and not k.endswith("_at_ms")}


def _may_be(session_id: str) -> bool:
    try:
        check_id("session id", session_id)
    except InvalidKey:
        return False
    return True
