"""`tail`: events or outcomes, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..exits import Exit, Stopped
from .context import AsJson, kafka, settings

if TYPE_CHECKING:
    from ...events.log.protocol import Log, Place, Record
    from ...events.topics import Topics
    from ..settings import Settings


def tail(
    kind: Annotated[
        str, typer.Argument(metavar="[events|outcomes]", help="What to read.", show_default=False)
    ] = "events",
    *,
    session_id: Annotated[str | None, typer.Option("--session", help="Of one session.")] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Read all there is.")] = False,
    since: Annotated[
        str | None, typer.Option(help="Begin so long ago: 30s, 10m, 2h, 7d. (default: now)")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Go on when the end is reached.")
    ] = True,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many.", show_default=False)
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="Stop when nothing came for so many seconds.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print events (or outcomes) of this tenant as they come, from now on; Ctrl-C ends it.

    With --json, one object per line.
    """
    if kind not in ("events", "outcomes"):
        raise Stopped(Exit.USAGE, f"cannot tail {kind!r}: give 'events' or 'outcomes'")
    if from_start and since:
        raise Stopped(Exit.USAGE, "--from-start and --since contradict each other: give one")
    from .output import note

    given = settings()
    with kafka(given) as log:
        positions = _positions(
            given, log, kind, session_id, since_ms=_since_ms(since, from_start=from_start)
        )
        prefix = f"{given.tenant}/{session_id or ''}".encode()
        shown = 0
        for record in _records(log, positions, follow=follow, idle_s=idle):
            key = record.key or b""
            if (key != prefix) if session_id else (not key.startswith(prefix)):
                continue
            _print(given.topics, record, as_json=as_json, named=session_id is None)
            shown += 1
            if shown == limit:
                return
        if session_id and not shown and not follow:
            _check_known(given, log, session_id)
        note(f"no {kind}{f' of session {session_id}' if session_id else ''}", quiet=shown > 0)


def _check_known(given: Settings, log: Log, session_id: str) -> None:
    """Refuses a session that has no event at all: that it shows nothing would say less."""
    from ...events.keys import session_key
    from ..telling.reading import to_the_end

    key = session_key(given.tenant, session_id)
    places = _positions(given, log, "events", session_id, since_ms=0)
    if not any(record.key == key for record in to_the_end(log, places)):
        raise Stopped(
            Exit.NOT_FOUND,
            f"no session {session_id!r} of tenant {given.tenant}: see 'wakeful session list'",
        )


def _positions(
    given: Settings, log: Log, kind: str, session_id: str | None, *, since_ms: int | None
) -> dict[Place, int]:
    from ...events.keys import partition_of, session_key
    from ...events.log.protocol import Isolation, Place

    topic = given.topics.events if kind == "events" else given.topics.outcomes
    count = log.partitions(topic)
    numbers = range(count)
    if session_id is not None:
        number = partition_of(session_key(given.tenant, session_id), count)
        numbers = range(number, number + 1)
    places = [Place(topic, number) for number in numbers]
    ends = log.ends(places, Isolation.COMMITTED)
    if since_ms is None:
        return {place: end for place, (_, end) in ends.items()}
    if since_ms == 0:
        return {place: first for place, (first, _) in ends.items()}
    return log.offsets_at(places, since_ms)


def _since_ms(text: str | None, *, from_start: bool) -> int | None:
    from ..clock import SystemClock
    from .typed import ago_ms

    if from_start:
        return 0
    if text is None:
        return None
    return max(1, SystemClock().now_ms() - ago_ms("--since", text))


def _records(
    log: Log, positions: dict[Place, int], *, follow: bool, idle_s: float | None
) -> Iterator[Record]:
    from ..telling.reading import as_they_come, to_the_end

    if not follow:
        found = list(to_the_end(log, positions))
        yield from sorted(found, key=lambda r: (r.timestamp_ms, r.partition, r.offset))
        return
    quiet_since = monotonic()
    for record in as_they_come(log, positions):
        if record is not None:
            quiet_since = monotonic()
            yield record
        elif idle_s is not None and monotonic() - quiet_since >= idle_s:
            return


def _print(topics: Topics, record: Record, *, as_json: bool, named: bool) -> None:
    from ...events.codec import decode_event, decode_outcome
    from ...events.errors import Undecodable
    from ..telling.words import event_json, event_line, outcome_json, outcome_line
    from .output import note, write_json

    kind: Literal["event", "outcome"] = "event" if record.topic == topics.events else "outcome"
    at = {"partition": record.partition, "offset": record.offset}
    try:
        if kind == "event":
            event = decode_event(record.value, record.headers)
            session_id = event.envelope.session_id
            found, line = event_json(event, **at), event_line(event)
        else:
            outcome = decode_outcome(record.value, record.headers)
            session_id = outcome.session_id
            found, line = outcome_json(outcome, **at), outcome_line(outcome)
    except Undecodable as error:
        note(f"{kind} at {record.partition}@{record.offset} cannot be read: {error}")
        return
    if as_json:
        write_json(found)
    else:
        typer.echo(f"{session_id:<36}  {line}" if named else line)
