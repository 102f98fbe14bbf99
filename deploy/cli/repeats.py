"""Why an approval is asked for that the code alone does not ask for: what is withheld, or void before it; from the views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...projections.queries import Queries

VOIDED_MAX = 1_000
"""Void proposals of a session that are looked through for those whose place was taken."""


def add_voids(views: Queries, tenant: str, rows: list[dict[str, Any]]) -> None:
    """Gives each row `supersedes_because`: why the one is void in whose place it is asked; null where it is asked first."""
    again = [row for row in rows if row["supersedes"] is not None]
    why: dict[tuple[str, str], str] = {}
    for session_id in sorted({row["session_id"] for row in again}):
        voided = views.approvals(
            tenant=tenant, session_id=session_id, status="voided", limit=VOIDED_MAX
        )
        why |= {(session_id, one["proposal_id"]): one["comment"] or "" for one in voided}
    for row in rows:
        row["supersedes_because"] = why.get((row["session_id"], row["supersedes"] or ""))


def asked_because(row: dict[str, Any]) -> str:
    """The same in one sentence; empty where nothing but the code asks, and for the first time."""
    from ..telling.text import shown_text

    because = "; ".join(row["because"])
    told = []
    if row["activity_id"] is not None:
        told.append(f"{row['action']} ({row['activity_id']}) is withheld, since {because}")
    elif because and row["supersedes"] is None:
        told.append(f"policy asks, since {because}")
    if row["supersedes"] is not None:
        since = row.get("supersedes_because") or because
        drift = f", since {since}" if since and (since != because or not told) else ""
        told.append(f"asked again, as {row['supersedes']} is void{drift}")
    return shown_text("; ".join(told), 500)
