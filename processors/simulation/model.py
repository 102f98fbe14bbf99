"""The sequential model: the same commands, one at a time, in their order, without log, loop, store or restart.

What the processors wrote must be what the model writes, byte for byte. The model replays workflows where the
processors kept them, and the other way round, so that one comparison says both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...commands.check import Facts
from ...events.blobs import Blobs
from ...events.keys import split_key
from ...events.log.protocol import Record
from ...events.topics import Topics
from ..handler import CommandHandler
from ..outputs import Folder
from ..partition import Partition, Places
from ..session import Session
from .actors import DIGEST_KEY
from .workload import APP

Line = tuple[int, bytes | None, bytes | None]


class ModelPartition(Partition):
    """A partition that is a dict."""

    def __init__(self, number: int, topics: Topics) -> None:
        self.number = number
        self.places = Places.of(topics, number)
        self.sessions: dict[bytes, Session] = {}

    def session(self, key: bytes) -> Session:
        """See `Partition`."""
        return self.sessions.get(key) or Session(*split_key(key))

    def low_offset(self) -> int:
        """See `Partition`; nobody reads the model's marks."""
        return 0


@dataclass(slots=True)
class Model:
    """Sessions as they should be, and the records that should be there."""

    topics: Topics
    partitions: dict[int, ModelPartition]
    lines: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(
        cls,
        commands: Sequence[Record],
        topics: Topics,
        partitions: int,
        *,
        blobs: Blobs,
        always_replay: bool,
    ) -> Model:
        """Folds these commands, partition after partition."""
        facts = Facts(DIGEST_KEY, blobs=blobs)
        handler = CommandHandler(APP, facts, always_replay=always_replay)
        folder = Folder(topics, handler)
        model = cls(topics, {n: ModelPartition(n, topics) for n in range(partitions)})
        for record in commands:
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
            expected = sorted(self.lines.get(topic, []), key=lambda line: line[0])
            found = [(r.partition, r.key, r.value) for r in written.get(topic, [])]
            if topic not in (self.topics.events, self.topics.outcomes):
                # Several partitions of commands write into one of these: only what is there counts.
                expected = sorted(expected, key=repr)
                found = sorted(((0, key, value) for _, key, value in found), key=repr)
            if expected != found:
                yield _difference(topic, expected, found)

    def close(self) -> None:
        """Lets the coroutines go."""
        for partition in self.partitions.values():
            for session in partition.sessions.values():
                session.drop()


def _difference(topic: str, expected: list[Line], found: list[Line]) -> str:
    at = next(
        (n for n, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
        min(len(expected), len(found)),
    )
    return f"{topic} has {len(found)} records, the model {len(expected)}; record {at} is the first that differs"
