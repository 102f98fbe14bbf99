"""A projector process of the simulation: the real projector over views in memory, which lose answers at times."""

from __future__ import annotations

from collections.abc import Iterator

from ...events.codec import decode_event
from ...events.log.protocol import Isolation, Place, Record
from ...events.records import Event
from ...processors.simulation.actors import Actor, Scene
from ...projections.memory import MemoryDatabase, MemoryViews, Trouble
from ...projections.projector import Projector
from ...projections.views import Superseded

SUPERSEDED_MS = 3_000
RECORDS_MAX = 7


class Database:
    """What survives, and whether its positions ever went back."""

    def __init__(self) -> None:
        self.tables = MemoryDatabase()
        self.went_back: list[str] = []
        self._highest: dict[Place, int] = {}

    def look(self) -> None:
        """Notes a position that is lower than it was."""
        for place, offset in self.tables.next_offsets().items():
            highest = self._highest.get(place, 0)
            if offset < highest:
                self.went_back.append(f"{place.topic}/{place.partition} from {highest} to {offset}")
            self._highest[place] = max(highest, offset)


class ProjectorActor(Actor):
    """One of them is enough; a second takes over from the first, at any moment."""

    points = ("j.assigned", "j.polled", "j.applied", "j.commit_sent", "j.committed", "j.faulted")

    def __init__(self, scene: Scene, number: int, database: Database) -> None:
        super().__init__(scene, f"projector-{number}")
        self._spare = number > 0
        self._database = database
        self._steps: Iterator[str] = iter(())
        self._empty = 0
        self._projector: Projector | None = None

    @property
    def idle(self) -> bool:
        """Caught up, or the spare one, which rests after healing."""
        if not self.up:
            return self._resting
        return self._empty > 1 and self._projector is not None and self._projector.caught_up

    @property
    def _resting(self) -> bool:
        return self._spare and not self.scene.faults.active

    def step(self) -> None:
        """See `Actor`; after healing the spare one stays down."""
        if self.up or not self._resting:
            super().step()

    def heal(self) -> None:
        """See `Actor`."""
        super().heal()
        if self._spare:
            self.kill(after_ms=0)

    def _start(self) -> None:
        topic = self.scene.topics.events
        self._projector = Projector(
            self.log.reader(Isolation.COMMITTED),
            MemoryViews(self._database.tables, self._trouble),
            [Place(topic, n) for n in range(self.scene.plan.partitions)],
            _decode,
            records_max=RECORDS_MAX,
        )
        self._steps = self._projector.steps()

    def _go_on(self) -> str:
        try:
            point = next(self._steps)
        except Superseded:
            self.scene.counts["exit: superseded"] += 1
            self._down(SUPERSEDED_MS)
            return ""
        finally:
            self._database.look()
        self._empty = self._empty + 1 if point == "j.polled" else 0
        return point

    def _drop(self) -> None:
        self._projector = None
        self._steps = iter(())
        self._empty = 0

    def _trouble(self, call: str) -> Trouble | None:
        scene = self.scene
        if not scene.faults.active or scene.rng.random() >= scene.plan.fault_rate:
            return None
        trouble = scene.rng.choice((Trouble.LOST, Trouble.ANSWER_LOST))
        if trouble is Trouble.ANSWER_LOST and call not in ("claim", "send_commit"):
            trouble = Trouble.LOST
        scene.counts[f"fault: views {trouble.name.lower()}"] += 1
        return trouble


def _decode(record: Record) -> Event:
    return decode_event(record.value, record.headers)
