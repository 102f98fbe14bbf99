"""The sequential model: the same commands, one at a time, in their order, without log, loop, store or restart.

What the processors wrote must be what the model writes, byte for byte. The model replays workflows where the
processors kept them, and the other way round, so that one comparison says both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...commands.check import Facts
from ...commands.identity import Identity
from ...commands.policy import Policy
from ...commands.rollouts import Rollouts
from ...events import records as r
from ...events.blobs import Blobs
from ...events.codec import EVENTS
from ...events.keys import split_key
from ...events.log.protocol import Record
from ...events.topics import Topics
from ..app import App
from ..handler import CommandHandler
from ..outputs import Folder
from ..partition import Partition, Places
from ..quotas import Meters
from ..session import Session
from ..store import TailEvent
from .actors import DIGEST_KEY
from .workload import APP

Line = tuple[int, bytes | None, bytes | None]


class ModelPartition(Partition):
    """A partition that is a dict."""

    def __init__(self, number: int, topics: Topics) -> None:
        self.number = number
        self.places = Places.of(topics, number)
        self.sessions: dict[bytes, Session] = {}
        self.meters = Meters()

    def session(self, key: bytes) -> Session:
        """See `Partition`."""
        return self.sessions.get(key) or Session(*split_key(key))

    def tail(self, key: bytes, after: int) -> list[TailEvent]:
        """See `Partition`; nobody reads the model's snapshots."""
        del key, after
        return []

    def low_offset(self) -> int:
        """See `Partition`; nobody reads the model's marks."""
        return 0


@dataclass(slots=True)
class Model:
    """Sessions as they should be, and the records that should be there."""

    topics: Topics
    partitions: dict[int, ModelPartition]
    lines: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    left: set[bytes] = field(default_factory=set)
    """Sessions that are not compared."""

    @classmethod
    def of(
        cls,
        commands: Sequence[Record],
        topics: Topics,
        partitions: int,
        *,
        blobs: Blobs,
        always_replay: bool,
        in_force: Callable[[Record], tuple[Policy, int, Rollouts]],
        identity: Identity,
        app: App = APP,
    ) -> Model:
        """Folds these commands, partition after partition, each by the policy and rollouts that were in force when it was decided."""
        facts = Facts(DIGEST_KEY, blobs=blobs)
        handler = CommandHandler(app, facts, always_replay=always_replay)
        folder = Folder(topics, handler, identity=identity)
        folder.partitions = partitions
        model = cls(topics, {n: ModelPartition(n, topics) for n in range(partitions)})
        for record in commands:
            handler.go_by(*in_force(record))
            partition = model.partitions[record.partition]
            folded = folder.fold(partition, [record])
            partition.sessions.update(folded.scratch)
            for output in folded.outputs:
                if output.topic != topics.snapshots:
                    line = (output.partition or 0, output.key, output.value)
                    model.lines[output.topic].append(line)
        return model

    def differences(self, written: dict[str, Sequence[Record]]) -> Iterator[str]:
        """Where what was written is not what should be there."""
        for topic in sorted(written.keys() | self.lines.keys()):
            expected = sorted(self._compared(self.lines.get(topic, [])), key=lambda line: line[0])
            there = ((each.partition, each.key, each.value) for each in written.get(topic, []))
            found = self._compared(there)
            if topic not in (self.topics.events, self.topics.outcomes):
                # Several partitions of commands write into one of these: only what is there counts.
                expected = sorted(expected, key=repr)
                found = sorted(((0, key, value) for _, key, value in found), key=repr)
            if expected != found:
                yield _difference(topic, expected, found)

    def leave(self, sessions: set[bytes]) -> None:
        """Compares these sessions no more, whatever is said of them."""
        self.left = sessions
        roots = {_root(key) for key in sessions}
        for partition in self.partitions.values():
            for key in [key for key in partition.sessions if _root(key) in roots]:
                partition.sessions.pop(key).drop()

    @property
    def events(self) -> Iterator[tuple[bytes | None, r.EventBody]]:
        """The facts that it has written, and whose they are."""
        for _, key, value in self.lines[self.topics.events]:
            yield key, EVENTS.decode(value, None).body

    def _compared(self, lines: Iterable[Line]) -> list[Line]:
        roots = {_root(key) for key in self.left}
        return [line for line in lines if _root(owner(line[1])) not in roots]

    def close(self) -> None:
        """Lets the coroutines go."""
        for partition in self.partitions.values():
            for session in partition.sessions.values():
                session.drop()


def _root(key: bytes) -> bytes:
    """The session from which its family comes: what is not compared of one is not of the others."""
    return key.partition(b":")[0]


def owner(key: bytes | None) -> bytes:
    """The session that a record is about, from its key."""
    return b"/".join((key or b"").split(b"/")[:2])


def _difference(topic: str, expected: list[Line], found: list[Line]) -> str:
    at = next(
        (n for n, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
        min(len(expected), len(found)),
    )
    return f"{topic} has {len(found)} records, the model {len(expected)}; record {at} is the first that differs"
