"""The faults of a chaos run: each is inflicted, and healed when its function returns; what is drawn comes from the seed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from random import Random

from tests.chaos.clocked import ALL
from tests.chaos.cluster import Cluster
from tests.chaos.proxy import END_TXN, JOIN_GROUP
from wakeful.deploy.exits import Exit

MEETS_S = 15.0
"""How long a process may take to come to the crash point that it was given."""

SESSION_TIMEOUT_S = 10.0
"""Of a processor in its group: who is silent for longer is put out of it."""

FROZEN_S = 32.0
"""Longer than any client of Kafka waits for an answer, and than a transaction may take."""

TAKES_PLACE_S = 30.0
HOUR_MS = 3_600_000


class NotMet(Exception):
    """The fault did not come about, and is not counted; says why."""


class Wrong(Exception):
    """What must follow from the fault itself did not: a finding."""


Inflict = Callable[[Cluster], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What it is called in the table, and how it is inflicted; `is_long` takes half a minute or more."""

    name: str
    inflict: Inflict
    is_long: bool = False


def crashes(what: str, point: str, passes: tuple[int, int] = (1, 4)) -> Fault:
    """A process dies at a crash point, in the life after the next kill."""

    def inflict(c: Cluster) -> None:
        name = c.named(what)
        before = c.ends(name)
        c.running.crash_next(name, f"{point}:{c.draw.randint(*passes)}")
        c.kill(name)
        if not c.until(lambda: c.ends(name) >= before + 2, MEETS_S):
            c.kill(name)  # in its next life it has no crash point any more
            raise NotMet(f"{name} did not come to {point} in {MEETS_S:.0f} s")

    return Fault(f"{what} dies at `{point}`", inflict)


def kills(what: str, count: int = 1, rests_s: float = 0.0) -> Fault:
    """`kill -9`, of one or of several at once."""

    def inflict(c: Cluster) -> None:
        names = [name for name in c.running.names if name.startswith(what)]
        for name in c.draw.sample(names, count):
            c.kill(name)
            c.rest(rests_s)

    many = "" if count == 1 else f"all {count} "
    return Fault(f"`kill -9`: {many}{what or 'processes'}", inflict)


def stops(what: str, seconds: float) -> Fault:
    """Frozen with SIGSTOP for a while."""

    def inflict(c: Cluster) -> None:
        name = c.named(what)
        c.kill(name, signal.SIGSTOP)
        c.rest(seconds)
        c.kill(name, signal.SIGCONT)

    return Fault(f"{what} frozen for {seconds:.0f} s", inflict)


def rolls(c: Cluster) -> None:
    """Each processor is ended in order and comes again."""
    for name in [name for name in c.running.names if name.startswith("processor")]:
        before = c.ends(name)
        c.kill(name, signal.SIGTERM)
        if not c.until(lambda n=name, b=before: c.ends(n) > b, MEETS_S):
            raise Wrong(f"{name} did not end {MEETS_S:.0f} s after SIGTERM")
        c.rest(1.0)


def zombie(c: Cluster) -> None:
    """Frozen, replaced by another of its name, and let go on: it must end, and say nothing any more."""
    name = c.named("processor")
    before = c.ends(name)
    c.kill(name, signal.SIGSTOP)
    other = _processor(c, name.rpartition("-")[2])
    c.kill(name, signal.SIGCONT)
    _one_must_end(c, name, before, other)


def duplicate(c: Cluster) -> None:
    """A second processor of the same name: one of the two must end."""
    name = c.named("processor")
    before = c.ends(name)
    other = _processor(c, name.rpartition("-")[2])
    _one_must_end(c, name, before, other)


def _processor(c: Cluster, ordinal: str) -> subprocess.Popen[bytes]:
    other = c.start_other("processor", c.rig.app, "--ordinal", ordinal)
    c.until(lambda: other.poll() is not None or c.said(other, "partition restored"), MEETS_S)
    return other


def _one_must_end(c: Cluster, name: str, before: int, other: subprocess.Popen[bytes]) -> None:
    ended = c.until(lambda: c.ends(name) > before or other.poll() is not None, TAKES_PLACE_S)
    c.rest(2.0)  # what was ended comes again, and takes its place back
    c.until(lambda: other.poll() is not None, 5.0)
    c.end(other)
    if not ended:
        raise Wrong(
            f"two processors ran as {name} for {TAKES_PLACE_S:.0f} s, and none of them ended"
        )


def second_projector(c: Cluster) -> None:
    """Another projector takes over; the first ends, comes again, and takes over in its turn."""
    before = c.ends("projector")
    other = c.start_other("projector")
    ended = c.until(lambda: c.ends("projector") > before or other.poll() is not None, TAKES_PLACE_S)
    if ended:
        c.until(lambda: other.poll() is not None, MEETS_S)
    code = c.end(other)
    if not ended:
        raise Wrong("two projectors wrote the same views, and none of them ended")
    if code not in (Exit.BUSY, Exit.FAULT, -signal.SIGKILL):
        raise Wrong(f"the other projector ended with {code}")


def rebalances(c: Cluster) -> None:
    """Members come and go every few seconds: by their leave, or by death."""
    for round_ in range(3):
        other = c.start_other("processor", c.rig.app, "--ordinal", str(10 + round_))
        c.until(lambda o=other: o.poll() is not None or c.said(o, "partition restored"), MEETS_S)
        c.rest(c.draw.uniform(0.5, 2.0))
        c.end(other, c.draw.choice((signal.SIGTERM, signal.SIGKILL)))


def service(name: str, number: int, rest_s: tuple[float, float] = (0.0, 2.0)) -> Inflict:
    """A service ends by a signal, and is started again on its port and data."""

    def inflict(c: Cluster) -> None:
        c.stack.kill(name, number)
        c.rest(c.draw.uniform(*rest_s))
        c.start_again(name)

    return inflict


def freezes(name: str, seconds: float) -> Inflict:
    """A service answers nobody for a while, and drops nobody."""

    def inflict(c: Cluster) -> None:
        c.stack.kill(name, signal.SIGSTOP)
        c.rest(seconds)
        c.stack.kill(name, signal.SIGCONT)

    return inflict


def flushes(c: Cluster) -> None:
    """All that Redis holds is gone, five times in a second."""
    with c.redis() as client:
        for _ in range(5):
            client.flushall()
            c.rest(0.2)


def delays(c: Cluster) -> None:
    """Every request is on its way for longer."""
    c.proxy.delay_s = c.draw.choice((0.05, 0.15, 0.4))
    c.rest(8.0)
    c.proxy.delay_s = 0.0


def cuts(c: Cluster) -> None:
    """All connections to the broker end, and none begins, three times."""
    for _ in range(3):
        c.proxy.cut()
        c.rest(c.draw.uniform(0.1, 2.0))
        c.proxy.mend()
        c.rest(c.draw.uniform(0.5, 2.0))


def keeps_back(kind: int) -> Inflict:
    """One request of this kind comes 12 to 20 s late, when whoever sent it may have been replaced."""

    def inflict(c: Cluster) -> None:
        c.proxy.keep_back(kind, one=True)
        if kind == JOIN_GROUP:
            c.kill(c.named("processor"))
        came = c.proxy.wait_for_one(MEETS_S)
        c.rest(c.draw.uniform(12.0, 20.0) if came else 0.0)
        with suppress(Empty):
            c.proxy.let_go(5.0)
        if not came:
            raise NotMet("no such request came")

    return inflict


def steps(off_ms: int) -> Inflict:
    """The clocks of Wakeful's processes step: of all, or of every other one."""

    def inflict(c: Cluster) -> None:
        c.put_off_clocks(off_ms, c.draw.choice((0, 1, ALL)))
        c.rest(5.0)
        c.put_off_clocks(0, ALL)

    return inflict


def storm(c: Cluster) -> None:
    """`kill -9` of somebody, ten times in about ten seconds."""
    for _ in range(10):
        c.kill(c.draw.choice(c.running.names))
        c.rest(c.draw.uniform(0.2, 1.5))


PROCESSOR_POINTS = (
    "p.polled",
    "p.begun",
    "p.offsets_sent",
    "p.produced",
    "p.commit_sent",
    "p.committed",
    "p.stored",
    "p.restoring",
    "p.restored",
)
WORKER_POINTS = ("w.leased", "w.dispatched", "w.responded", "w.result_sent")
PROJECTOR_POINTS = ("j.assigned", "j.polled", "j.applied", "j.commit_sent", "j.committed")
ONCE_IN_A_LIFE = frozenset({"p.restoring", "p.restored", "j.assigned"})


def _points(what: str, points: tuple[str, ...]) -> Iterator[Fault]:
    for point in points:
        yield crashes(what, point, (1, 1) if point in ONCE_IN_A_LIFE else (1, 4))


FAULTS: tuple[Fault, ...] = (
    *_points("processor", PROCESSOR_POINTS),
    *_points("worker", WORKER_POINTS),
    *_points("projector", PROJECTOR_POINTS),
    kills("processor"),
    kills("worker"),
    kills("projector"),
    kills("processor", 3),
    kills("worker", 3),
    kills("", 7),
    Fault("`kill -9`, ten in ten seconds", storm),
    stops("processor", 3.0),
    stops("processor", SESSION_TIMEOUT_S + 4),
    stops("worker", 4.0),
    stops("projector", 4.0),
    Fault("processors restarted in order", rolls),
    Fault("zombie: frozen, replaced, continued", zombie),
    Fault("two processors of one name", duplicate),
    Fault("a second projector takes over", second_projector),
    Fault("members come and go every few seconds", rebalances),
    Fault("broker: `kill -9`, started again", service("kafka", signal.SIGKILL)),
    Fault("broker: ended, started again", service("kafka", signal.SIGTERM)),
    Fault(f"broker frozen for {FROZEN_S:.0f} s", freezes("kafka", FROZEN_S), is_long=True),
    Fault("Postgres: ended, started again", service("postgres", signal.SIGINT)),
    Fault("Postgres: ended at once, started again", service("postgres", signal.SIGQUIT)),
    Fault("Redis: flushed", flushes),
    Fault("Redis: frozen for 5 s", freezes("redis", 5.0)),
    Fault("Redis: lost for 3 to 6 s", service("redis", signal.SIGKILL, (3.0, 6.0))),
    Fault("network: each request delayed", delays),
    Fault("network: cut", cuts),
    Fault("network: one EndTxn comes 12 to 20 s late", keeps_back(END_TXN)),
    Fault("network: one JoinGroup comes 12 to 20 s late", keeps_back(JOIN_GROUP)),
    Fault("clocks 30 s ahead", steps(30_000)),
    Fault("clocks 2 h ahead", steps(2 * HOUR_MS)),
    Fault("clocks 2 h behind", steps(-2 * HOUR_MS)),
)


def drawn(seed: int, only: str | None = None) -> Iterator[Fault]:
    """Faults without end, in the order of the seed: all of them come before any comes again.

    An even seed and the next begin with other halves of one order, so that two runs of half a round meet all.
    """
    wanted = [
        fault for fault in FAULTS if only is None or any(w in fault.name for w in only.split(","))
    ]
    if not wanted:
        raise ValueError(f"no fault has {only!r} in its name: {', '.join(f.name for f in FAULTS)}")
    draw = Random(f"{seed // 2}/order")
    draw.shuffle(wanted)
    half = seed % 2 * (len(wanted) // 2)
    while True:
        yield from wanted[half:]
        yield from wanted[:half]
