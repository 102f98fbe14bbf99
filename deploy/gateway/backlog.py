"""How far the processors are behind, measured in the background: who asks for more than they can decide is told to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from ...events.errors import Transient
from ...events.log.protocol import Log, LogFault, Place
from .measured import Committed, Measured, readers_lag
from .problems import Problem

LOOK_EVERY_S = 1.0

RETRY_AFTER_MAX_S = 30

logger = structlog.get_logger("wakeful.gateway")


class Backlog:
    """The last measure; safe to ask from several threads. Where it cannot be taken, the one before stands."""

    def __init__(
        self,
        log: Log,
        topic: str,
        committed: Committed,
        now_ms: Callable[[], int],
        *,
        behind_max_s: float,
    ) -> None:
        self._log, self._topic, self._now_ms = log, topic, now_ms
        self._committed = committed
        self.lag = Measured(self._measure, now_ms)
        """Per partition, for whoever shows it."""
        self._behind_max_s = behind_max_s
        self._next: Mapping[Place, int] = {}
        self._behind: dict[int, tuple[int, float]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Measures."""
        found = self.lag.anew()
        self._behind = {row["partition"]: (row["records"], row["seconds"]) for row in found}

    def _measure(self) -> list[dict[str, Any]]:
        places = [Place(self._topic, number) for number in range(self._log.partitions(self._topic))]
        self._next = self._committed(places)
        return readers_lag(self._log, self._topic, self._next, self._now_ms())

    def next_offset(self, place: Place) -> int:
        """The first command of this partition that was not decided when that was asked last."""
        return self._next.get(place, 0)

    def check(self, partition: int) -> None:
        """`Problem` 429 where what is asked on this partition now would wait for too long."""
        offsets, seconds = self._behind.get(partition, (0, 0.0))
        if seconds <= self._behind_max_s:
            return
        after_s = max(1, min(RETRY_AFTER_MAX_S, int(seconds - self._behind_max_s)))
        raise Problem(
            429,
            "behind",
            f"the processors are {seconds:.0f} s and about {offsets} commands behind, more than the "
            f"{self._behind_max_s:.0f} s that are allowed: ask again in {after_s} s",
            headers={"Retry-After": str(after_s)},
            behind_s=round(seconds, 1),
            behind_records=offsets,
        )

    def start(self) -> None:
        """Measures from now on, each second, until `close`."""
        self._thread = threading.Thread(target=self._run, name="backlog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=LOOK_EVERY_S)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.look()
            except (LogFault, Transient) as fault:
                logger.warning("the backlog cannot be measured", why=str(fault))
            self._stopped.wait(LOOK_EVERY_S)
