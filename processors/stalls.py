"""A net under partitions that are assigned, ready, and deliver nothing although there is something to be read.

No rule says that this can happen; clients did it all the same (a fetch that is never sent again, a pause that outlives its
reason). So where nothing came for a while and nothing else is waiting, the log is asked. The end that counts is the last
stable offset, so an open transaction is no stall; and as markers and aborted records lie below it, too, a second reader
must find a real record there, twice, with silence between. Then the loop goes its one way back. A stall at the same
record again ends the process: a fresh client is the better cure.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from ..events.log.protocol import EndOfPartition, Fatal, Isolation, Log, LogFault, Place

SILENT_MS = 10_000
"""Silence after which the log is asked: far longer than any fetch, and short for whoever waits."""

LOOK_MS = 200
LOOKS_MAX = 5
"""How long, and how often, the second reader is asked; one that hears nothing proves nothing."""

logger = structlog.get_logger(__name__)


class Stalls:
    """Of one loop, which tells it where its ready partitions stand."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._since: dict[Place, tuple[int, int]] = {}
        """The next offset of each, and since when it is known to be that, or was looked at."""
        self._empty_to: dict[Place, int] = {}
        """Up to where there is nothing but markers and what was aborted."""
        self._suspects: dict[Place, int] = {}
        self._stalled: dict[Place, int] = {}

    def look(self, standing: Mapping[Place, int], steady_ms: int) -> None:
        """Called when a poll gave nothing; `LogFault` where a partition is stalled, `Fatal` where it is once more."""
        silent = self._silent(standing, steady_ms)
        if not silent:
            return
        try:
            waiting = self._waiting({place: standing[place] for place in silent})
        except LogFault as fault:
            logger.debug("nobody can say whether a partition is stalled", fault=str(fault))
            return
        for place, offset in waiting.items():
            if self._suspects.get(place) == offset:
                self._tell(place, offset)
        self._suspects = waiting

    def _silent(self, standing: Mapping[Place, int], steady_ms: int) -> list[Place]:
        silent: list[Place] = []
        for place in self._since.keys() - standing.keys():
            del self._since[place]
        for place, offset in standing.items():
            known, since_ms = self._since.get(place, (-1, 0))
            if known == offset and steady_ms - since_ms < SILENT_MS:
                continue
            if known == offset:
                silent.append(place)
            self._since[place] = (offset, steady_ms)
        return silent

    def _waiting(self, standing: Mapping[Place, int]) -> dict[Place, int]:
        """The first record of each that has one to deliver."""
        ends = self._log.ends(list(standing), Isolation.COMMITTED)
        found: dict[Place, int] = {}
        for place, offset in standing.items():
            end = ends[place][1]
            if end <= max(offset, self._empty_to.get(place, 0)):
                continue
            first = self._first(place, offset, end)
            if first is None:
                self._empty_to[place] = end
            elif first >= 0:
                found[place] = first
        return found

    def _first(self, place: Place, offset: int, end: int) -> int | None:
        """Where the first record lies; none where there is none below `end`, and -1 where that is not known."""
        reader = self._log.reader(Isolation.COMMITTED)
        try:
            reader.assign({place: offset})
            for _ in range(LOOKS_MAX):
                for item in reader.poll(1, LOOK_MS):
                    if not isinstance(item, EndOfPartition):
                        return item.offset
                    if item.offset >= end:
                        return None
            return -1
        finally:
            reader.close()

    def _tell(self, place: Place, offset: int) -> None:
        told = f"{place.topic}[{place.partition}] has a record at offset {offset} and did not deliver it"
        again = self._stalled.get(place) == offset
        logger.error("a partition is stalled", place=str(place), offset=offset, again=again)
        self._stalled[place] = offset
        self._suspects = {}
        if again:
            raise Fatal(f"{told}, again: a fresh process is needed")
        raise LogFault(told)
