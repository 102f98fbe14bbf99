"""Policies in the simulation: sets that say who may decide, in words of our own, and somebody who publishes and signs them.

Its own random numbers: whether a seed has policies, and which, changes nothing else about it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from ...commands.policy import (
    FORBIDDEN,
    NOBODY,
    NOT_PERMITTED,
    Deciding,
    Executing,
    Policy,
    Question,
    Ruling,
)
from ...commands.signatures import KEY_HEADER
from ...events import records as r
from ...events.codec import decode_control, encode_control
from ...events.errors import Undecodable
from ...events.headers import find, record_headers
from ...events.log.protocol import Isolation, Place, Record
from ..control import POLICY_KEY, PolicyDamaged, nobody_by
from .actors import GROUP, Actor, Scene
from .forgers import FORGED, LEAKED
from .plan import limits

ROOT = "root"
"""Whoever publishes here."""

ACTORS = ("ann", "bob")

CHOICES: tuple[tuple[str, ...], ...] = (("ann",), ("bob",), ("ann", "bob"), ())

MANY = (*ACTORS, "cid", "dora")

CALM_SETS = 12
"""Sets that come after the faults are over, in seeds with limits."""

STANDS_STILL_MS = (500, 2_500, 4_500)
"""How long a worker does while they come: some of what it has ages, and some it hands on with its session."""

ANOTHER_MS = (100, 700, 2_000)
"""How soon one more set follows on each of them: after some tasks were let go, before their workers begin them."""

UNSTEADY = 0.2
"""Share of a worker's looks at policy that fail, for as long as sets come, in seeds with limits."""

UNUSABLE = "unusable"
"""The comment of a set that cannot be loaded."""


ASK, STOP, TAINT, DORA = "ask", "stop", "taint", "dora"

LIMITS: tuple[str, ...] = (
    f"{ASK} think",
    f"{ASK} pay",
    f"{ASK} charge",
    f"{STOP} refund",
    f"{STOP} bonus",
    f"{DORA} flaky",
    TAINT,
)
"""What a set may say of carrying out: this tool needs somebody's approval, or dora's, may not run whoever approves it, or
what is tainted needs an approval.
"""


@dataclass(frozen=True, slots=True)
class Members:
    """Whoever is named may decide; everything may be carried out but for the limits."""

    names: frozenset[str]
    version: int
    limits: frozenset[str] = frozenset()

    @property
    def set_hash(self) -> bytes:
        """See `Policy`."""
        told = f"{self.version} {sorted(self.names)} {sorted(self.limits)}"
        return sha256(told.encode()).digest()

    def rule(self, question: Question) -> Ruling:
        """See `Policy`."""
        act = question.action
        if isinstance(act, Executing):
            return self._carrying_out(act)
        if question.actor in self.names:
            return Ruling(allowed=True, policy_ids=("named",), set_hash=self.set_hash)
        told = f"only {', '.join(sorted(self.names)) or 'nobody'} may"
        return Ruling(allowed=False, set_hash=self.set_hash, reasons=(told,), verdict=NOT_PERMITTED)

    def _carrying_out(self, act: Executing) -> Ruling:
        denied = {f"{STOP} {act.tool}"}
        if not act.approved_by:
            denied.add(f"{ASK} {act.tool}")
            denied |= {TAINT} if act.tainted and act.contract != "read" else set()
        if DORA not in act.approved_by:
            denied.add(f"{DORA} {act.tool}")
        ids = tuple(sorted(denied & self.limits))
        if not ids:
            return Ruling(allowed=True, policy_ids=("free",), set_hash=self.set_hash)
        told = f"forbidden by {', '.join(ids)}"
        return Ruling(
            allowed=False,
            policy_ids=ids,
            set_hash=self.set_hash,
            reasons=(told,),
            verdict=FORBIDDEN,
            final=f"{STOP} {act.tool}" in ids,
        )

    def wants_arguments(self, tool: str) -> bool:
        """See `Policy`."""
        del tool
        return False

    def applicable_hash(self, question: Question) -> bytes:
        """See `Policy`. A limit of the tool counts for its decisions, too, so that some sets drift and others do not."""
        tool = question.action.tool
        applying = [limit for limit in self.limits if limit.partition(" ")[2] == tool]
        kind = "decide" if isinstance(question.action, Deciding) else "execute"
        return sha256(f"{kind} {tool} {sorted(applying)}".encode()).digest()


def load(published: r.PolicyPublished) -> Members:
    """The set; `PolicyDamaged` for the comment that stands for one that cannot be loaded."""
    if published.comment == UNUSABLE:
        raise PolicyDamaged("it is not a set of this release")
    limits = frozenset(published.policies.split("\n")) - {""}
    return Members(frozenset(published.roles[0].actors), published.version, limits)


def in_force(records: Sequence[Record], control_offset: int | None, unpublished: Policy) -> Policy:
    """What was in force where the control topic was read up to this end: the last set below it that counts, or else `unpublished`."""
    told = Told(unpublished)
    for record in records:
        if record.offset < (control_offset or 0):
            told.take(record)
    return told.policy


class Told:
    """What the control topic says, record by record, to somebody who knows which records are forged and asks no key."""

    def __init__(self, unpublished: Policy) -> None:
        self.policy = self._unpublished = unpublished
        self.offset: int | None = None
        """Where the set in force lies."""
        self.version = 0

    def take(self, record: Record) -> None:
        """One record more. Neither a forged set counts, nor one that is older than what is in force.

        One by a publisher's key that is revoked closes what nothing was published for.
        """
        if record.key != POLICY_KEY:
            return
        if is_forged(record):
            if find(record.headers, KEY_HEADER) == LEAKED.kid.encode() and record.value:
                self._close(record, f"key {LEAKED.kid!r} is revoked: sign with another")
            return
        try:
            found = decode_control(record.value, record.headers)
            if not isinstance(found, r.PolicyPublished):
                raise PolicyDamaged("it is no set")
            if found.version < self.version:
                return
            self.policy = load(found)
        except (Undecodable, PolicyDamaged) as error:
            self._close(record, str(error))
            return
        self.version, self.offset = found.version, record.offset

    def _close(self, record: Record, told: str) -> None:
        if self.policy is self._unpublished:
            self.policy = nobody_by(record, told)


def is_forged(record: Record) -> bool:
    """Whether a stranger of the simulation made it."""
    return (find(record.headers, "ce_id") or b"").startswith(FORGED.encode())


class Publisher:
    """Publishes sets, good and bad, and notes when every processor has told that it decides by one."""

    def __init__(self, scene: Scene) -> None:
        rng = self._rng = random.Random(f"publisher/{scene.plan.seed}")
        self._limiting = random.Random(f"limits/{scene.plan.seed}")
        self._scene = scene
        ticks = scene.plan.ticks
        self._ticks = {rng.randrange(ticks) for _ in range(scene.plan.policies)}
        if scene.plan.unpublished is NOBODY:  # late, so that some are turned away until then
            self._ticks = {ticks - 1 - tick // 4 for tick in self._ticks}
        self._version = 0
        self._calm_sets = CALM_SETS if limits(scene.plan.seed) else 0
        self._another_ms: int | None = None
        self._last: Sequence[str] = ()
        scene.faults.unsteady = UNSTEADY if self._calm_sets else 0.0
        self._told = Told(scene.plan.unpublished)
        self._place = Place(scene.topics.control, 0)
        self._reader = scene.log.reader(Isolation.COMMITTED)
        self._reader.assign({self._place: 0})
        self._seen: dict[str, int] = {}
        self.everywhere: list[tuple[int, dict[Place, int]]] = []
        """Offsets of sets that every processor had told of, with the ends of the commands at that time."""

    def step(self, tick: int) -> None:
        """Publishes where this tick is one for it."""
        if tick in self._ticks:
            names, damaged = self._rng.choice(CHOICES), self._rng.random() < 0.4
            if limits(self._scene.plan.seed):
                self._limit(names)
            else:
                self.publish(names, damaged=damaged)
        self.look()

    def heal(self) -> None:
        """Everybody may, where anything was published."""
        if self._version:
            self.publish(ACTORS)

    def calm_step(self, workers: Sequence[Actor]) -> None:
        """After healing, where sets say what may be carried out: some more of them, while people answer and workers stall."""
        if not self._calm_sets:
            return
        self._calm_sets -= 1
        if not self._calm_sets:
            self._scene.faults.unsteady = 0.0
            self._limit(MANY)
            return
        rng = self._limiting
        self._limit(rng.choice(CHOICES))
        self._another_ms = self._scene.clock.ms + rng.choice(ANOTHER_MS)
        for worker in workers:
            if rng.random() < 0.4:
                worker.freeze(rng.choice(STANDS_STILL_MS))

    def follow(self) -> None:
        """Publishes the set that comes soon after the last, and says the same but for who may decide."""
        if self._another_ms is not None and self._scene.clock.ms >= self._another_ms:
            self._another_ms = None
            self.publish(MANY, self._last)

    def _limit(self, names: Sequence[str]) -> None:
        rng = self._limiting
        names = names if rng.random() < 0.3 else MANY
        self._last = rng.sample(LIMITS, rng.choice((0, 2, 5)))
        self.publish(names, self._last)

    def publish(
        self, names: Sequence[str], limits: Sequence[str] = (), *, damaged: bool = False
    ) -> None:
        """One set more, in force for whoever reads on; a damaged one is bytes, or a set that nobody can load."""
        self._version += 1
        roles = (r.RoleMembers("acme", "anybody", tuple(names)),)
        text = "\n".join(sorted(limits))
        comment = UNUSABLE if damaged else ""
        made = r.PolicyPublished(self._version, 0, ROOT, comment, text, roles, ())
        encoded = encode_control(made)
        value = encoded.value[:-3] if damaged and self._rng.random() < 0.5 else encoded.value
        topic = self._place.topic
        mark = self._scene.identity.sign_published(made, topic, POLICY_KEY, value)
        self._scene.log.producer().produce(
            topic,
            key=POLICY_KEY,
            value=value,
            headers=[*record_headers(encoded, f"policy/{self._version}"), *mark],
            partition=0,
        )
        self._scene.counts["fault: damaged policy" if damaged else "policies published"] += 1

    def look(self) -> None:
        """Reads on; see `everywhere`."""
        if not self._version:
            return
        for item in self._reader.poll(1_000, 0):
            if isinstance(item, Record):
                self._take(item)
        newest = self._told.offset
        if newest is None or self._behind():
            return
        if not self.everywhere or self.everywhere[-1][0] < newest:
            partitions = range(self._scene.plan.partitions)
            places = [Place(self._scene.topics.commands, n) for n in partitions]
            ends = self._scene.log.ends(places, Isolation.UNCOMMITTED)
            self.everywhere.append((newest, {place: end for place, (_, end) in ends.items()}))

    def unseen(self) -> list[str]:
        """Processors that have not told of the newest good set."""
        self.look()
        return self._behind()

    def _behind(self) -> list[str]:
        """As of what was read: whoever has told of nothing is at -1, and so is what nobody has published."""
        newest = -1 if self._told.offset is None else self._told.offset
        names = [f"{GROUP}-{n}" for n in range(self._scene.plan.processors)]
        return [name for name in names if self._seen.get(name, -1) < newest]

    def _take(self, record: Record) -> None:
        if record.key == POLICY_KEY:
            self._told.take(record)
            return
        try:
            seen = decode_control(record.value, record.headers)
        except Undecodable:
            return  # somebody laid here what belongs elsewhere
        if isinstance(seen, r.PolicySeen):
            self._seen[seen.processor] = max(self._seen.get(seen.processor, -1), seen.policy_offset)
