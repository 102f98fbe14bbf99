"""Rollouts at work: how one is set, waited for and shown, and which versions the processors have loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..commands.identity import INSECURE, Identity
from ..commands.rollouts import PERCENT, Rollout
from ..events import records as r
from ..events.codec import decode_control
from ..events.errors import Undecodable
from ..events.log.protocol import Log, Place, Record
from ..processors.rollouts import RolloutTable, is_rollout, rollout_key
from .exits import Exit, Stopped
from .policies import TRIES_MAX, VERSION_MAX, append, to_the_end
from .settings import Settings

SHOW = "'wakeful rollout show'"

LOADED_S = 5.0
"""How long processors are given to tell of the code that they have come back with."""

LOOK_AGAIN_S = 0.2


@dataclass(slots=True)
class Shown:
    """What the control topic says of rollouts, and what each processor has told. Filled by `take`, record by record."""

    table: RolloutTable = field(default_factory=RolloutTable)
    seen: dict[str, r.RolloutSeen] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Takes one record in; what is neither a rollout nor a processor's word is passed over."""
        if is_rollout(record):
            self.table.take(record)
            return
        try:
            found = decode_control(record.value, record.headers)
        except Undecodable:
            return
        if isinstance(found, r.RolloutSeen):
            self.seen[found.processor] = found

    def decides_by(self, processor: str, offset: int) -> bool:
        """Whether this processor has told that it goes by the rollout at this offset, or a later one."""
        seen = self.seen.get(processor)
        return seen is not None and seen.rollout_offset >= offset

    def loaded(self, processor: str, workflow: str) -> list[int]:
        """The versions of a workflow that this processor has told of, the lowest first."""
        seen = self.seen.get(processor)
        told = seen.loaded if seen is not None else ()
        return sorted(int(v.version) for v in told if v.name == workflow and v.version.isdecimal())


def show(log: Log, settings: Settings, identity: Identity = INSECURE) -> Shown:
    """The control topic, read to its end, as `identity` judges it."""
    shown = Shown(RolloutTable(identity))
    for record in to_the_end(log, Place(settings.topics.control, 0)):
        shown.take(record)
    return shown


def set_next(
    log: Log, settings: Settings, made: r.RolloutSet, identity: Identity
) -> tuple[r.RolloutSet, int]:
    """Publishes it as the number after the newest of its workflow, and returns it and its offset.

    Of two who do so at once the later one in the log publishes once more: no two have one number. `NoKey`, and nothing is
    appended, where no key here vouches for it; `Stopped` where others come first again and again.
    """
    workflow = made.workflow
    for _ in range(TRIES_MAX):
        known = show(log, settings, identity).table.numbers.get(workflow, {})
        published = replace(made, number=min(max(known.values(), default=0) + 1, VERSION_MAX))
        id_ = f"rollout/{workflow}/{published.number}"
        offset = append(log, settings, published, rollout_key(workflow), id_, identity)
        found = show(log, settings, identity).table.numbers.get(workflow, {})
        taken = any(at < offset and n >= published.number for at, n in found.items())
        if not taken or published.number == VERSION_MAX:
            return published, offset
    raise Stopped(
        Exit.REFUSED,
        f"others set rollouts of {workflow} {TRIES_MAX} times at the same moment: see {SHOW}, and set yours when they are done",
    )


def rest_of(
    shown: Shown, workflow: str, version: int, percent: int, live: Iterable[str]
) -> int | None:
    """The version for the sessions beyond the percentage: the one that they are on now; null where all are meant.

    That is what was rolled out to all, else the rest of the canary so far, else the highest lower version that a live
    processor has loaded. `Stopped` where there is none.
    """
    if percent == PERCENT:
        return None
    before = _stands(shown.table.in_force.get(workflow))
    if before is None or before == version:
        lower = [v for one in live for v in shown.loaded(one, workflow) if v < version]
        before = max(lower, default=None)
    if before is None:
        raise Stopped(
            Exit.USAGE,
            f"on which version the other {PERCENT - percent} per cent of sessions shall be is not known: give --rest VERSION",
        )
    return before


def unloaded(shown: Shown, workflow: str, version: int, live: Iterable[str]) -> list[str]:
    """Live processors that have not told of this version."""
    return [one for one in live if version not in shown.loaded(one, workflow)]


def wait_until_loaded(
    look: Callable[[], Shown],
    workflow: str,
    versions: Sequence[int],
    live: Iterable[str],
    timeout_s: float,
) -> Shown:
    """What is shown once each live processor has told of these versions, or the time is up.

    One that has just come back tells of its code a moment later, and until then its last words are those of the code before.
    """
    limit, processors = time.monotonic() + timeout_s, list(live)
    while True:
        shown = look()
        missing = [one for v in versions for one in unloaded(shown, workflow, v, processors)]
        if not missing or time.monotonic() > limit:
            return shown
        time.sleep(LOOK_AGAIN_S)


def wait_until_told(look: Callable[[], Shown], live: Iterable[str], timeout_s: float) -> Shown:
    """What is shown once each live processor has told of its code at all, or the time is up."""
    limit, processors = time.monotonic() + timeout_s, list(live)
    while True:
        shown = look()
        if all(one in shown.seen for one in processors) or time.monotonic() > limit:
            return shown
        time.sleep(LOOK_AGAIN_S)


def _stands(rollout: Rollout | None) -> int | None:
    if rollout is None or rollout.said.version is None:
        return None
    said = rollout.said
    return said.version if said.percent == PERCENT else said.rest
