"""Planted mistakes about contracts, signs of life, and the workflow's words: see `mutants.py`."""

from __future__ import annotations

from ...commands import reports as reporting
from ...events import evolve_activities as activities
from ...events import evolve_receiving as receiving
from ...processors import handler as sessions
from ...processors.activities import attempt as attempts
from ...processors.activities import core as workers
from ...processors.activities.jobs import Job
from ...processors.activities.once import OnceTasks
from ...processors.activities.runner import LookUps
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
    ),
    Mutant(
        "takes every task for a fresh one",
        plant((simulated, "steps_of", wrong.all_is_fresh)),
    ),
    Mutant(
        "calls as if its partitions were still its own",
        plant(
            (simulated.WorkerActor, "_is_stale", lambda _self: False),
            (Job, "is_lost", property(lambda _self: False)),
        ),
    ),
    Mutant(
        "commits what may run once after it has run",
        plant((OnceTasks, "take", wrong.takes_uncommitted), (workers, "ends_of", wrong.no_ends)),
    ),
    Mutant(
        "looks up before the call can have settled",
        plant((attempts, "_settle_ms", lambda _call: 0)),
    ),
    Mutant(
        "takes a look-up that failed for one that found nothing",
        plant((LookUps, "failed", lambda *_: None)),
    ),
    Mutant(
        "takes an uncertain call for a failed one",
        plant(
            (reporting, "leaves_doubt", lambda *_: False),
            (activities, "leaves_doubt", lambda *_: False),
        ),
    ),
    Mutant("skips the undo", plant((undoing, "_undo", wrong.no_undo))),
    Mutant(
        "counts heartbeats while the task queues",
        plant(
            (activities, "_requested", wrong.starts_when_asked),
            (activities, "_retried", wrong.starts_when_sent),
        ),
    ),
    Mutant("hands no progress on", plant((sessions, "task_of", wrong.forgets_progress))),
    Mutant(
        "delivers in the middle of an activation",
        plant((CommandHandler, "_record", wrong.delivers_at_once)),
    ),
    Mutant("delivers a signal twice", plant((receiving, "evolve", wrong.keeps_signals))),
    Mutant("takes one signal for another", plant((sessions, "deliverable", wrong.any_signal))),
    Mutant("runs what the inbox gave out", plant((receiving, "evolve", wrong.keeps_messages))),
    Mutant(
        "numbers the steps of each stretch anew",
        plant((advancing, "_context", wrong.numbers_anew)),
    ),
    Mutant("takes the new side in a replay", plant((Ahead, "passes", lambda *_: True))),
    Mutant("completes whatever the verdict", plant((Turn, "_verify", wrong.takes_any_verdict))),
)
