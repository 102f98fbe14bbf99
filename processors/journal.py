"""The journal of an open stretch: append-only, and shared by a session and its scratch copies.

A command is handled on a copy of its session, and a copy is made before each risk, so copying must cost nothing
however long the stretch is. A copy is a `branch`: the same list, and a length of its own. The first branch that
appends beyond the common part does so in place; it does not disturb the others, which end where they ended. Only
one branch can live on (the scratch copy replaces the live session after its commit, or is dropped), so a second
append at the same place means that the first branch is dead, or about to be folded from the log instead: the
second takes a copy then. That is once per fault, not per command, and no branch ever sees another's events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

from ..events import records as r


class Journal(Sequence[r.Event]):
    """See the module. Equal to any sequence of the same events."""

    __slots__ = ("_events", "_length", "_requests")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, events: Iterable[r.Event] = ()) -> None:
        self._events: list[r.Event] = []
        self._requests: dict[str, int] = {}
        self._length = 0
        for event in events:
            self.append(event)

    def branch(self) -> Journal:
        """The same events, to go on from here apart from this one."""
        twin = Journal()
        twin._events, twin._requests, twin._length = self._events, self._requests, self._length
        return twin

    def append(self, event: r.Event) -> None:
        """One more event at the end of this branch."""
        if self._length != len(self._events):
            self._part()
        if isinstance(event.body, r.ActivityRequested):
            self._requests[event.body.activity_id] = self._length
        self._events.append(event)
        self._length += 1

    def request_of(self, activity_id: str) -> r.Event | None:
        """The event that asked for this activity; ids are unique within a stretch."""
        at = self._requests.get(activity_id, self._length)
        return self._events[at] if at < self._length else None

    def _part(self) -> None:
        """Leaves what is common to a branch that went further."""
        self._events = self._events[: self._length]
        self._requests = {i: at for i, at in self._requests.items() if at < self._length}

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[r.Event]:
        return islice(self._events, self._length)

    @overload
    def __getitem__(self, at: int) -> r.Event: ...
    @overload
    def __getitem__(self, at: slice) -> list[r.Event]: ...
    def __getitem__(self, at: int | slice) -> r.Event | list[r.Event]:
        if isinstance(at, slice):
            return [self._events[n] for n in range(*at.indices(self._length))]
        return self._events[range(self._length)[at]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != self._length:
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"Journal({list(self)!r})"
