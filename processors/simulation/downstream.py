"""The world outside: a model that never says the same twice, and two payment systems, of which one honours its keys."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..activities.contracts import NothingDone
from .clock import VirtualClock

LATE_MS = 350
"""How long after its call a late charge appears: less than anybody who looks for it must wait."""


class TooSlow(Exception):
    """Raised by a body whose worker is to cut it off at its limit; what it did, it did."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Money that moved, and from when on a look-up sees it."""

    receipt: str
    visible_ms: int


@dataclass(slots=True)
class Bank:
    """A payment system that knows no keys: called twice, it charges twice. Each call goes as its letter of the mood says.

    `k` all is well, `l` charged and the reply lost, `t` charged and never answered, `d` charged later and the reply
    lost, `f` it failed before doing anything, `n` declined for certain. Past the end of a mood all is well.
    """

    clock: VirtualClock
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    declined: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    look_ups: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    charges: dict[str, list[Charge]] = field(default_factory=lambda: defaultdict(list))
    taken_back: set[str] = field(default_factory=set)

    def charge(self, key: str, mood: str) -> str:
        """One more call, as its letter says."""
        at = self.calls[key]
        self.calls[key] += 1
        letter = mood[at : at + 1] or "k"
        if letter == "n":
            self.declined[key] += 1
            raise NothingDone("declined")
        if letter == "f":
            raise ConnectionError("no route")
        number = sum(map(len, self.charges.values())) + 1
        late_ms = LATE_MS if letter == "d" else 0
        charge = Charge(f"charge {number}", self.clock.ms + late_ms)
        self.charges[key].append(charge)
        if letter == "t":
            raise TooSlow
        if letter in "ld":
            raise ConnectionError("no answer")
        return charge.receipt

    def find(self, key: str, mood: str) -> str | None:
        """What was charged under this key, as far as can be seen; a letter `x` of the mood makes this look fail."""
        at = self.look_ups[key]
        self.look_ups[key] += 1
        if mood[at : at + 1] == "x":
            raise ConnectionError("the ledger is down")
        seen = [c.receipt for c in self.charges[key] if c.visible_ms <= self.clock.ms]
        return seen[0] if seen else None

    def take_back(self, key: str) -> None:
        """Undoes whatever was or will be charged under this key; a repeat changes nothing."""
        self.taken_back.add(key)


@dataclass(slots=True)
class Rooms:
    """Rooms, by the receipt of whoever opened them: open until they are closed, or burn down."""

    closed: dict[str, str] = field(default_factory=dict)
    """By which key each was."""
    burnt: set[str] = field(default_factory=set)

    def close(self, handle: str, key: str) -> None:
        """Given back; a repeat changes nothing."""
        self.closed.setdefault(handle, key)

    def burn(self, handle: str) -> None:
        """Gone, and nobody is told."""
        self.burnt.add(handle)

    def is_open(self, handle: str) -> bool:
        """Whether somebody who looks finds it."""
        return handle not in self.closed and handle not in self.burnt


@dataclass(slots=True)
class Downstream:
    """Everything that activities act on; `bank` beside the payment system that honours its keys."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    calls: int = 0
    effects: dict[str, str] = field(default_factory=dict)
    hired: list[str] = field(default_factory=list)
    """The ids of jobs that were handed out, in order."""
    attempts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    called: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    bookings: list[tuple[str, str, str]] = field(default_factory=list)
    """In order: `booked` or `taken back`, which key, and the key of the call."""
    rooms: Rooms = field(default_factory=Rooms)
    bank: Bank = field(init=False)

    def __post_init__(self) -> None:
        self.bank = Bank(self.clock)

    def answer(self, prompt: str) -> int:
        """What a model says this time."""
        self.calls += 1
        return self.calls * 7 + len(prompt)

    def call(self, key: str) -> int:
        """How often it was called under this key by now, this time included."""
        self.called[key] += 1
        return self.called[key]

    def pay(self, key: str, what: str) -> str:
        """Done once per key; a repeat gets the first receipt."""
        self.attempts[key] += 1
        return self.effects.setdefault(key, f"receipt {len(self.effects) + 1} for {what}")

    def hire(self, key: str, job_id: str) -> str:
        """A job is handed to somebody else, once per key."""
        if key not in self.effects:
            self.hired.append(job_id)
        return self.pay(key, f"job {job_id}")


class World:
    """Where activities find the world of the schedule that runs now."""

    downstream = Downstream()
