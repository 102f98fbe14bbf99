"""Checks of attributes: what the history says that changed has changed, and each session is found by what it has now."""

from __future__ import annotations

from collections.abc import Iterator

from ...events import records as r
from ...events.attributes import term
from ..rows import ATTRIBUTES, SESSIONS, Rows
from .evidence import Violation
from .history import Fact, History, name_of, of
from .invariants import FOUND_BY


def attributes(history: History) -> Iterator[Violation]:
    """Each change is told as it is, and the views have a term for each attribute and for each pair, and no others."""
    rows: Rows = history.evidence.rows or {}
    shown: dict[tuple[str, str], set[str]] = {}
    for (tenant, session_id, _), row in rows.get(ATTRIBUTES, {}).items():
        if row["term"] is not None:
            shown.setdefault((tenant, session_id), set()).add(row["term"])
    for session, facts in history.sessions.items():
        has: dict[str, str] = {}
        for fact in facts:
            body = fact.event.body
            if isinstance(body, r.SessionOpened):
                has = {one.name: one.value for one in body.attributes}
            elif isinstance(body, r.AttributesSet):
                yield from _changed(fact, body, has)
                has = {one.name: one.value for one in body.attributes}
        stands = rows.get(SESSIONS, {}).get(session)
        if stands is None or stands["seq"] != facts[-1].event.envelope.seq:
            continue  # not in the views, or not yet
        wanted = _terms(has)
        if shown.get(session, set()) != wanted:
            told = f"it is found by {sorted(shown.get(session, set()))}, and has {sorted(wanted)}"
            yield Violation(FOUND_BY, name_of(session), None, told)


def _changed(fact: Fact, body: r.AttributesSet, before: dict[str, str]) -> Iterator[Violation]:
    after = {one.name: one.value for one in body.attributes}
    moved = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if not body.changed:
        yield of(fact, FOUND_BY, "attributes are set, and nothing changes")
    if not moved <= set(body.changed):
        told = f"attributes {sorted(moved)} change, and it tells of {list(body.changed)}"
        yield of(fact, FOUND_BY, told)


def _terms(has: dict[str, str]) -> set[str]:
    names = sorted(has)
    pairs = [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]
    return {
        term({name: has[name] for name in one}) for one in [*((name,) for name in names), *pairs]
    }
