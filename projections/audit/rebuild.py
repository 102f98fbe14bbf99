"""Checks of the views: they stand where their position says, and equal a rebuild row for row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from ...events.errors import Undecodable
from ...events.records import Event
from ...events.state import OpenActivity, State
from ..project import project
from ..rows import (
    CHILDREN,
    JOBS,
    LEDGER,
    PLACES,
    RESOURCES,
    SESSIONS,
    STRETCHES,
    TABLES,
    TIMERS,
    Key,
    Row,
    Rows,
    fold_all,
    no_rows,
)
from ..values import Unprojectable
from ..views import REFUSED
from .evidence import Violation
from .folds import Folded
from .history import History, Session, place_of
from .invariants import NOTHING_LEAKS, POSITION, REBUILD


def rebuild_rows(events: Iterable[Event]) -> Rows:
    """The rows that these events give, from nothing; repeats change nothing."""
    rows = no_rows()
    sessions = rows[SESSIONS]
    for event in events:
        try:
            changes = project(event)
        except (Undecodable, Unprojectable):
            continue  # a gap in the live views, too
        known = sessions.get(changes[0].key)
        if known is None or changes[0].values["seq"] > known["seq"]:
            fold_all(rows, changes)
    return rows


def differences(live: Rows, rebuilt: Rows) -> Iterator[tuple[str, Key, str]]:
    """Where two sets of rows differ: table, key, and a sentence. JSON is compared by value.

    Where events lie is no part of it: events alone do not say. A rebuild of the views compares that, too.
    """
    for name in TABLES.keys() - {STRETCHES}:
        mine, theirs = live.get(name, {}), rebuilt.get(name, {})
        for key in mine.keys() | theirs.keys():
            told = _difference(name, mine.get(key), theirs.get(key))
            if told is not None:
                yield name, key, told


def _difference(table: str, live: Row | None, rebuilt: Row | None) -> str | None:
    if live is None or rebuilt is None:
        return f"{table} has a row {'only in a rebuild' if live is None else 'that a rebuild does not give'}"
    column = differing_column(table, live, rebuilt)
    if column is None:
        return None
    return f"{table}.{column} is {live[column]!r}, a rebuild gives {rebuilt[column]!r}"


def differing_column(table: str, live: Row, rebuilt: Row) -> str | None:
    """The first column in which two rows differ, but for where events lie; none where they are equal."""
    if live == rebuilt:
        return None
    for column, kind in TABLES[table].all_columns.items():
        is_json = kind == "jsonb"
        if (
            column not in PLACES
            and live[column] != rebuilt[column]
            and not (is_json and _value(live[column]) == _value(rebuilt[column]))
        ):
            return column
    return None


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text, parse_int=Decimal, parse_float=Decimal)


def in_place(history: History) -> Iterator[Violation]:
    """33: each session's row is at the last event below its partition's position, and no position runs ahead."""
    evidence = history.evidence
    if evidence.rows is None or evidence.positions is None:
        return
    expected: dict[Key, tuple[int, int]] = {}
    for fact in history.facts:
        envelope = fact.event.envelope
        key = (envelope.tenant, envelope.session_id)
        below = fact.record.offset < evidence.positions.get(place_of(fact.record), 0)
        if below and key not in evidence.archived:
            expected[key] = (envelope.seq, fact.record.offset)
    found = {key: row["seq"] for key, row in evidence.rows[SESSIONS].items()}
    for key in expected.keys() | found.keys():
        seq, offset = expected.get(key, (0, None))
        if found.get(key, 0) != seq:
            told = f"its row is at seq {found.get(key, 0)}, the position says {seq}"
            yield Violation(POSITION, "/".join(key), offset, told)


def nothing_leaks(history: History) -> Iterator[Violation]:
    """11: each row of the views was last changed by an event that a reader of committed records is shown, of its own session."""
    evidence = history.evidence
    if evidence.rows is None:
        return
    committed = {
        (*session, fact.event.envelope.seq)
        for session, facts in history.sessions.items()
        for fact in facts
    }
    for table, rows in evidence.rows.items():
        for key, row in rows.items():
            seq = row.get("seq")
            if seq is not None and (*key[:2], seq) not in committed:
                told = f"a row of {table} was changed by event {seq}, which is in no committed transaction"
                yield Violation(NOTHING_LEAKS, "/".join(key[:2]), None, told)


def rebuilt_equals_live(history: History, folds: dict[Session, Folded]) -> Iterator[Violation]:
    """34: rows rebuilt from the events below the positions equal the live ones, and both say what the fold says.

    What the database refused is told apart, with its reason: a later event may have covered what the rows lacked.
    """
    evidence = history.evidence
    if evidence.rows is None:
        return
    for gap in evidence.gaps:
        if gap.reason == REFUSED:
            told = f"the database refused what this record of {gap.topic}/{gap.partition} holds: {gap.detail}"
            yield Violation(REBUILD, "", gap.offset, told)
    positions = evidence.positions
    below = [
        fact.event
        for fact in history.facts
        if (positions is None or fact.record.offset < positions.get(place_of(fact.record), 0))
        and (fact.event.envelope.tenant, fact.event.envelope.session_id) not in evidence.archived
    ]
    for _, key, told in differences(evidence.rows, rebuild_rows(below)):
        yield Violation(REBUILD, "/".join(key[:2]), None, told)
    owed = _owed(evidence.rows)
    for session, folded in folds.items():
        row = evidence.rows[SESSIONS].get(session)
        if row is None or folded.state is None or row["seq"] != folded.head.seq:
            continue  # the views are behind, which check 33 judges
        if row["status"] != folded.state.status:
            told = f"sessions.status is {row['status']}, its events fold to {folded.state.status}"
            yield Violation(REBUILD, "/".join(session), None, told)
        shown, folds_to = owed.get(session, set()), _owes(folded.state)
        for word, id_, since in sorted(shown ^ folds_to):
            side = "the views show" if (word, id_, since) in shown else "its events fold to"
            yield Violation(REBUILD, "/".join(session), None, f"only {side} {word} {id_} ({since})")


def _owed(rows: Rows) -> dict[Session, set[tuple[str, str, int]]]:
    """What is open by the views, per session: timers by their due time, activities by their newest attempt."""
    found: dict[Session, set[tuple[str, str, int]]] = {}
    for (tenant, session_id, timer), row in rows.get(TIMERS, {}).items():
        if row["status"] == "set":
            found.setdefault((tenant, session_id), set()).add(("timer", timer, row["due_ms"]))
    for (tenant, session_id, job), row in rows.get(JOBS, {}).items():
        if row["status"] == "awaited":
            awaited = ("job", job, row["expires_at_ms"])
            found.setdefault((tenant, session_id), set()).add(awaited)
    for (tenant, session_id, child), row in rows.get(CHILDREN, {}).items():
        if row["status"] == "open":
            opened = ("child", child, row["expires_at_ms"])
            found.setdefault((tenant, session_id), set()).add(opened)
    for (tenant, session_id, resource), row in rows.get(RESOURCES, {}).items():
        if row["status"] == "attached":
            held = ("resource", resource, row["expires_at_ms"])
            found.setdefault((tenant, session_id), set()).add(held)
    for (tenant, session_id, activity), row in rows.get(LEDGER, {}).items():
        if row["status"] in ("requested", "retrying", "withheld"):
            one = (f"{row['status']} activity", activity, row["attempts"])
            found.setdefault((tenant, session_id), set()).add(one)
    return found


def _owes(state: State) -> set[tuple[str, str, int]]:
    """The same by the fold, which knows nothing of rows."""
    timers = {("timer", timer.timer_id, timer.due_ms) for timer in state.timers}
    jobs = {("job", job.job_id, job.expires_at_ms) for job in state.jobs}
    children = {("child", child.child_id, child.expires_at_ms) for child in state.children}
    held = (one for one in state.resources if not one.gone)
    resources = {("resource", one.resource_id, one.expires_at_ms) for one in held}
    return (
        timers
        | jobs
        | children
        | resources
        | {
            (f"{_stands(activity)} activity", activity.activity_id, activity.attempt)
            for activity in state.activities
        }
    )


def _stands(activity: OpenActivity) -> str:
    if activity.withheld_ms is not None:
        return "withheld"
    return "requested" if activity.retry_due_ms is None else "retrying"
