"""Planted mistakes: each is one that engines like this were seen to make, and each must die in the simulation.

The checks run with the mistake in force, as they would in a product that has it.
"""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from ...commands import check as checking
from ...commands import decide as deciding
from ...commands import reports as reporting
from ...events import evolve_activities as activities
from ...events.log.memory_producer import MemoryTransactionalProducer
from ...events.state import OpenActivity
from ...processors import handler as sessions
from ...processors import wake_ups as waking
from ...processors.activities.offsets import Watermark
from ...processors.activities.settled import Settled
from ...processors.handler import CommandHandler
from ...processors.loop import Loop
from ...processors.outputs import Folder
from ...processors.partition import Partition
from ...processors.session import Session
from ...processors.snapshots import Recovery
from ...processors.workflow import advance as advancing
from ...processors.workflow.claims import Claims
from ...processors.workflow.driver import Stretch
from ...projections.memory import MemoryViews
from . import mistakes as wrong
from . import state_mistakes as state_wrong
from .admitting import ADMISSION_MUTANTS
from .approval_mutants import APPROVAL_MUTANTS
from .contract_mutants import CONTRACT_MUTANTS
from .copying import COPY_MUTANTS
from .elsewhere_mutants import ELSEWHERE_MUTANTS
from .executing import HASTY_MUTANTS
from .family_mutants import FAMILY_MUTANTS
from .flooding import FLOOD_MUTANTS
from .gate_mutants import GATE_MUTANTS
from .identity_mistakes import IDENTITY_MUTANTS
from .lodging_mutants import LODGING_MUTANTS
from .planting import Mutant, plant
from .policy_mutants import POLICY_MUTANTS
from .recovery_mutants import RECOVERY_MUTANTS
from .saga_mutants import SAGA_MUTANTS
from .secrets import SECRET_MUTANTS
from .sharing_mutants import SHARING_MUTANTS
from .tight import TIGHT_MUTANTS
from .timetable_mutants import TIMETABLE_MUTANTS
from .version_mutants import VERSION_MUTANTS

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "goes on with fresh metadata after a refusal",
        plant((Loop, "_transact", wrong.goes_on)),
        seed=53,
    ),
    Mutant("no rewind after a rebalance", plant((Loop, "_rebalance", wrong.no_seek)), seed=1),
    Mutant("no rewind after a fault", plant((Loop, "_recover", wrong.no_rewind)), seed=10),
    Mutant(
        "no refold after an unknown commit", plant((Loop, "_recover", wrong.no_refold)), seed=53
    ),
    Mutant("commits the offset of the last record", plant((Loop, "_transact", wrong.last_offset))),
    Mutant("commits offsets beside the transaction", plant((Loop, "_transact", wrong.no_offsets))),
    Mutant(
        "commits again on the same producer",
        plant((MemoryTransactionalProducer, "commit", wrong.commits_again)),
        seed=45,
    ),
    Mutant(
        "writes the store before the commit", plant((Loop, "_transact", wrong.stored_first)), seed=8
    ),
    Mutant(
        "folds into the live state",
        plant((Session, "copy", wrong.fold_in_place), (Loop, "_recover", wrong.rewinds_only)),
        seed=8,
    ),
    Mutant(
        "restores to the last stable offset",
        plant((Partition, "restore", wrong.committed_end)),
        seed=51,
    ),
    Mutant(
        "does not wait for pending offsets",
        plant((Partition, "_committed", wrong.impatient)),
        seed=256,
    ),
    Mutant(
        "marks ahead of its snapshots", plant((Partition, "low_offset", wrong.mark_ahead)), seed=12
    ),
    Mutant(
        "restores from snapshots alone",
        plant((Partition, "_from_snapshots", wrong.snapshots_only)),
        seed=2,
    ),
    Mutant(
        "restores the first chunk of a journal only",
        plant((Recovery, "_chunk", state_wrong.first_chunk_only)),
        seed=19,
    ),
    Mutant(
        "pins nothing once there is a chunk",
        plant((Session, "snapshotted", property(state_wrong.kept_by_a_chunk))),
        seed=1_965,
    ),
    Mutant("parks at the end of a batch", state_wrong.parks_at_the_end_of_a_batch, seed=8),
    Mutant("eviction runs user code", state_wrong.eviction_runs_user_code, seed=39),
    Mutant(
        "takes one actor for another",
        plant((CommandHandler, "_record", wrong.actor_of_the_batch)),
        seed=8,
    ),
    Mutant("sends a wake-up only once", plant((waking, "AGAIN_MS", 1 << 60)), seed=169),
    Mutant("skips what it cannot read", plant((Folder, "_fold_one", wrong.swallows)), seed=5),
    Mutant(
        "fires timers by the owner's clock",
        plant((CommandHandler, "handle", wrong.owners_clock)),
        seed=13,
    ),
    Mutant(
        "fires what is due only when woken",
        plant((CommandHandler, "_fire_due", wrong.commits_decide_late)),
        seed=20,
    ),
    Mutant(
        "forgets which commands it has seen",
        plant((deciding, "is_repeat", lambda *_: False)),
        seed=9,
    ),
    Mutant(
        "keeps repeats while it is held",
        plant((deciding, "keep", wrong.keeps_all), (sessions, "keep", wrong.keeps_all)),
        seed=46,
    ),
    Mutant("lets an id be used twice", plant((checking, "_reused", lambda *_: None)), seed=14),
    Mutant("checks no digest", plant((checking, "_decision", wrong.no_digest)), seed=230),
    Mutant(
        "takes a stale decision for the open proposal",
        plant(
            (checking, "_decision", wrong.by_name), (deciding, "_external", wrong.external_by_name)
        ),
        seed=8,
    ),
    Mutant("opens every gate", plant((Stretch, "_use_grant", wrong.no_gate)), seed=5),
    Mutant(
        "applies late results",
        plant(
            (reporting, "_late", wrong.late_applied),
            (activities, "_settled", wrong.lenient_settled),
        ),
        seed=1,
    ),
    Mutant(
        "applies the result of an attempt that had failed",
        plant((OpenActivity, "runs", wrong.any_attempt)),
        seed=20,
    ),
    Mutant("retries without a back-off", plant((reporting, "retry_due_ms", wrong.at_once)), seed=4),
    Mutant(
        "reads the retry policy from the code",
        plant((reporting, "may_retry", wrong.code_of_the_day)),
        seed=8,
    ),
    Mutant(
        "replays by key, not in the log's order",
        plant((advancing, "rebuild", wrong.by_key)),
        seed=9,
    ),
    Mutant(
        "worker commits past unfinished tasks",
        plant((Watermark, "low", property(lambda mark: mark._next))),
        seed=188,
    ),
    Mutant(
        "worker does not look results up",
        plant((Settled, "__contains__", lambda _self, _id: False)),
        seed=2,
    ),
    Mutant(
        "records references to what it has not stored",
        plant((Claims, "store", lambda _self, _bodies: None)),
        seed=1,
    ),
    Mutant(
        "projector without position guard", plant((MemoryViews, "_guard", lambda *_: None)), seed=13
    ),
    *CONTRACT_MUTANTS,
    *ADMISSION_MUTANTS,
    *APPROVAL_MUTANTS,
    *ELSEWHERE_MUTANTS,
    *POLICY_MUTANTS,
    *GATE_MUTANTS,
    *IDENTITY_MUTANTS,
    *FLOOD_MUTANTS,
    *SECRET_MUTANTS,
    *COPY_MUTANTS,
    *TIGHT_MUTANTS,
    *SAGA_MUTANTS,
    *RECOVERY_MUTANTS,
    *FAMILY_MUTANTS,
    *TIMETABLE_MUTANTS,
    *LODGING_MUTANTS,
    *SHARING_MUTANTS,
    *VERSION_MUTANTS,
    *HASTY_MUTANTS,
)
