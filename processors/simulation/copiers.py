"""Strangers who copy what others signed, to the last byte, and lay it where it does not belong.

They take commands of clients, results and signs of life of workers, and wake-ups, and put them into other partitions
of the same topic: before the original is there (even where it never comes), soon after, and long after, when no session remembers
its id. They put commands among the tasks and the policies, and policies among the commands. Nothing may come of a copy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ...commands import models as m
from ...commands.check import Refusal
from ...commands.wire import read_command
from ...events.errors import Rejected
from ...events.keys import partition_of, session_key
from ...events.log.protocol import Headers, Isolation, Place, Record
from ...events.state import DEDUPE_MS
from ..control import POLICY_KEY
from .actors import Killed, Scene
from .forgers import FORGED, TENANT
from .policies import is_forged
from .workload import QUEUES

COPIERS = (23, 29, 34, 40)
"""Of so many kinds of seeds those with copiers in them, as far as there is another partition."""

KINDS_OF_SEEDS = 47

BEFORE = 0.35
"""Share of what is sent that they overhear, and that lies in another partition first."""

LOST = 0.8
"""Of the results that are overheard, those whose worker dies before they are sent: only the copy is there."""

SHARE = 0.1
"""Of the ticks, those at which one copies what lies in the log."""

ELSEWHERE = 0.25
"""Share of those copies that go to another topic."""

CALM_COPIES = 12
"""So many more come when the faults are over: one per round."""

OLD_COPIES = 12
"""And so many of records that are too old by then."""

LONG_MS = DEDUPE_MS + 3_600_000


@dataclass(frozen=True, slots=True)
class Copy:
    """Where one was laid, of which key, and whether that is only another partition of its own topic."""

    place: Place
    offset: int
    key: bytes
    misplaced: bool


class Copier:
    """His dice are his own: whether a seed has one changes nothing else of its plan."""

    def __init__(self, scene: Scene) -> None:
        kind = scene.plan.seed % KINDS_OF_SEEDS
        self.active = kind in COPIERS and scene.plan.partitions > 1
        self.copies: list[Copy] = []
        self._rng = random.Random(f"copier/{scene.plan.seed}")
        self._scene = scene
        self._topics = scene.topics
        self._identity = scene.identity
        self._seen: list[Record] = []
        self._calm = CALM_COPIES
        if self.active:
            scene.overhears = self.overhears
            numbers = range(scene.plan.partitions)
            self._reader = scene.log.reader(Isolation.COMMITTED)
            self._reader.assign({Place(self._topics.commands, n): 0 for n in numbers})

    def overhears(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Somebody sends this, which is on its way still; of a result the worker may die here (`Killed`)."""
        if topic != self._topics.commands or self._rng.random() >= BEFORE:
            return
        sent = Record(topic, 0, 0, self._scene.clock.ms, key, value, tuple(headers))
        command = self._genuine(sent)
        if command is None:
            return
        self._misplace(sent, "copied ahead")
        may_be_lost = self._scene.faults.active and _is_workers_result(command)
        if may_be_lost and self._rng.random() < LOST:
            self._scene.counts["fault: only the copy arrived"] += 1
            raise Killed

    def step(self) -> None:
        """Copies something that is there, now and then."""
        if self.active and self._rng.random() < SHARE:
            self._copy()

    def calm_step(self) -> None:
        """Goes on for a while when the faults are over."""
        if self.active and self._calm:
            self._calm -= 1
            self._copy()

    def comes_again(self) -> bool:
        """Long after all is at rest he copies what is too old by then; whether he did, so that others read on."""
        if not self.active:
            return False
        self._scene.clock.ms += LONG_MS
        self._look()
        for old in self._rng.sample(self._seen, min(OLD_COPIES, len(self._seen))):
            self._misplace(old, "copied long after")
        return True

    def _copy(self) -> None:
        self._look()
        if self._rng.random() < ELSEWHERE:
            self._lay_elsewhere()
        elif self._seen:
            self._misplace(self._rng.choice(self._seen), "copied")

    def _look(self) -> None:
        for item in self._reader.poll(1_000, 0):
            if isinstance(item, Record) and self._is_at_home(item) and self._genuine(item):
                self._seen.append(item)

    def _genuine(self, record: Record) -> m.Command | None:
        """What processors would believe where it belongs; of those that flood there are enough."""
        try:
            command, stored = read_command(record.value, record.headers)
            key = session_key(command.header.tenant, command.header.session_id)
        except Rejected:
            return None
        header = command.header
        if record.key != key or header.tenant != TENANT or header.command_id.startswith(FORGED):
            return None
        is_refused = isinstance(self._identity.check(command, stored, record), Refusal)
        return None if is_refused else command

    def _is_at_home(self, record: Record) -> bool:
        home = partition_of(record.key or b"", self._scene.plan.partitions)
        return record.partition == home

    def _misplace(self, record: Record, fault: str) -> None:
        """Into one of the other partitions, or into each of them."""
        home = partition_of(record.key or b"", self._scene.plan.partitions)
        others = [n for n in range(self._scene.plan.partitions) if n != home]
        chosen = others if self._rng.random() < 0.3 else [self._rng.choice(others)]
        for number in chosen:
            self._lay(record, Place(self._topics.commands, number), fault)

    def _lay_elsewhere(self) -> None:
        """A policy among the commands, or a command where tasks or policies lie."""
        if self._rng.random() < 0.3:
            control = self._scene.log.dump(self._topics.control)
            sets = [one for one in control if one.key == POLICY_KEY and not is_forged(one)]
            if sets:
                number = self._rng.randrange(self._scene.plan.partitions)
                place = Place(self._topics.commands, number)
                self._lay(self._rng.choice(sets), place, "policy among commands")
            return
        if not self._seen:
            return
        record = self._rng.choice(self._seen)
        queue, number = self._rng.choice(QUEUES), self._rng.randrange(self._scene.plan.partitions)
        place = self._rng.choice(
            (
                Place(self._topics.activities(queue), number),
                Place(self._topics.activities(queue, once=True), number),
                Place(self._topics.control, 0),
            )
        )
        self._lay(record, place, "command elsewhere")

    def _lay(self, record: Record, place: Place, fault: str) -> None:
        """Beside all faults, so that he knows where each of his copies lies."""
        broker = self._scene.log._broker  # noqa: SLF001 a client would not be told where nobody answers
        there, offset = broker.append(
            place.topic, place.partition, record.key, record.value, record.headers, None
        )
        misplaced = place.topic == record.topic
        self.copies.append(Copy(there, offset, record.key or b"", misplaced))
        self._scene.counts[f"fault: {fault}"] += 1


def _is_workers_result(command: m.Command) -> bool:
    """Whether a worker said it, and not a person who has a worker's key."""
    is_result = isinstance(command.body, m.CompleteActivity | m.FailActivity)
    return is_result and command.header.channel == "worker"
