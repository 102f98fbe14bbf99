"""Checks of what was let in: commands that expect a version met it, and who spoke is who was vouched for."""

from __future__ import annotations

from collections.abc import Iterator

from ...events import records as r
from .evidence import Asked, Violation
from .history import At, Fact, History, cause_of, of
from .invariants import ACTOR, EXPECTED_VERSION

NO_CONSENT = (r.CommandRefused, r.CommandParked, r.SessionWaiting)
"""What a command may lead to without being let in."""

SAID = (
    r.MessageReceived,
    r.SignalReceived,
    r.TriggerReceived,
    r.ApprovalGranted,
    r.ApprovalVoted,
    r.ApprovalRejected,
    r.ApprovalAnswered,
    r.ArtifactChanged,
    r.ActivityResolved,
    r.JobCompleted,
    r.JobFailed,
)
"""Facts that come of what people say, and of nothing else."""


OWN = "StartChild"
"""A command that a processor writes for somebody: the child's first message is that person's."""


def expected_versions(history: History) -> Iterator[Violation]:
    """7: a command that expects a version of the session meets that one, or is refused."""
    asked = _asked(history)
    seen: set[At] = set()
    for fact in history.facts:
        envelope, cause = fact.event.envelope, cause_of(fact)
        # What the clock owes comes before the command that came by, and remembers nothing of it.
        if cause in seen or envelope.cause.command_hash is None or cause not in asked:
            continue
        seen.add(cause)
        expected = asked[cause].expected_seq
        if isinstance(fact.event.body, NO_CONSENT) or expected in (None, envelope.seq - 1):
            continue
        told = f"it comes of a command that expected version {expected}, and met {envelope.seq - 1}"
        yield of(fact, EXPECTED_VERSION, told)


def vouched(history: History) -> Iterator[Violation]:
    """27: each event names the key that signed its command, and what people say is said by who sent the command."""
    asked = _asked(history)
    for fact in history.facts:
        known = asked.get(cause_of(fact))
        if known is not None:
            yield from _vouched(fact, known)


def _vouched(fact: Fact, asked: Asked) -> Iterator[Violation]:
    envelope = fact.event.envelope
    if envelope.vouched_by != asked.signed_by:
        told = f"it says that {envelope.vouched_by} vouched for its command, which {asked.signed_by} has signed"
        yield of(fact, ACTOR, told)
    spoken = isinstance(fact.event.body, SAID) and asked.kind != OWN
    if spoken and envelope.actor != asked.actor:
        told = f"it is said by {envelope.actor!r}, its command by {asked.actor!r}"
        yield of(fact, ACTOR, told)


def _asked(history: History) -> dict[At, Asked]:
    return {
        (record.topic, record.partition, record.offset): asked
        for record, asked in history.requests
        if asked is not None
    }
