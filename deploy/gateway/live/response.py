"""A stream as an answer: it runs while its client listens, and ends, with all that it had, the moment the client is gone."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .streams import Stream

HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
)


class EventStream(Response):
    """Sends what the stream says, as it says it."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        super().__init__(None, 200)
        self.raw_headers = list(HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 ASGI's
        """See ASGI."""
        tasks = [
            asyncio.ensure_future(self._say(send)),
            asyncio.ensure_future(_until_gone(receive)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            saying, _ = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(saying, Exception):
            raise saying

    async def _say(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )

        async def body(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        await self._stream.run(body)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
