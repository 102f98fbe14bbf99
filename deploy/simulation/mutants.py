"""Planted mistakes: each is one that engines like this were seen to make, and each must die in the simulation.

A mistake is put in by replacing a function while a schedule runs; the product has no switch for it. The checks run
with the mistake in force, as they would in a product that has it.
"""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from ...commands import check as checking
from ...commands import decide as deciding
from ...commands import reports as reporting
from ...events import evolve_activities as activities
from ...events.log.memory_producer import MemoryTransactionalProducer
from ...processors import handler as sessions
from ...processors import loop as looping
from ...processors.activities.offsets import Watermark
from ...processors.activities.settled import Settled
from ...processors.handler import CommandHandler
from ...processors.loop import Loop
from ...processors.outputs import Folder
from ...processors.partition import Partition
from ...processors.session import Session
from ...processors.workflow import advance as advancing
from ...processors.workflow.claims import Claims
from ...processors.workflow.driver import Stretch
from ...projections.memory import MemoryViews
from . import mistakes as wrong

Mistake = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake; `seed` is one that kills it, tried first."""

    name: str
    mistake: Mistake
    seed: int = 0


def _patch(*patches: tuple[Any, str, Any]) -> Mistake:
    @contextmanager
    def force() -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, value in patches:
                stack.enter_context(mock.patch.object(target, name, value))
            yield

    return force


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "goes on with fresh metadata after a refusal",
        _patch((Loop, "_transact", wrong.goes_on)),
        seed=71,
    ),
    Mutant("no rewind after a rebalance", _patch((Loop, "_rebalance", wrong.no_seek)), seed=10),
    Mutant("no rewind after a fault", _patch((Loop, "_recover", wrong.no_rewind))),
    Mutant("no refold after an unknown commit", _patch((Loop, "_recover", wrong.no_refold))),
    Mutant("commits the offset of the last record", _patch((Loop, "_transact", wrong.last_offset))),
    Mutant(
        "commits offsets beside the transaction",
        _patch((Loop, "_transact", wrong.no_offsets)),
        seed=1,
    ),
    Mutant(
        "commits again on the same producer",
        _patch((MemoryTransactionalProducer, "commit", wrong.commits_again)),
        seed=5,
    ),
    Mutant(
        "writes the store before the commit",
        _patch((Loop, "_transact", wrong.stored_first)),
    ),
    Mutant(
        "folds into the live state",
        _patch((Session, "copy", wrong.fold_in_place), (Loop, "_recover", wrong.rewinds_only)),
        seed=8,
    ),
    Mutant(
        "restores to the last stable offset",
        _patch((Partition, "restore", wrong.committed_end)),
        seed=297,
    ),
    Mutant(
        "does not wait for pending offsets",
        _patch((Partition, "_committed", wrong.impatient)),
        seed=368,
    ),
    Mutant(
        "marks ahead of its snapshots", _patch((Partition, "low_offset", wrong.mark_ahead)), seed=41
    ),
    Mutant(
        "restores from snapshots alone",
        _patch((Partition, "_from_snapshots", wrong.snapshots_only)),
        seed=5,
    ),
    Mutant(
        "takes one actor for another",
        _patch((CommandHandler, "_record", wrong.actor_of_the_batch)),
    ),
    Mutant("sends a wake-up only once", _patch((looping, "NUDGE_AGAIN_MS", 1 << 60)), seed=84),
    Mutant("skips what it cannot read", _patch((Folder, "_fold_one", wrong.swallows)), seed=5),
    Mutant(
        "fires timers by the owner's clock",
        _patch((CommandHandler, "handle", wrong.owners_clock)),
    ),
    Mutant(
        "fires what is due only when woken",
        _patch((CommandHandler, "_fire_due", wrong.commits_decide_late)),
        seed=7,
    ),
    Mutant(
        "forgets which commands it has seen",
        _patch((deciding, "is_repeat", lambda *_: False)),
        seed=3,
    ),
    Mutant(
        "keeps repeats while it is held",
        _patch((deciding, "keep", wrong.keeps_all), (sessions, "keep", wrong.keeps_all)),
        seed=25,
    ),
    Mutant("lets an id be used twice", _patch((checking, "_reused", lambda *_: None)), seed=10),
    Mutant("checks no digest", _patch((checking, "_decision", wrong.no_digest)), seed=13),
    Mutant(
        "takes a stale decision for the open proposal",
        _patch(
            (checking, "_decision", wrong.by_name), (deciding, "_external", wrong.external_by_name)
        ),
        seed=13,
    ),
    Mutant("opens every gate", _patch((Stretch, "_use_grant", wrong.no_gate)), seed=2),
    Mutant(
        "applies late results",
        _patch(
            (reporting, "_late", wrong.late_applied),
            (activities, "_settled", wrong.lenient_settled),
        ),
        seed=5,
    ),
    Mutant(
        "applies the result of an attempt that had failed",
        _patch((reporting, "_awaited", wrong.any_attempt)),
        seed=322,
    ),
    Mutant(
        "retries without a back-off", _patch((reporting, "retry_due_ms", wrong.at_once)), seed=2
    ),
    Mutant(
        "reads the retry policy from the code",
        _patch((reporting, "may_retry", wrong.code_of_the_day)),
        seed=2,
    ),
    Mutant(
        "replays by key, not in the log's order",
        _patch((advancing, "rebuild", wrong.by_key)),
        seed=9,
    ),
    Mutant(
        "worker commits past unfinished tasks",
        _patch((Watermark, "low", property(lambda mark: mark._next))),
        seed=8,
    ),
    Mutant(
        "worker does not look results up",
        _patch((Settled, "__contains__", lambda _self, _id: False)),
        seed=8,
    ),
    Mutant(
        "records references to what it has not stored",
        _patch((Claims, "store", lambda _self, _bodies: None)),
        seed=1,
    ),
    Mutant(
        "projector without position guard",
        _patch((MemoryViews, "_guard", lambda *_: None)),
        seed=13,
    ),
)
