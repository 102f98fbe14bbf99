"""What became of a command that nobody watched: found in the session's events and outcomes, from its time on."""

from __future__ import annotations

from ...events import records as r
from ...events.codec import decode_event, decode_outcome
from ...events.errors import Undecodable
from ...events.keys import partition_of, session_key
from ...events.log.protocol import Log, Place, Record
from ...events.topics import Topics
from ...projections.tokens import token_of
from .reading import to_the_end
from .watching import Verdict, came_of, nondeterminism, verdict_of

RELEASED = Verdict("applied")
"""That of a release, until more is known."""


def look_back(
    log: Log, topics: Topics, session: tuple[str, str], command_id: str, *, since_ms: int
) -> tuple[Verdict, str] | None:
    """The verdict, and the position of events that shows it; null where nothing has come of it by now.

    `session` is tenant and id. A later command under the same id is not looked at: the first one counts.
    """
    key = session_key(*session)
    number = partition_of(key, log.partitions(topics.events))
    places = [Place(topics.events, number), Place(topics.outcomes, number)]
    verdict: Verdict | None = None
    reached = 0
    for record in to_the_end(log, log.offsets_at(places, max(0, since_ms))):
        if record.topic == topics.events:
            reached = max(reached, record.offset + 1)
        fact = _fact(topics, record) if record.key == key else None
        if isinstance(fact, r.Event):
            verdict = _after(verdict, fact, command_id)
        elif fact is not None and verdict is None:
            verdict = _refused(fact, command_id)
    return None if verdict is None else (verdict, token_of({places[0]: reached}))


def _after(verdict: Verdict | None, fact: r.Event, command_id: str) -> Verdict | None:
    """A release is decided together with what follows from it: the session may be held again at once."""
    if verdict is None:
        if not came_of(fact, command_id):
            return None
        goes_on = isinstance(fact.body, r.SessionReleased | r.SessionReset)
        return RELEASED if goes_on else verdict_of(fact.body)
    if verdict is RELEASED and fact.envelope.cause.command_id == command_id:
        if isinstance(fact.body, r.NondeterminismFound):
            return Verdict("held", "nondeterminism", nondeterminism(fact.body))
        if isinstance(fact.body, r.SessionHeld):
            return Verdict("held", fact.body.reason, fact.body.detail)
    return verdict


def _refused(fact: r.Outcome, command_id: str) -> Verdict | None:
    """What was turned away at the door has an outcome, and no event."""
    if fact.seq is not None or fact.command_id != command_id:
        return None
    return Verdict("refused", fact.reason or "", fact.detail or "")


def _fact(topics: Topics, record: Record) -> r.Event | r.Outcome | None:
    try:
        if record.topic == topics.events:
            return decode_event(record.value, record.headers)
        return decode_outcome(record.value, record.headers)
    except Undecodable:
        return None  # written by a later release: the views of that one tell
