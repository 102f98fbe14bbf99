"""One open stream: what is sent to its client, and when.

```
subscribe ─▶ read what lies before, page by page ─▶ hand on what is committed, dropping what was read ─▶ end
every HEARTBEAT_S: is the client still who it was? ─▶ a heartbeat
lagging, closing, problem: told, and the stream ends; its client comes back with the last id
```
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from ....events.errors import Transient
from ....events.log.protocol import LogFault, OffsetGone, Place
from ....processors.activities.tokens import Token
from ..problems import TYPE, Problem
from .framing import HEARTBEAT, OPENING, told
from .history import History
from .live import Live
from .subscriptions import Subscription, Told, Wanted

HEARTBEAT_S = 15.0

AGAIN_S = 0.5
"""Before the log is asked again that did not answer."""

TOGETHER_S = 0.3
"""How long the events that came with the last one may take to be read."""

Send = Callable[[bytes], Awaitable[None]]

T = TypeVar("T")

logger = structlog.get_logger("wakeful.gateway")


class Over(Exception):
    """The stream ends with these words."""

    def __init__(self, last: bytes) -> None:
        super().__init__()
        self.last = last


class StartsTooLate(Exception):
    """What was read of the history does not begin where it should: it is read again, from further back."""


class Stream(ABC):
    """Runs in the event loop, once. Whatever ends it frees what it had."""

    def __init__(self, live: Live, wanted: Wanted, check: Callable[[], None]) -> None:
        """`check` raises a `Problem` where the client may not listen any more; it may wait, so a thread asks it."""
        self._live, self._wanted, self._check = live, wanted, check
        self._ends: dict[Place, int] = {}
        """Where history ends, and what it is handed begins."""
        self._beat_at = 0.0

    async def run(self, send: Send) -> None:
        """Sends frames until the stream ends."""
        loop = asyncio.get_running_loop()
        self._beat_at = loop.time() + HEARTBEAT_S
        subscription = Subscription(self._wanted)
        try:
            await send(OPENING)
            while (positions := self._live.enter(subscription)) is None:
                await self._pause(send)
            self._ends = positions
            await self._past(send)
            await self._present(subscription, send)
        except Over as over:
            await send(over.last)
        except Problem as problem:
            await send(problem_frame(problem))
        finally:
            self._live.leave(subscription)

    @abstractmethod
    def _history(self) -> History:
        """What lies before; in a thread."""

    @abstractmethod
    def _frames(self, events: Sequence[Told]) -> bytes:
        """What the client is sent of these, in order; empty where it has had all of it."""

    def _of_tokens(self, _tokens: Sequence[Token]) -> bytes:
        """The same of tokens; this stream has none."""
        return b""

    def _read(self) -> bytes:
        """What is said once all that lies before was read."""
        return b""

    def _idle(self) -> bytes:
        """What is sent as a sign of life."""
        return HEARTBEAT

    def _final(self) -> bytes | None:
        """The last words, once there is nothing to come."""
        return None

    async def _past(self, send: Send) -> None:
        history: History | None = None
        while history is None or not history.done:
            try:
                if history is None:
                    history = await self._aside(self._history, send)
                frames = self._frames(await self._aside(history.page, send))
                frames += self._read() if history.done else b""
            except StartsTooLate:
                history = None
                continue
            except OffsetGone as gone:
                detail = f"{gone}: begin again without an id"
                raise Over(problem_frame(Problem(410, "gone", detail))) from gone
            except (LogFault, Transient) as fault:
                logger.info("a stream waits for the log", cause=str(fault))
                await self._pause(send)
                continue
            if frames:
                await send(frames)

    async def _present(self, subscription: Subscription, send: Send) -> None:
        while True:
            if self._live.ending:
                raise Over(told("closing"))
            if subscription.lagging:
                raise Over(told("lagging", detail="come back with the id of the last event"))
            events, tokens = (
                subscription.take()
            )  # what was said before it ended is shown before its end
            frames = self._of_tokens(tokens) + self._frames(events)
            if frames:
                await send(frames)
            await self._beat(send)
            if events or tokens:
                continue
            final = self._final()
            if final is None:
                await subscription.moved(self._left_s())
            elif not await subscription.moved(TOGETHER_S):
                raise Over(final)

    async def _aside(self, work: Callable[[], T], send: Send) -> T:
        """The answer of a thread; heartbeats go out while it takes its time."""
        answer = asyncio.ensure_future(self._live.aside(work))
        try:
            while not (await asyncio.wait({answer}, timeout=self._left_s()))[0]:
                await self._beat(send)
        finally:
            answer.cancel()
        return answer.result()

    async def _pause(self, send: Send) -> None:
        if self._live.ending:
            raise Over(told("closing"))
        await asyncio.sleep(AGAIN_S)
        await self._beat(send)

    async def _beat(self, send: Send) -> None:
        """A sign of life, if one is due: once it is known that the client may still listen."""
        if self._left_s() > 0:
            return
        self._beat_at = asyncio.get_running_loop().time() + HEARTBEAT_S
        await asyncio.to_thread(self._check)
        await send(self._idle())

    def _left_s(self) -> float:
        return max(0.0, self._beat_at - asyncio.get_running_loop().time())


def problem_frame(problem: Problem) -> bytes:
    """A problem of a stream that has begun."""
    return told("problem", type=TYPE + problem.reason, detail=problem.detail)
