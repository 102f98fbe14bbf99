"""All checks by their number in the list of invariants (or a name), and the one function that runs them.

Each reads the decoded history once; the whole is linear in the number of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...events.blobs import Blobs
from . import (
    admitted,
    attempts,
    children,
    compensations,
    dispositions,
    folds,
    found_by,
    jobs,
    labels,
    letters,
    order,
    proposals,
    rebuild,
    receiving,
    recoveries,
    resources,
    retries,
    steps,
    stretches,
    tasks,
    versions,
    waits,
)
from . import blobs as beside
from . import invariants as i
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


Numbered = tuple[tuple[int | str, ...], Check]

_DISPOSITION: Numbered = ((i.ONE_DISPOSITION,), _plain(dispositions.one_disposition))
_TORN: Numbered = ((i.TORN_FREE,), _plain(order.torn_free))
_UNREAD: Numbered = ((i.NOBODY_STRANDED,), _plain(dispositions.nothing_waits))

CHECKS: tuple[Numbered, ...] = (
    ((i.GAPLESS,), _plain(order.gapless)),
    ((i.ONE_HOME,), _plain(order.one_home)),
    _DISPOSITION,
    ((i.NO_SKEW,), _plain(dispositions.no_skew)),
    ((i.IDEMPOTENT, i.NO_KEY_REUSE), _plain(dispositions.idempotent)),
    ((i.IDEMPOTENT,), _plain(dispositions.decided_once)),
    ((i.IDEMPOTENT,), _plain(dispositions.kept_are_decided)),
    ((i.EXPECTED_VERSION,), _plain(admitted.expected_versions)),
    ((i.PURE_FOLD,), folds.pure_fold),
    ((i.PURE_FOLD,), _plain(order.chunks)),
    ((i.LEGAL_PATH, i.PARKED_FREE, i.RECOVERY), _legal_path),
    ((i.NOTHING_LEAKS,), _plain(rebuild.nothing_leaks)),
    _TORN,
    ((i.TOLD_ONCE,), _plain(tasks.told_once)),
    ((i.TOLD_ONCE,), _plain(tasks.right_topic)),
    ((i.ONE_OUTCOME, i.RECORDED_ONCE), _plain(steps.one_outcome)),
    ((i.ATTEMPT_FENCE,), _plain(steps.attempt_fence)),
    ((i.ATTEMPT_FENCE,), _plain(attempts.heartbeats)),
    ((i.ATTEMPT_FENCE,), _plain(attempts.overs)),
    ((i.STABLE_KEY,), _plain(steps.stable_key)),
    ((i.AT_MOST_ONCE,), _plain(attempts.at_most_once)),
    ((i.COMPENSATION,), _plain(compensations.compensations)),
    ((i.TIMERS,), _plain(waits.timers)),
    ((i.ONE_DECISION,), _plain(waits.withdrawn)),
    ((i.TIMERS,), _plain(retries.retries)),
    (
        (i.ONE_DECISION, i.DECISION_BINDS, i.AUTHORITY, i.NO_UNAPPROVED_START),
        _plain(proposals.approvals),
    ),
    ((i.ACTOR,), _plain(admitted.vouched)),
    ((i.CHAIN,), _plain(order.chained)),
    ((i.LABELS,), _plain(labels.labelled)),
    ((i.POSITION,), _plain(rebuild.in_place)),
    ((i.REBUILD,), rebuild.rebuilt_equals_live),
    ((i.POISON,), _plain(letters.letters)),
    _UNREAD,
    ((i.NOBODY_STRANDED,), folds.no_one_stranded),
    ((i.RECEIVING,), receiving.receiving),
    ((i.JOBS,), _plain(jobs.jobs)),
    ((i.RECOVERY,), _plain(recoveries.recoveries)),
    ((i.CHILDREN,), _plain(children.children)),
    ((i.RESOURCES,), _plain(resources.resources)),
    ((i.FOUND_BY,), _plain(found_by.attributes)),
    ((i.ROLL_OVER,), _plain(stretches.stretches)),
    ((i.VERSIONS,), _plain(versions.versions)),
)

OF_SESSIONS = tuple(check for check in CHECKS if check not in (_DISPOSITION, _TORN, _UNREAD))
"""Checks that need no more than all that belongs to the sessions they look at; see `slices`."""


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
