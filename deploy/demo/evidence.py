"""Gathers what the report is made from: every topic, the rows in Postgres, the payment service's book, the papers."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...commands.wire import decode_command
from ...events.codec import decode_event
from ...events.log.protocol import Isolation, Log, Place
from ...projections.audit import asked_by, audit, evidence_from_log
from ...projections.postgres import stored_rows
from ...projections.queries import Queries
from ..settings import Settings
from .messages import Incoming
from .papers import Papers
from .payments import read_book
from .report import Evidence, Kill, Promises

VIEWS_LIMIT_MS = 30_000


def wait_for_views(log: Log, settings: Settings) -> None:
    """Returns once the projector has applied all that is in the log; `Transient` if it does not get there."""
    events = settings.topics.events
    places = [Place(events, number) for number in range(log.partitions(events))]
    ends = {place: end for place, (_, end) in log.ends(places, Isolation.COMMITTED).items()}
    with Queries(settings.postgres_url, settings.namespace) as queries:
        queries.wait_for(ends, timeout_ms=VIEWS_LIMIT_MS)


def gather(
    log: Log,
    settings: Settings,
    queues: Sequence[str],
    *,
    messages: Sequence[Incoming],
    promises: Promises,
    papers: Papers,
    book: Path,
    kills: Sequence[Kill],
) -> Evidence:
    """The evidence of a run whose processes have ended."""
    rows = stored_rows(settings.postgres_url, settings.namespace)
    found = evidence_from_log(log, settings.topics, queues, rows=rows, quiescent=True)
    return Evidence(
        tenant=settings.tenant,
        messages=messages,
        promises=promises,
        events=[decode_event(record.value, record.headers) for record in found.events],
        rows=rows,
        charges=read_book(book).charges,
        letters=papers.letters(),
        calls=papers.calls(),
        kills=kills,
        violations=[str(violation) for violation in audit(found, asked_by(decode_command))],
    )


def seen_kills(kills: Sequence[Kill], exit_codes: Mapping[str, Sequence[int]]) -> list[Kill]:
    """The kills that the supervisor saw end a process: an exit by SIGKILL for each."""
    left = {name: list(codes).count(-signal.SIGKILL) for name, codes in exit_codes.items()}
    seen = []
    for kill in kills:
        if left.get(kill.process, 0) > 0:
            left[kill.process] -= 1
            seen.append(kill)
    return seen
