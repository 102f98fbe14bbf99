"""What one seed decides before the first step: sizes, settings, and how hostile the world is."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ...commands.policy import EVERYBODY, NOBODY, Policy
from ...events.limits import PAYLOAD_MAX

CALM, ROUGH, WILD = 0.0, 0.02, 0.08
"""Share of calls to the log that go wrong, in three kinds of seeds."""


POLICIES_SHARE = 0.4
"""Of seeds in which policies are published."""

SETS_MAX = 5

SETS_WITH_LIMITS = 14
"""Policies that come and go, so that something has drifted when an attempt is due."""

WITH_LIMITS = (4, 9, 26)
"""Of so many kinds of seeds those in which policies say what may be carried out."""

KINDS_OF_SEEDS = 43

TIGHT = (22, 27, 32, 41)
"""Of so many kinds of seeds those with a small batch, and with look-ups that answer for few tasks."""

TIGHT_KINDS = 53

CLOSED = (25, 35, 43, 52)
"""Of so many kinds of seeds with policies those in which nobody may decide until the first is there, as in production."""

CLOSED_KINDS = 59

STRAYS_EVERY = 32
"""One seed in so many has strangers among the tasks."""


SAGAS_EVERY, SAGAS_AT = 13, 11
"""One seed in so many, from this one on, has sessions that take back what they did."""


VERSIONS_EVERY, VERSIONS_AT = 17, (6, 14)
"""One seed in so many, at these places, has two versions of its workflow, and an operator."""

RECOVERS_EVERY, RECOVERS_AT = 19, 7
"""One seed in so many, from this one on, has watchers that take for stalled whatever they see."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One seed's world. `ticks` are the steps with faults; `marker_pace` is how soon late markers are written.

    Payloads of more than `inline_max` bytes go by reference.
    """

    seed: int
    partitions: int
    processors: int
    workers: int
    projectors: int
    batch_records: int
    always_replay: bool
    live_max: int
    slice_records: int
    mark_every_events: int
    ticks: int
    sessions: int
    commands: int
    fault_rate: float
    late_markers: float
    marker_pace: float
    kills: float
    skews_ms: tuple[int, ...]
    deploys: bool
    guarded: bool
    """Whether, half way, everybody is replaced at once by the next release, which guards what it changes."""
    inline_max: int
    chunk_bytes: int
    policies: int
    """How often a policy set is published; where none is, everybody may decide."""
    floods: bool = False
    """Whether another tenant sends far more than its quota."""

    @property
    def strays(self) -> bool:
        """Whether strangers write among the tasks that must not run twice; by the seed alone, so that others stay as they were."""
        return self.seed % STRAYS_EVERY == STRAYS_EVERY - 3

    @property
    def sagas(self) -> bool:
        """Whether sessions do what is taken back should they fail; by the seed alone, like `strays`."""
        return self.seed % SAGAS_EVERY == SAGAS_AT

    @property
    def versions(self) -> bool:
        """Whether two versions of the workflow are loaded, and an operator says which; by the seed, like `strays`."""
        picked = self.seed % VERSIONS_EVERY in VERSIONS_AT
        return picked and not self.deploys and not self.guarded

    @property
    def recovers(self) -> bool:
        """Whether attempts and sessions are said to have stalled; by the seed alone, like `strays`."""
        return self.seed % RECOVERS_EVERY == RECOVERS_AT

    @property
    def unpublished(self) -> Policy:
        """What is in force while no set is; by the seed alone, and by whether there will be one."""
        closed = self.seed % CLOSED_KINDS in CLOSED and self.policies and not limits(self.seed)
        return NOBODY if closed else EVERYBODY

    @property
    def tight(self) -> bool:
        """Whether bounds that otherwise only much work meets are small; by the seed alone, like `strays`."""
        return self.seed % TIGHT_KINDS in TIGHT

    @classmethod
    def draw(cls, seed: int) -> Plan:
        """The plan of this seed, for ever the same."""
        rng = random.Random(f"plan/{seed}")
        processors = rng.choice((1, 2, 2, 3))
        deploys = rng.random() < 0.15
        skews = (0, 0, 0, 5_000, -5_000, 60_000, 7_200_000, -7_200_000)
        return cls(
            seed=seed,
            partitions=rng.choice((1, 2, 2, 3)),
            processors=processors,
            workers=rng.choice((1, 1, 2)),
            projectors=rng.choice((1, 2)),
            batch_records=rng.choice((1, 2, 3, 8, 64)),
            always_replay=rng.random() < 0.25,
            live_max=rng.choice((1, 2, 2_000)),
            slice_records=rng.choice((1, 3, 500)),
            mark_every_events=rng.choice((1, 5, 20, 1_000)),
            ticks=500 if deploys else rng.choice((150, 250, 400)),
            sessions=rng.randint(1, 4),
            commands=25 if deploys else rng.randint(4, 22),
            fault_rate=rng.choice((CALM, ROUGH, ROUGH, WILD)),
            late_markers=rng.choice((0.0, 0.3, 0.8)),
            marker_pace=rng.choice((0.1, 0.5, 1.0)),
            kills=rng.choice((0.0, 0.01, 0.03)),
            skews_ms=tuple(rng.choice(skews) for _ in range(processors)),
            deploys=deploys,
            guarded=not deploys and rng.random() < 0.1,
            inline_max=rng.choice((4, 30, PAYLOAD_MAX, PAYLOAD_MAX)),
            chunk_bytes=rng.choice((1, 900, 262_144)),
            policies=_policies(seed),
            floods=seed % 25 == 11,
        )


def _policies(seed: int) -> int:
    """By random numbers of its own, so that it changes nothing else about the seed."""
    rng = random.Random(f"policies/{seed}")
    if limits(seed):
        return SETS_WITH_LIMITS
    return rng.randint(1, SETS_MAX) if rng.random() < POLICIES_SHARE else 0


def limits(seed: int) -> bool:
    """Whether the sets of this seed say what may be carried out; some of these seeds have boards, too."""
    return seed % KINDS_OF_SEEDS in WITH_LIMITS
