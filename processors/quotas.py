"""How much one tenant may ask for, and how many refusals are told one by one: buckets that fill by the log's time.

Each partition meters for itself, in memory: what it grants depends on the records before, and on nothing else, since it
began to own the partition. A restart, or a transaction that failed, gives everybody a full measure again. Rules:

- A tenant over its quota is refused (`over_quota`), with when to come again; others in the same batch are not. Results
  and wake-ups are never refused, nor is a repeat of what was disposed of before: its sender must not be told otherwise.
- A child, or a run, counts as a new session, and not as a command: who asked for it is refused it, and a parent is told.
- Of refusals that leave no event, so many are told per key, each with an outcome and a dead letter. Beyond that, one dead
  letter per batch says how many more there were, and where they lie. Nothing is dropped without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..commands.check import Refusal, is_repeat
from ..commands.models import INTERNAL, OpenSession, StartChild, StartRun
from ..events.headers import OVER_QUOTA
from ..events.log.protocol import Record
from .rates import Rate
from .session import Received, Session

METERS_MAX = 20_000
"""Meters of one partition. The one that was used longest ago is forgotten: who makes up keys costs no memory."""

Name = tuple[str, str | bytes | None]
"""What is metered, and whose it is."""

REFUSALS = Rate(100, 100_000)
"""Refusals that are told one by one, of one key; of those over quota, of one tenant."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one tenant may ask of one partition: commands, and among them new sessions; null is no limit."""

    commands: Rate | None = None
    sessions: Rate | None = None
    refusals: Rate = REFUSALS


@dataclass(slots=True)
class Untold:
    """Records that were turned away and are told of together: the first of them, why, and how many up to where."""

    first: Record
    reason: str
    detail: str
    count: int = 0
    last_offset: int = -1

    def sentence(self) -> str:
        """Why the first one was, and where the others are."""
        if self.count == 1:
            return self.detail
        return (
            f"one of {self.count} like it that were turned away at once, up to offset {self.last_offset} of "
            f"{self.first.topic}/{self.first.partition}, where they still lie; this one: {self.detail}"
        )


class Meters:
    """What was used of each rate, and when that was: draining with time, in units of one `per_ms`-th of one."""

    def __init__(self) -> None:
        self._used: dict[Name, tuple[int, int]] = {}

    def trial(self) -> Trial:
        """For one batch, whose transaction may fail."""
        return Trial(self)

    def forget(self) -> None:
        """Gives everybody a full measure."""
        self._used.clear()

    def used(self, name: Name) -> tuple[int, int]:
        """How much, as of when."""
        return self._used.get(name, (0, 0))

    def keep(self, changes: dict[Name, tuple[int, int]]) -> None:
        """Takes in what a batch has used."""
        for name, used in changes.items():
            self._used.pop(name, None)  # to the end: the order is that of their use
            self._used[name] = used
        while len(self._used) > METERS_MAX:
            del self._used[next(iter(self._used))]

    def __len__(self) -> int:
        return len(self._used)


@dataclass(slots=True)
class Trial:
    """The meters as one batch moves them; nothing is moved before `keep`, after the commit."""

    meters: Meters
    changes: dict[Name, tuple[int, int]] = field(default_factory=dict)
    _untold: dict[Name, Untold] = field(default_factory=dict)

    def wait_ms(self, name: Name, rate: Rate, now_ms: int) -> int:
        """How long until there is room for one more; 0 where there is."""
        over = self._left(name, rate, now_ms) + rate.per_ms - rate.most * rate.per_ms
        return max(0, -(-over // rate.most))

    def take(self, name: Name, rate: Rate, now_ms: int) -> None:
        """Uses one."""
        at_ms = max(now_ms, self._used(name)[1])
        self.changes[name] = (self._left(name, rate, now_ms) + rate.per_ms, at_ms)

    def tells(self, record: Record, reason: str, detail: str, whose: Name, rate: Rate) -> bool:
        """Whether this refusal is told by itself; else it is counted among those of `whose`."""
        if not self.wait_ms(whose, rate, record.timestamp_ms):
            self.take(whose, rate, record.timestamp_ms)
            return True
        untold = self._untold.setdefault(whose, Untold(record, reason, detail))
        untold.count += 1
        untold.last_offset = record.offset
        return False

    def untold(self) -> Iterator[Untold]:
        """What is to be told of together, at the end of the batch."""
        yield from self._untold.values()

    def keep(self) -> None:
        """What the batch has used is used."""
        self.meters.keep(self.changes)

    def _used(self, name: Name) -> tuple[int, int]:
        return self.changes.get(name) or self.meters.used(name)

    def _left(self, name: Name, rate: Rate, now_ms: int) -> int:
        used, at_ms = self._used(name)
        return max(0, used - max(0, now_ms - at_ms) * rate.most)


def over_quota(
    quotas: Quotas, trial: Trial, session: Session, received: Received
) -> Refusal | None:
    """A refusal where the command's tenant has asked for too much; else it is counted. Decides nothing about others."""
    if quotas.commands is None and quotas.sessions is None:
        return None
    command, tenant = received.command, received.command.header.tenant
    for_another = isinstance(command.body, StartChild | StartRun)
    reports = isinstance(command.body, INTERNAL) and not for_another
    if reports or _disposed(session, received):
        return None
    rates: list[tuple[str, Rate]] = []
    if quotas.commands is not None and not for_another:
        rates.append(("commands", quotas.commands))
    opens = for_another or isinstance(command.body, OpenSession)
    if quotas.sessions is not None and opens and _new(session):
        rates.append(("new sessions", quotas.sessions))
    now_ms = received.timestamp_ms
    for what, rate in rates:
        wait_ms = trial.wait_ms((what, tenant), rate, now_ms)
        if wait_ms:
            told = (
                f"tenant {tenant!r} has asked for more than {rate.most} {what} in {rate.per_ms} ms: "
                f"send it again at {now_ms + wait_ms}, in {wait_ms} ms"
            )
            return Refusal("scope", OVER_QUOTA, told)
    for what, rate in rates:
        trial.take((what, tenant), rate, now_ms)
    return None


def _disposed(session: Session, received: Received) -> bool:
    before = received.offset <= session.head.cause_offset
    return before or is_repeat(session.head, received.command, received.command_hash or b"")


def _new(session: Session) -> bool:
    return session.state is None and session.broken is None
