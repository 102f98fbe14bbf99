"""Whether every fact was vouched for: no event comes of a forged command, and each names the key that signed its cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...commands import models as m
from ...commands.actors import WORKER
from ...events.headers import dead_letter_in
from ...events.log.protocol import Record
from ...events.records import Event
from ...events.signed import KEY_HEADER
from ...processors.simulation.forgers import FORGED
from ...processors.simulation.keyless import ended_at_ms
from ...projections.audit import Evidence
from ...projections.audit.admitted import SAID

Spot = tuple[int, int]
"""Partition and offset of a command."""


def vouched(
    evidence: Evidence, events: Sequence[Event], commands: Mapping[Spot, m.Command]
) -> Iterator[str]:
    """I27: no event comes of what was forged, which is among the dead letters instead; workers sign. The audit has the rest."""
    yield from _nothing_is_forged(events)
    yield from _workers_sign(evidence, commands)
    if evidence.quiescent:
        yield from _forged_are_told(evidence, commands)


def by_keys_of_now(seed: int, events: Sequence[Event]) -> Iterator[str]:
    """Nothing that people say leads to a fact once their key is revoked, also where it was kept before that."""
    for event in events:
        envelope = event.envelope
        if not isinstance(event.body, SAID) or envelope.vouched_by is None:
            continue
        ended_ms = ended_at_ms(seed, envelope.vouched_by)
        if ended_ms is not None and envelope.at_ms >= ended_ms:
            yield (
                f"{envelope.session_id} seq {envelope.seq} ({type(event.body).__name__}) comes of what "
                f"{envelope.vouched_by} vouched for, {envelope.at_ms - ended_ms} ms after it was revoked"
            )


def heard(
    evidence: Evidence, commands: Mapping[Spot, m.Command], ended_ms: Mapping[str, int]
) -> Iterator[str]:
    """What a worker said under a key that was revoked before it was read is said again, unless the worker has ended since.

    `ended_ms` is when each process ended last.
    """
    said: dict[str, list[Spot]] = {}
    for spot, command in commands.items():
        said.setdefault(command.header.command_id, []).append(spot)
    for record in evidence.dead_letters:
        letter = dead_letter_in(record.headers)
        if letter is None or letter.reason != "revoked_key" or letter.count > 1:
            continue
        refused = commands.get((letter.partition, letter.offset))
        if refused is None or refused.header.channel != "worker" or _repeats(refused):
            continue
        again = any(offset > letter.offset for _, offset in said[refused.header.command_id])
        worker = refused.header.actor.removeprefix(WORKER)
        if not again and ended_ms.get(worker, 0) < refused.header.issued_at_ms:
            yield f"{worker} said {refused.header.command_id} under a key that was revoked, and did not say it again"


def _repeats(command: m.Command) -> bool:
    """Whether its worker says such things all the time."""
    return isinstance(command.body, m.HeartbeatActivity)


def _nothing_is_forged(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        envelope = event.envelope
        cause = envelope.cause
        where = f"{envelope.session_id} seq {envelope.seq} ({type(event.body).__name__})"
        if cause.command_id.startswith(FORGED):
            yield f"{where} comes of a forged command, {cause.command_id}"


def _workers_sign(evidence: Evidence, commands: Mapping[Spot, m.Command]) -> Iterator[str]:
    """Also those that have no key for a while: what they have to say waits."""
    for record in evidence.commands:
        spot = record.partition, record.offset
        said = commands.get(spot)
        if said is None or said.header.command_id.startswith(FORGED):
            continue
        if said.header.channel == "worker" and _kid(record) is None:
            yield f"a worker said {said.header.command_id} at {spot} and did not sign it"


def _forged_are_told(evidence: Evidence, commands: Mapping[Spot, m.Command]) -> Iterator[str]:
    letters = [
        letter
        for record in evidence.dead_letters
        if (letter := dead_letter_in(record.headers)) is not None
        and letter.topic == evidence.topics.commands
    ]
    dead = {(letter.partition, letter.offset) for letter in letters}
    many = [letter for letter in letters if letter.count > 1]
    for spot, command in commands.items():
        told = spot in dead or any(
            letter.partition == spot[0] and letter.offset <= spot[1] <= letter.last_offset
            for letter in many
        )
        if command.header.command_id.startswith(FORGED) and not told:
            yield f"forged command {command.header.command_id} at {spot} is not among the dead letters"


def _kid(record: Record) -> str | None:
    found = dict(record.headers).get(KEY_HEADER)
    return None if found is None else found.decode()
