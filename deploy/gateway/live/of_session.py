"""The stream of one session: its events by number, the tokens of what it runs, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....events import records as r
from ....events.keys import partition_of, session_key
from ....events.log.protocol import Isolation, Place
from ....events.state import ENDED, Status
from ....processors.activities.tokens import Token
from ..problems import Problem
from .framing import frame, told
from .history import History
from .in_flight import InFlight
from .live import Live
from .streams import StartsTooLate, Stream
from .subscriptions import Told, Wanted

SKEW_MS = 60_000
"""A record's own time may be that of a clock that is behind the log's."""

ENDINGS = {
    r.SessionCompleted: Status.COMPLETED,
    r.SessionFailed: Status.FAILED,
    r.SessionCancelled: Status.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Known:
    """What the views say of a session: so many events by then, the times of the first and the last, what it runs."""

    seq: int
    opened_ms: int
    updated_ms: int
    status: str
    running: Mapping[str, int]
    """The newest attempt of each open activity, by its id."""


class SessionStream(Stream):
    """Events above `after`, each once, as `event: <type>`, `id: <seq>`."""

    def __init__(
        self,
        live: Live,
        session: tuple[str, str],
        known: Known,
        *,
        after: int,
        check: Callable[[], None],
    ) -> None:
        """`session` is tenant and id."""
        super().__init__(live, Wanted(session[0], session[1]), check)
        self._key = session_key(*session)
        self._known, self._after = known, after
        self._seq = 0
        """The last event that was met, sent or not."""
        self._in_flight = InFlight(known.running, resumed=after > 0)
        self._status = known.status
        self._begins_at = known.seq if after >= known.seq else after + 1
        """The event that history holds at the latest."""
        self._since_ms = (known.updated_ms if after >= known.seq else known.opened_ms) - SKEW_MS

    def _history(self) -> History:
        live, own = self._live, self._key
        place = Place(live.topics.events, partition_of(own, len(self._ends)))
        start = live.log.offsets_at([place], max(0, self._since_ms))[place]
        end = self._ends[place]
        if self._after > self._known.seq:
            # Another gateway may have been ahead of this one: whether that event exists, the log itself says.
            end = max(end, live.log.ends([place], Isolation.COMMITTED)[place][1])
        return History(live.readers, {place: start}, {place: end}, lambda record: record.key == own)

    def _frames(self, events: Sequence[Told]) -> bytes:
        parts: list[bytes] = []
        for one in events:
            envelope, body = one.event.envelope, one.event.body
            if envelope.seq <= self._seq:
                continue
            if self._seq == 0:
                self._check_start(envelope.seq)
            self._seq = envelope.seq
            self._status = ENDINGS.get(type(body), self._status)
            before, behind = self._in_flight.before(body), self._in_flight.after(body)
            if envelope.seq > self._after:
                parts += [before, frame(one.kind, one.data, str(envelope.seq)), behind]
        return b"".join(parts)

    def _of_tokens(self, tokens: Sequence[Token]) -> bytes:
        return b"".join(self._in_flight.token(one) for one in tokens)

    def _read(self) -> bytes:
        if self._seq == 0:
            self._check_start(self._begins_at + 1)
        if self._seq < self._after:
            detail = f"the session has {self._seq} events, and none with the id {self._after}"
            raise Problem(409, "unknown_position", f"{detail}: begin again without an id")
        return b""

    def _check_start(self, seq: int) -> None:
        """Looks further back where clocks differ so much that the history found begins after what it must hold."""
        if seq > self._begins_at and self._since_ms > 0:
            self._since_ms = 0
            raise StartsTooLate

    def _final(self) -> bytes | None:
        if self._status not in ENDED:
            return None
        return told("end", status=str(self._status), seq=self._seq)
