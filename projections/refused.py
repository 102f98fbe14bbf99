"""What is stored of an event whose rows the database refused: all that is ours, and the user's values as opaque texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import escaping
from .rows import APPROVALS, SESSIONS, Change

USERS: Mapping[str, tuple[str, ...]] = {
    SESSIONS: ("last_reply", "outcome"),
    APPROVALS: ("arguments", "answer"),
}
"""JSON columns of each table that hold what users, tools and models wrote: nobody here reads into them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the database refused a record that was alone, and whether it did so again without the user's values."""

    message: str
    again: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """The changes that are left, none where the event is left out, and a sentence for its gap."""

    changes: list[Change]
    told: str


def with_opaque(changes: Sequence[Change], refusal: Refusal) -> Stored:
    """The same changes with each of the user's values as one JSON string; marked as escaped, so it can be read back."""
    columns = [
        f"{change.table}.{column}"
        for change in changes
        for column in _of_users(change)
        if not refusal.again
    ]
    if not columns:
        return Stored([], f"the event is left out: {refusal.message}")
    told = f"{', '.join(columns)} kept as opaque text: {refusal.message}"
    return Stored([_opaque(change) for change in changes], told)


def _of_users(change: Change) -> list[str]:
    return [c for c in USERS.get(change.table, ()) if change.values.get(c) is not None]


def _opaque(change: Change) -> Change:
    columns = _of_users(change)
    if not columns:
        return change
    values = {column: escaping.opaque(change.values[column]).value for column in columns}
    escaped = tuple(sorted({*change.escaped, *columns}))
    return change._replace(values={**change.values, **values}, escaped=escaped)
