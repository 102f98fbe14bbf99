"""How far a reader is behind the log: the projector in the events, a group in its topic."""

from __future__ import annotations

from collections.abc import Mapping

from ..events.log.protocol import Isolation, Log, Place


def lag(log: Log, topic: str, positions: Mapping[Place, int]) -> dict[Place, int]:
    """Offsets per partition between a reader's positions and the end that read_committed sees; 0 once all is read.

    It counts offsets, not records: markers and aborted records have offsets, too. The projector stores the end it
    has seen when nothing more comes, so a quiet log has lag 0. An open transaction is not lag: what it holds back
    is not there yet. Neither is what retention has removed.
    """
    places = [Place(topic, partition) for partition in range(log.partitions(topic))]
    ends = log.ends(places, Isolation.COMMITTED)
    return {
        place: max(0, end - max(first, positions.get(place, 0)))
        for place, (first, end) in ends.items()
    }
