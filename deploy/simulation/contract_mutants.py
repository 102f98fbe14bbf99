"""Planted mistakes about contracts, signs of life, and the workflow's words: see `mutants.py`."""

from __future__ import annotations

from ...commands import reports as reporting
from ...events import evolve_activities as activities
from ...events import evolve_receiving as receiving
from ...processors import handler as sessions
from ...processors import session
from ...processors.activities import attempt as attempts
from ...processors.activities import core as workers
from ...processors.activities.look_ups import LookUps
from ...processors.activities.once import OnceTasks
from ...processors.handler import CommandHandler
from ...processors.simulation import worker as simulated
from ...processors.workflow import advance as advancing
from ...processors.workflow import undoing
from ...processors.workflow.ahead import Ahead
from ...processors.workflow.turn import Turn
from . import contract_mistakes as wrong
from .planting import Mutant, plant

CONTRACT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "looks nothing up for a first attempt that comes again",
        plant((simulated, "steps_of", wrong.first_is_fresh)),
        seed=49,
    ),
    Mutant(
        "takes every task for a fresh one",
        plant((simulated, "steps_of", wrong.all_is_fresh)),
        seed=8,
    ),
    Mutant(
        "commits what may run once after it has run",
        plant((OnceTasks, "take", wrong.takes_uncommitted), (workers, "ends_of", wrong.no_ends)),
        seed=137,
    ),
    Mutant(
        "commits what is no task before its letter is there",
        plant((OnceTasks, "add", wrong.reads_late)),
        seed=1_693,
    ),
    Mutant(
        "looks up before the call can have settled",
        plant((attempts, "_settle_ms", lambda _call: 0)),
        seed=49,
    ),
    Mutant(
        "takes a look-up that failed for one that found nothing",
        plant((LookUps, "failed", lambda *_: None)),
        seed=8,
    ),
    Mutant(
        "takes an uncertain call for a failed one",
        plant(
            (reporting, "leaves_doubt", lambda *_: False),
            (activities, "perhaps_done", lambda *_: False),
        ),
        seed=2,
    ),
    Mutant("skips the undo", plant((undoing, "_undo", wrong.no_undo)), seed=18),
    Mutant(
        "counts heartbeats while the task queues",
        plant(
            (activities, "_requested", wrong.starts_when_asked),
            (activities, "_retried", wrong.starts_when_sent),
        ),
        seed=12,
    ),
    Mutant("hands no progress on", plant((sessions, "task_of", wrong.forgets_progress)), seed=12),
    Mutant(
        "delivers in the middle of an activation",
        plant((CommandHandler, "_record", wrong.delivers_at_once)),
        seed=6,
    ),
    Mutant("delivers a signal twice", plant((receiving, "evolve", wrong.keeps_signals)), seed=16),
    Mutant(
        "takes one signal for another", plant((session, "deliverable", wrong.any_signal)), seed=16
    ),
    Mutant(
        "runs what the inbox gave out", plant((receiving, "evolve", wrong.keeps_messages)), seed=10
    ),
    Mutant(
        "numbers the steps of each stretch anew",
        plant((advancing, "context_of", wrong.numbers_anew)),
        seed=15,
    ),
    Mutant("takes the new side in a replay", plant((Ahead, "passes", lambda *_: True)), seed=20),
    Mutant(
        "completes whatever the verdict", plant((Turn, "_verify", wrong.takes_any_verdict)), seed=10
    ),
)
