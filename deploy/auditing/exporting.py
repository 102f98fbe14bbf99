"""What an export of a live namespace holds: every record of some topics, or of one session in them, as of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...events.keys import session_key, session_part
from ...events.log.protocol import Isolation, Log, Place, Record
from ...projections.audit.evidence import places_of
from ...projections.audit.slices import Tell
from ..clock import SystemClock
from ..exits import Exit, Stopped
from ..settings import Settings
from .exported import About, write_export
from .live import READS_MAX, committed_of, left_of, topics_of
from .sessions import home_of, records_of


def export(
    given: Settings, log: Log, session: tuple[str, str] | None, path: Path, tell: Tell
) -> tuple[int, str]:
    """Writes what the topics hold, control apart, into a file; gives how many records, and the file's chain."""
    for _ in range(READS_MAX):
        places, moving = _places(given, log, session)
        before = log.ends(moving, Isolation.COMMITTED)
        about = _about(given, log, session)
        written = write_export(path, about, _records(log, places, session, tell))
        if log.ends(moving, Isolation.COMMITTED) == before:
            return written
        path.unlink()
    whose = "the log" if session is None else f"the partition of session {session[1]}"
    raise Stopped(
        Exit.NOT_IN_TIME,
        f"{whose} moved during each of {READS_MAX} readings: export while less is asked, or stop 'wakeful run' first",
    )


def _places(
    given: Settings, log: Log, session: tuple[str, str] | None
) -> tuple[list[Place], list[Place]]:
    """What is read; and that part of it which must not move meanwhile."""
    topics = given.topics
    at_home = (topics.commands, topics.events, topics.outcomes)
    if session is None:
        names = topics_of(given)
        everything = [place for name in names for place in places_of(log, name)]
        return everything, [place for place in everything if place.topic in at_home]
    places: list[Place] = []
    for name in topics_of(given):
        if name in (*at_home, topics.snapshots):
            places.append(home_of(log, name, session))
        else:
            places += places_of(log, name)
    return places, [place for place in places if place.topic in at_home]


def _records(
    log: Log, places: list[Place], session: tuple[str, str] | None, tell: Tell
) -> Iterator[Record]:
    own = None if session is None else session_key(*session)
    return records_of(log, places, lambda key: own is None or session_part(key) == own, tell)


def _about(given: Settings, log: Log, session: tuple[str, str] | None) -> About:
    return About(
        namespace=given.namespace,
        partitions=log.partitions(given.topics.events),
        session=session,
        exported_at_ms=SystemClock().now_ms(),
        committed=committed_of(given, log),
        trimmed=left_of(given, log, topics_of(given)),
    )
