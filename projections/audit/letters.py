"""Check of dead letters: each holds the bytes that it says, and those are the bytes that lie where it says."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from .evidence import Violation
from .history import History
from .invariants import POISON


def letters(history: History) -> Iterator[Violation]:
    """37: a dead letter has a reason, and the SHA-256 of its bytes, which are those of the record it came from."""
    evidence = history.evidence
    commands = {(one.topic, one.partition, one.offset): one for one in evidence.commands}
    for record, letter in history.dead_letters:
        session = (record.key or b"").decode(errors="backslashreplace")
        where = f"the letter of {letter.topic} {letter.partition}/{letter.offset}"
        if not letter.reason:
            yield Violation(POISON, session, record.offset, f"{where} has no reason")
        found = sha256(record.value or b"").hexdigest()
        if found != letter.sha256:
            told = f"{where} names {letter.sha256} as the hash of its bytes, which is {found}"
            yield Violation(POISON, session, record.offset, told)
        source = commands.get((letter.topic, letter.partition, letter.offset))
        if source is not None and source.value != record.value:
            yield Violation(
                POISON, session, record.offset, f"{where} has other bytes than lie there"
            )
