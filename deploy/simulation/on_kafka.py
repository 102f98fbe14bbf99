"""Of each planted mistake: whether chaos on a real cluster (`make chaos`) would have found it, and why, or why not.

`likely`: what it needs happens in every run, and what it breaks is checked there. `seldom`: it needs a moment that a run of
minutes may not meet. `no`: neither the load nor the faults of that kind bring it about, or nobody there can see it. It is a
judgement, but for those that were `TRIED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

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
from .mutants import MUTANTS
from .planting import Mutant
from .policy_mutants import POLICY_MUTANTS
from .recovery_mutants import RECOVERY_MUTANTS
from .saga_mutants import SAGA_MUTANTS
from .secrets import SECRET_MUTANTS
from .sharing_mutants import SHARING_MUTANTS
from .tight import TIGHT_MUTANTS
from .timetable_mutants import TIMETABLE_MUTANTS
from .version_mutants import VERSION_MUTANTS

Chance = Literal["likely", "seldom", "no"]


@dataclass(frozen=True, slots=True)
class Note:
    """Whether chaos on Kafka would have found a mistake, and why, or why not."""

    chance: Chance
    why: str


@dataclass(frozen=True, slots=True)
class Kind:
    """Mutants of one kind. `note` is for all of them but those that are named in `others`."""

    title: str
    mutants: tuple[Mutant, ...]
    note: Note
    others: Mapping[str, Note]

    def of(self, mutant: Mutant) -> Note:
        """The note of one of them."""
        return self.others.get(mutant.name, self.note)


def _named(chance: Chance, why: str, *names: str) -> dict[str, Note]:
    return dict.fromkeys(names, Note(chance, why))


def _none(load: str) -> Note:
    return Note("no", f"the load has no {load}")


_MOMENT = "it takes a fault in one of a few milliseconds, and a certain order after it"
_EACH_KILL = "every kill under load brings it about, and the audit reads the topics"
_SAME = "one kind of clock, order or code is in every run, so that nothing differs by it"

NO_RANDOM_MOMENT = (
    "no refold after an unknown commit",
    "writes the store before the commit",
    "restores to the last stable offset",
    "does not wait for pending offsets",
    "marks ahead of its snapshots",
    "folds into the live state",
    "goes on with fresh metadata after a refusal",
)

ENGINE_OTHERS: Mapping[str, Note] = {
    **_named("seldom", _MOMENT, *NO_RANDOM_MOMENT),
    **_named(
        "no",
        "it is planted in the log or the views in memory, which are not there",
        "commits again on the same producer",
        "projector without position guard",
    ),
    **_named("no", "the load asks before it runs what is gated", "opens every gate"),
    **_named(
        "seldom",
        "commands come twice only where an answer was lost, and results in another order only where a replay is cut",
        "forgets which commands it has seen",
        "replays by key, not in the log's order",
    ),
    **_named(
        "no",
        _SAME,
        "takes one actor for another",
        "reads the retry policy from the code",
        "eviction runs user code",
        "fires timers by the owner's clock",
        "fires what is due only when woken",
    ),
    **_named(
        "no",
        "nobody there sends what it takes: garbage, ids used twice, stale or forged decisions, payloads beside the log",
        "skips what it cannot read",
        "lets an id be used twice",
        "checks no digest",
        "takes a stale decision for the open proposal",
        "records references to what it has not stored",
        "keeps repeats while it is held",
    ),
    **_named(
        "seldom",
        "turns of the load are short: chunks and parked sessions are few",
        "restores the first chunk of a journal only",
        "pins nothing once there is a chunk",
        "parks at the end of a batch",
        "restores from snapshots alone",
        "sends a wake-up only once",
    ),
}

OF_KINDS = (
    Kind("letting commands in", ADMISSION_MUTANTS, _none("commands that must be refused"), {}),
    Kind(
        "approvals",
        APPROVAL_MUTANTS,
        _none("edits, votes, changing data or forbidden approvers"),
        {},
    ),
    Kind(
        "contracts and attempts",
        CONTRACT_MUTANTS,
        Note(
            "likely",
            "calls are cut, lost and late in every run, and the payment service's book is read",
        ),
        {
            **_named(
                "no",
                "the load has no undo, heartbeats, signals, stretches or verified ends",
                "skips the undo",
                "counts heartbeats while the task queues",
                "hands no progress on",
                "delivers in the middle of an activation",
                "delivers a signal twice",
                "takes one signal for another",
                "runs what the inbox gave out",
                "numbers the steps of each stretch anew",
                "takes the new side in a replay",
                "completes whatever the verdict",
            ),
            **_named(
                "seldom",
                _MOMENT,
                "commits what is no task before its letter is there",
                "looks up before the call can have settled",
                "looks nothing up for a first attempt that comes again",
            ),
        },
    ),
    Kind("records in the wrong place", COPY_MUTANTS, _none("copied or misplaced records"), {}),
    Kind(
        "jobs and attributes",
        ELSEWHERE_MUTANTS,
        _none("jobs that expire or fail, and no attributes"),
        _named(
            "seldom",
            "a job's command comes twice only where its first answer was lost",
            "completes a job twice",
        ),
    ),
    Kind(
        "children",
        FAMILY_MUTANTS,
        _none("children that fail, are cancelled or come late"),
        {
            **_named("likely", _EACH_KILL, "tells an end twice"),
            **_named("seldom", _MOMENT, "tells children of what is not committed"),
        },
    ),
    Kind(
        "clocks of workers",
        HASTY_MUTANTS,
        Note("likely", "clocks leap ahead in every run, by more than a task may wait"),
        {},
    ),
    Kind("floods and quotas", FLOOD_MUTANTS, _none("quotas"), {}),
    Kind(
        "authority at each attempt",
        GATE_MUTANTS,
        _none("published policy, and no grant that loses its force"),
        {},
    ),
    Kind("keys and signatures", IDENTITY_MUTANTS, _none("forgers, and no key that is revoked"), {}),
    Kind("resources", LODGING_MUTANTS, _none("resources"), {}),
    Kind("policy", POLICY_MUTANTS, _none("published policy"), {}),
    Kind("recovery by hand", RECOVERY_MUTANTS, _none("recoveries"), {}),
    Kind("compensation", SAGA_MUTANTS, _none("compensations"), {}),
    Kind("secrets", SECRET_MUTANTS, _none("planted secrets"), {}),
    Kind("shared states", SHARING_MUTANTS, _none("states large enough to be shared"), {}),
    Kind("bounds", TIGHT_MUTANTS, _none("batches at their bound"), {}),
    Kind("schedules", TIMETABLE_MUTANTS, _none("schedules"), {}),
    Kind("versions", VERSION_MUTANTS, _none("second version of a workflow, and no reset"), {}),
)

_ELSEWHERE = frozenset(mutant.name for kind in OF_KINDS for mutant in kind.mutants)

KINDS: tuple[Kind, ...] = (
    Kind(
        "the loop, the fold, the log",
        tuple(mutant for mutant in MUTANTS if mutant.name not in _ELSEWHERE),
        Note("likely", _EACH_KILL),
        ENGINE_OTHERS,
    ),
    *OF_KINDS,
)

TRIED: Mapping[str, str] = {
    "drops tasks by a clock that leapt": "the product had this mistake, and chaos found it: sessions waited for tasks that were dropped",
}
"""Mutants that were planted in the processes of a chaos run, and what came of it."""


def notes() -> Iterator[tuple[Kind, Mutant, Note]]:
    """Every mutant with its kind and its note."""
    for kind in KINDS:
        for mutant in kind.mutants:
            yield kind, mutant, kind.of(mutant)
