"""How far the readers of the topics are behind: processors in the commands, the projector in the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..settings import Settings
from .context import kafka, queries, settings

if TYPE_CHECKING:
    from ...events.log.protocol import Log, Place

COUNTED_MAX = 1_000
"""A lag up to this many offsets is counted in records: transaction markers have offsets, too."""


@dataclass(slots=True)
class Behind:
    """Per reader and partition its lag in records, and in words what could not be found out."""

    lags: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def behind() -> Behind:
    """Asks the log and the views; whatever is missing or does not answer is told and is no failure."""
    found = Behind()
    _try(found, lambda: _look(found))
    return found


def _look(found: Behind) -> None:
    given = settings()
    topics = given.topics
    with kafka(given) as log:
        _try(found, lambda: _add(found, "processors", log, topics.commands, _decided(given, log)))
        _try(found, lambda: _add(found, "projector", log, topics.events, _projected(given)))


def _try(found: Behind, look: Callable[[], None]) -> None:
    from .errors import explain

    try:
        look()
    except Exception as error:
        told, _ = explain(error)
        found.unknown.append(told.removeprefix("wakeful: "))


def _add(found: Behind, reader: str, log: Log, topic: str, positions: Mapping[Place, int]) -> None:
    from ...events.log.protocol import Place
    from ...projections.lag import lag
    from ..telling.reading import to_the_end

    offsets = lag(log, topic, positions)
    few = {p: positions.get(p, 0) for p, count in offsets.items() if 0 < count <= COUNTED_MAX}
    records = dict.fromkeys(few, 0)
    for record in to_the_end(log, few):
        records[Place(record.topic, record.partition)] += 1
    found.lags += [
        {
            "reader": reader,
            "topic": place.topic,
            "partition": place.partition,
            "lag": records.get(place, count),
        }
        for place, count in offsets.items()
    ]


def _decided(given: Settings, log: Log) -> Mapping[Place, int]:
    from ...events.log.kafka_survey import committed_offsets
    from ...events.log.protocol import Place
    from ..processes import processors_group

    topic = given.topics.commands
    places = [Place(topic, number) for number in range(log.partitions(topic))]
    return committed_offsets(given.kafka_servers, processors_group(given), places)


def _projected(given: Settings) -> Mapping[Place, int]:
    with queries(given) as asked:
        return asked.positions()
