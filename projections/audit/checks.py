"""All checks by their number in the list of invariants (or a name), and the one function that runs them.

Each reads the decoded history once; the whole is linear in the number of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...events.blobs import Blobs
from . import (
    attempts,
    dispositions,
    folds,
    order,
    rebuild,
    receiving,
    retries,
    steps,
    stretches,
    tasks,
    waits,
)
from . import blobs as beside
from .evidence import Evidence, ReadCommand, Violation
from .folds import Folded
from .history import History, Session

Check = Callable[[History, dict[Session, Folded]], Iterator[Violation]]


def _plain(check: Callable[[History], Iterator[Violation]]) -> Check:
    def run(history: History, folded: dict[Session, Folded]) -> Iterator[Violation]:
        del folded
        return check(history)

    return run


def _legal_path(history: History, folded: dict[Session, Folded]) -> Iterator[Violation]:
    del history
    return folds.legal_path(folded)


CHECKS: tuple[tuple[tuple[int | str, ...], Check], ...] = (
    ((1,), _plain(order.gapless)),
    ((2,), _plain(order.one_home)),
    ((3,), _plain(dispositions.one_disposition)),
    ((4,), _plain(dispositions.no_skew)),
    ((5, 6), _plain(dispositions.idempotent)),
    ((5,), _plain(dispositions.decided_once)),
    ((8,), folds.pure_fold),
    ((10, 22), _legal_path),
    ((12,), _plain(order.torn_free)),
    ((13,), _plain(tasks.told_once)),
    ((13,), _plain(tasks.right_topic)),
    ((14,), _plain(steps.one_outcome)),
    ((15,), _plain(steps.attempt_fence)),
    ((15,), _plain(attempts.heartbeats)),
    ((15,), _plain(attempts.overs)),
    ((16,), _plain(steps.stable_key)),
    ((17,), _plain(attempts.at_most_once)),
    ((21,), _plain(waits.timers)),
    ((21,), _plain(retries.retries)),
    ((23, 24, 26), _plain(waits.approvals)),
    ((32,), _plain(order.chained)),
    ((33,), _plain(rebuild.in_place)),
    ((34,), rebuild.rebuilt_equals_live),
    ((38,), _plain(dispositions.nothing_waits)),
    ((38,), folds.no_one_stranded),
    ((receiving.RECEIVING,), receiving.receiving),
    ((39,), _plain(stretches.stretches)),
)


def audit(
    evidence: Evidence,
    read_command: ReadCommand | None = None,
    *,
    blobs: Blobs | None = None,
    digest_key: bytes = b"",
) -> list[Violation]:
    """Every broken promise, in the order of the checks; empty for a clean history.

    Without `read_command` the checks that need commands (3, 4 in part, 38 in part) are left out. With the store of
    `blobs`, and the key of their digests, what the history refers to is looked at as well (`blobs`).
    """
    history = History.read(evidence, read_command)
    folded = folds.refold(history)
    found = [violation for _, check in CHECKS for violation in check(history, folded)]
    return found if blobs is None else [*found, *beside.stored(history, blobs, digest_key)]
