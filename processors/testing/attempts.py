"""An attempt without a worker, so that activities that ask for theirs can be called by tests and in rehearsals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_core import to_jsonable_python

from ...events.payloads import json_payload, load_json
from ...events.records import ActivityTask, Payload
from ..activities.beats import Beat, Beats, Stop
from ..activities.emitting import Emission
from ..activities.hidden import Hidden
from ..activities.inside import INSIDE, Inside
from ..activities.tokens import Speaker

DIGEST_KEY = b"the digest key of tests"

LIMIT_MS = 60_000

NEVER_MS = 2**53
"""A deadline that no clock reaches."""


class Attempt:
    """What one attempt told, and how it is cancelled."""

    def __init__(self, task: ActivityTask) -> None:
        self.told: list[Any] = []
        """Progress, as JSON values, one per call of `heartbeat` that had any: nothing is throttled."""
        self.beats = _Noted(task, self.told)
        self.emitted: list[str] = []
        """What `emit` was given, as it is told: without secrets, and no more than may be told yet."""

    def cancel(self) -> None:
        """From now on `cancelled()` is true and `heartbeat()` raises `AttemptCancelled`."""
        self.beats.stop(Stop.OVER)


class _Noted(Beats):
    """Beats that go into a list, each one."""

    def __init__(self, task: ActivityTask, told: list[Any]) -> None:
        super().__init__(task, worker_id="test", send=_nowhere, monotonic=time.monotonic)
        self._told_progress = told

    def beat(self, progress: Payload | None) -> None:
        super().beat(None)
        if progress is not None:
            self._told_progress.append(load_json(progress))


class _Listed:
    """Tokens that go into a list."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def offer(self, _speaker: Speaker, text: str) -> None:
        self._told.append(text)


@contextmanager
def attempt(progress: object = None) -> Iterator[Attempt]:
    """Lets `.function` of an activity be called as a worker calls it: `heartbeat`, `emit`, `progress` and `cancelled` work.

    `progress` is what an earlier attempt left, as anything that JSON can hold.
    """
    left = None if progress is None else json_payload(to_jsonable_python(progress), DIGEST_KEY)
    with within(_task(left), DIGEST_KEY) as one:
        yield one


@contextmanager
def within(
    task: ActivityTask, digest_key: bytes, hidden: Hidden | None = None
) -> Iterator[Attempt]:
    """The same for a task that is there; what is `hidden` is not told."""
    one = Attempt(task)
    one.beats.hidden = hidden or one.beats.hidden
    emission = Emission(task, _Listed(one.emitted), lambda: one.beats.hidden)
    token = INSIDE.set(Inside(one.beats, digest_key, emission))
    try:
        yield one
    finally:
        INSIDE.reset(token)
        emission.close()


def _nowhere(_beat: Beat) -> None:
    """Nobody listens."""


def _task(left: Payload | None) -> ActivityTask:
    return ActivityTask(
        tenant="test",
        session_id="test",
        activity_id="1.1",
        attempt=1,
        name="the activity",
        queue="default",
        contract="read",
        arguments=json_payload({}, DIGEST_KEY),
        idempotency_key="test/test/1/1",
        start_to_close_ms=LIMIT_MS,
        deadline_ms=NEVER_MS,
        event_seq=1,
        actor="test",
        on_behalf_of=None,
        progress=left,
    )
