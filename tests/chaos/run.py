"""One run: faults one after another under load, then all is healed, comes to rest, and is checked."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO

from tests.chaos.accounts import ONCE
from tests.chaos.cluster import PARTITIONS, Cluster, cluster
from tests.chaos.faults import Fault, NotMet, Wrong, drawn
from wakeful.deploy.demo.payments import read_book
from wakeful.events.errors import Transient
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Isolation, LogFault, Place
from wakeful.projections.audit import Violation

WARM_S = 90.0
RECOVERY_MAX_S = 120.0
"""After this without an answer from every partition, a fault has stranded somebody: the run ends."""

SETTLE_S = 180.0
IMPATIENT_S = 40.0
"""The same for both, where a mistake is planted that may well strand all."""

AUDITS_MAX = 5
LAST_CALL_S = 3.0
"""After this no call of the payment service is in flight: a call's limit, and what it does late."""

WORK_MIN = 2
"""Sessions that must have ended, for each fault: a run in which little happens proves little."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Met:
    """One fault as it went. Times are seconds from its end: to the first event, to an answer from each partition, and to the views."""

    name: str
    took_s: float
    first_s: float
    all_s: float
    views_s: float
    wrong: str = ""


@dataclass(slots=True)
class Result:
    """What came of a run."""

    seed: int
    faults: list[Met] = field(default_factory=list)
    not_met: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    sessions: int = 0
    events: int = 0
    ends: int = 0
    """Processes that ended, in whatever way."""
    doubts: int = 0
    """Refunds without a look-up of which a person had to say what became of them."""
    seconds: float = 0.0

    @property
    def found(self) -> list[str]:
        """All that must not be, in sentences."""
        return [*self.violations, *(f"{met.name}: {met.wrong}" for met in self.faults if met.wrong)]

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.found


def run(
    seed: int,
    seconds: float,
    folder: Path,
    *,
    say: Say,
    only: str | None = None,
    short: bool = False,
    mutant: str | None = None,
) -> Result:
    """One run of about so many seconds. `folder` keeps the logs, and a journal of what was done; `short` leaves the long faults out."""
    began_s = monotonic()
    result = Result(seed)
    with cluster(folder, seed, mutant) as c, (folder / "journal.ndjson").open("a") as journal:
        work = c.rig
        say("all is started")
        _drive(c, lambda: len(work.done) >= PARTITIONS, WARM_S, "the first sessions")
        say("the first sessions are done")
        began_s = monotonic()
        faults = _Faults(
            c, _fitting(drawn(seed, only), short=short), began_s + seconds, result, journal, say
        )
        if mutant is not None:
            faults.recovery_max_s = IMPATIENT_S
        faults.start()
        while faults.is_alive():
            work.step()
        say("healing")
        c.heal()
        result.violations += _checked(c, result, say, SETTLE_S if mutant is None else IMPATIENT_S)
        result.sessions, result.events = len(work.kinds), len(c.observer.seen)
        result.ends = sum(len(codes) for codes in c.running.exit_codes.values())
    result.seconds = monotonic() - began_s
    return result


def _fitting(faults: Iterator[Fault], *, short: bool) -> Iterator[Fault]:
    return (fault for fault in faults if not (short and fault.is_long))


class _Faults(threading.Thread):
    """Inflicts faults until it is time, and measures how long all takes to go on after each."""

    def __init__(
        self,
        c: Cluster,
        faults: Iterator[Fault],
        until_s: float,
        result: Result,
        journal: IO[str],
        say: Say,
    ) -> None:
        super().__init__(name="faults", daemon=True)
        self._c, self._faults, self._until_s = c, faults, until_s
        self._result, self._journal, self._say = result, journal, say
        self.recovery_max_s = RECOVERY_MAX_S

    def run(self) -> None:
        """See the class."""
        try:
            while monotonic() < self._until_s and self._result.holds:
                self._one(next(self._faults))
                self._c.rest(self._c.draw.uniform(0.2, 2.0))
        except Exception:
            self._result.violations.append(f"the run broke off: {traceback.format_exc()}")

    def _one(self, fault: Fault) -> None:
        c, wrong, began_s = self._c, "", monotonic()
        try:
            fault.inflict(c)
        except NotMet as not_met:
            self._result.not_met.append(f"{fault.name}: {not_met}")
            self._say(f"{fault.name}: not met ({not_met})")
            return
        except Wrong as finding:
            wrong = str(finding)
        healed_s = monotonic()
        ends = _ends_of_events(c)
        probe = c.rig.probe()
        if not c.until(probe.over.is_set, self.recovery_max_s):
            wrong = wrong or f"no answer from each partition {self.recovery_max_s:.0f} s later"
        all_s = monotonic() - healed_s
        if not wrong and not c.until(lambda: c.views_are_at(ends), self.recovery_max_s):
            wrong = f"the views had not come so far {self.recovery_max_s:.0f} s later"
        if c.running.gave_up is not None:
            wrong = wrong or f"the supervisor gave up: {c.running.gave_up.message}"
        first_s = max(0.0, probe.first_s - healed_s) if probe.first_s else all_s
        met = Met(fault.name, healed_s - began_s, first_s, all_s, monotonic() - healed_s, wrong)
        self._result.faults.append(met)
        told = {"fault": fault.name, "all_s": round(all_s, 2), "wrong": wrong}
        print(json.dumps(told), file=self._journal, flush=True)
        self._say(
            f"{fault.name}: all go on after {all_s:.1f} s{f'; WRONG: {wrong}' if wrong else ''}"
        )


def _ends_of_events(c: Cluster) -> dict[Place, int]:
    topic = c.rig.topics.events
    places = [Place(topic, number) for number in range(PARTITIONS)]
    with KafkaLog(c.found.kafka, client_id="ends") as log:
        ends = log.ends(places, Isolation.COMMITTED)
    return {place: end for place, (_, end) in ends.items()}


def _drive(
    c: Cluster, true: Callable[[], bool], seconds: float, what: str, *, load: bool = True
) -> None:
    limit = monotonic() + seconds
    while not _is(true):
        c.rig.step(load=load)
        if monotonic() > limit:
            raise AssertionError(
                f"{what}: not in {seconds:.0f} s; open: {sorted(c.rig.open_now())}"
            )


def _is(true: Callable[[], bool]) -> bool:
    """Whether it is; a connection that was lost while nobody used it says so once."""
    try:
        return true()
    except (LogFault, Transient):
        return False


def _checked(c: Cluster, result: Result, say: Say, settle_s: float) -> list[str]:
    """All is healed: everything ends, and then everything must hold."""
    work, told = c.rig, []
    try:
        _settle(c, result, say, settle_s)
        told += [str(violation) for violation in _tried(work.violations)]
    except AssertionError as error:
        told.append(str(error))
        told += [str(violation) for violation in _tried(work._audit)]
    say("the audit is through")
    told += work.broken(read_book(c.payments.file))
    told += c.observer.stop()
    told += [f"{place} was read {times} times" for place, times in work.seen.items() if times > 1]
    if len(work.done) < WORK_MIN * len(result.faults):
        told.append(
            f"{len(work.done)} sessions are done, of {len(result.faults)} faults: too little"
        )
    return told


def _tried(audit: Callable[[], list[Violation]]) -> list[Violation]:
    for _ in range(AUDITS_MAX - 1):
        with suppress(LogFault, Transient):
            return audit()
    return audit()


def _settle(c: Cluster, result: Result, say: Say, settle_s: float) -> None:
    work = c.rig
    _rest(c, work.settled, "all sessions have ended, or wait for a person", say, settle_s)
    _rest(c, lambda: not work.has_tasks_left(), "no task is left", say, settle_s)
    limit = monotonic() + LAST_CALL_S
    _rest(c, lambda: monotonic() > limit, "no call is in flight", say, settle_s)
    _rest(c, work.settled, "all sessions have ended, or wait for a person, still", say, settle_s)
    result.doubts = work.resolve(read_book(c.payments.file))
    _rest(c, lambda: not work.kinds.keys() - work.done.keys(), "nothing is in doubt", say, settle_s)
    _rest(c, lambda: not work.of(ONCE, "uncertain", "open"), "all events are seen", say, settle_s)


def _rest(c: Cluster, true: Callable[[], bool], what: str, say: Say, settle_s: float) -> None:
    _drive(c, true, settle_s, what, load=False)
    say(what)
