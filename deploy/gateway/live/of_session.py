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

ENDINGS = {
    r.SessionCompleted: Status.COMPLETED,
    r.SessionFailed: Status.FAILED,
    r.SessionCancelled: Status.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Known:
    """What the views say of a session: how it stands, where its events lie, what it runs."""

    seq: int
    """Its last event in `stretches`; what is known beside is of that event, or of a later one."""
    status: str
    status_seq: int
    """The last event that its status is of."""
    stretches: Sequence[tuple[int, int]]
    """First and last offsets of runs of events, in order, from the first event that is asked for to the last; see
    `projections.stretches`. Empty where nobody knows."""
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
        self._whole = not known.stretches
        """Whether the partition is read from its beginning: the views do not say where the events lie."""

    def _history(self) -> History:
        live, own = self._live, self._key
        place = Place(live.topics.events, partition_of(own, len(self._ends)))
        end = self._ends[place]
        if self._after > self._known.seq:
            # Another gateway may have been ahead of this one: whether that event exists, the log itself says.
            end = max(end, live.log.ends([place], Isolation.COMMITTED)[place][1])
        parts = [{place: span} for span in self._spans(place, end)]
        return History(live.readers, parts, lambda record: record.key == own)

    def _spans(self, place: Place, end: int) -> list[tuple[int, int]]:
        """Runs of its events, and behind them all that the views do not have yet."""
        if self._whole:
            return [(self._live.log.ends([place], Isolation.COMMITTED)[place][0], end)]
        *runs, (first, last) = self._known.stretches
        newest = last if self._after >= self._known.seq else first
        return [(first, last + 1) for first, last in runs] + [(newest, max(end, last + 1))]

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
                parts += [before, self._frame(one), behind]
        return b"".join(parts)

    def _frame(self, one: Told) -> bytes:
        """One event as this stream tells it."""
        return frame(one.kind, one.data, str(one.event.envelope.seq))

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
        """Reads all where the views were wrong about where the events lie."""
        if seq > self._begins_at and not self._whole:
            self._whole = True
            raise StartsTooLate

    def _final(self) -> bytes | None:
        if self._status not in ENDED or self._seq < self._known.status_seq:
            return None
        return told("end", status=str(self._status), seq=self._seq)
