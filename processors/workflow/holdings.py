"""What a stretch knows of the resources that its session holds: those it began with, and the facts about them since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...events import records as r
from ...events.holding import HANDLE_BYTES_MAX, RESOURCES_MAX, HeldResource
from .errors import WorkflowMisuse
from .waits import Step

Handed = Callable[[r.Payload], r.Payload]


class Holdings:
    """By kind. A handle has its bytes in it, whichever way it was recorded."""

    def __init__(self) -> None:
        self._last: dict[str, HeldResource] = {}
        self._attaching: dict[str, list[Step]] = {}
        """Kinds that a branch is setting up right now, and the other branches that wait for it."""

    def begin(self, resources: Iterable[HeldResource], handed: Handed) -> None:
        """Those that were held, or held last, when the stretch began."""
        self._last = {one.kind: replace(one, handle=handed(one.handle)) for one in resources}

    def live(self, kind: str, now_ms: int) -> HeldResource | None:
        """What is held of this kind, as far as facts and the time of the last one say."""
        last = self._last.get(kind)
        return last if last and not last.gone and last.expires_at_ms > now_ms else None

    def last(self, kind: str) -> HeldResource | None:
        """What is held, or was held last and not given back."""
        return self._last.get(kind)

    def keep(self, held: HeldResource) -> None:
        """It is attached from now on."""
        self._last[held.kind] = held

    def drop(self, kind: str) -> None:
        """It was given back, and nothing is remembered of it."""
        self._last.pop(kind, None)

    def learn(self, body: r.ResourceExpired) -> None:
        """It is held no more; its handle is remembered."""
        last = self._last.get(body.kind)
        if last is not None and last.resource_id == body.resource_id:
            self._last[body.kind] = replace(last, gone=True, release=None)

    def is_attaching(self, kind: str) -> bool:
        """Whether a branch is setting it up."""
        return kind in self._attaching

    @contextmanager
    def attaching(self, kind: str) -> Iterator[None]:
        """While a branch sets it up, however that ends: then those that wait for it go on."""
        waiting = self._attaching[kind] = []
        try:
            yield
        finally:
            del self._attaching[kind]
            for step in waiting:
                step.done = True

    def attached(self, kind: str) -> Step:
        """The wait of another branch for that. No fact ends it, and it is not recorded: it goes on in the same activation."""
        step = Step(f"resource {kind}")
        self._attaching[kind].append(step)
        return step

    def check_room(self, kind: str) -> None:
        """Whether one more kind may be held."""
        others = [one.kind for one in self._last.values() if one.kind != kind and not one.gone]
        if len(others) >= RESOURCES_MAX:
            told = f"{len(others)} resources are held ({', '.join(others)}), and that is the limit of one session"
            raise WorkflowMisuse(f"turn.resource({kind!r}): {told}: release one first")


def check_size(kind: str, what: str, payload: r.Payload) -> None:
    """Whether a snapshot may hold it."""
    if payload.size > HANDLE_BYTES_MAX:
        raise WorkflowMisuse(
            f"turn.resource({kind!r}): its {what} has {payload.size} bytes, and the limit is {HANDLE_BYTES_MAX}: "
            "let the activity return an address, and keep data where it leads"
        )
