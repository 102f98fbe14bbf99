"""What is done for the views beside the rows: where the log ends is noted, and an older version's views are switched.

Neither is part of the rows: what fails here is tried again later, and the projector goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
import structlog

from ..events.log.protocol import LogFault, Place
from .connection import connect
from .database import is_shown, show
from .exclusion import Busy
from .schemas import Schemas

LOOK_EVERY_S = 1.0

_NOTE = """
INSERT INTO {live}.ends AS seen (topic, partition, log_end, measured_at, complete_at)
SELECT topic, partition, x.log_end, now(), CASE WHEN p.next_offset >= x.log_end THEN now() END
FROM json_to_recordset(%s::json) AS x(topic text, partition integer, log_end bigint)
LEFT JOIN {live}.positions p USING (topic, partition)
ORDER BY topic, partition
ON CONFLICT (topic, partition) DO UPDATE SET log_end = excluded.log_end, measured_at = excluded.measured_at,
    complete_at = coalesce(excluded.complete_at, seen.complete_at)
"""

_log = structlog.get_logger()


class Upkeep:
    """Looks at most once in `LOOK_EVERY_S`, on a connection of its own. `ends` asks the log; `monotonic` is in seconds."""

    def __init__(
        self,
        url: str,
        namespace: str,
        ends: Callable[[], Mapping[Place, int]],
        monotonic: Callable[[], float],
    ) -> None:
        self._url = url
        self._namespace = namespace
        schemas = Schemas(namespace)
        self._owner = schemas.owner
        self._note = schemas.fill(_NOTE)
        self._ends = ends
        self._monotonic = monotonic
        self._next_s = monotonic()
        self._connection: psycopg.Connection[Any] | None = None
        self._awaited: Mapping[Place, int] | None = None if is_shown(url, namespace) else ends()

    def look(self, positions: Mapping[Place, int]) -> None:
        """Notes the log's ends, and shows this version's rows once they have what was in the log at the start."""
        if self._monotonic() < self._next_s:
            return
        self._next_s = self._monotonic() + LOOK_EVERY_S
        try:
            self._note_ends()
            if self._awaited is not None and all(
                positions.get(place, 0) >= end for place, end in self._awaited.items()
            ):
                older = show(self._url, self._namespace)
                self._awaited = None
                _log.info("the views show the new version", dropped=older)
        except Busy as busy:
            _log.warning("the views do not show the new version yet", cause=str(busy))
        except (LogFault, psycopg.Error) as fault:
            self.close()
            _log.debug("the log's end is not noted", cause=str(fault))

    def close(self) -> None:
        """Frees the connection; the next look makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _note_ends(self) -> None:
        ends = [{**place._asdict(), "log_end": end} for place, end in self._ends().items()]
        if self._connection is None:
            self._connection = connect(self._url, role=self._owner)
        self._connection.execute(self._note, (json.dumps(ends),))
