"""What both kinds of activities of such an agent need of the attempt they run in: its deps, and its exceptions as ours."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelHTTPError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.external_events import ExternalEventWaiter, external_event_scope
from typing_extensions import override

from ...activities.credentials import Access
from ...activities.inside import task_of_call
from ..errors import EndpointFailed, RateLimited, RequestRejected, Unreachable
from ..failing import retry_after_ms

Deps = Callable[[Access], Awaitable[Any] | Any]
"""Makes an agent's `deps` for one attempt, on the worker that runs it."""

AGAIN = (408, 409, 425)
"""Statuses below 500 after which the same request may pass; 429 besides."""


async def deps_of(deps: Deps | None, *, writes: bool) -> Any:
    """The agent's deps for this attempt; null where it has none."""
    if deps is None:
        return None
    task = task_of_call()
    access = Access(
        activity=task.name,
        writes=writes,
        tenant=task.tenant,
        session_id=task.session_id,
        on_behalf_of=task.on_behalf_of,
        attempt=task.attempt,
        key=task.idempotency_key,
    )
    made = deps(access)
    return await made if inspect.isawaitable(made) else made


def model_failure(error: ModelAPIError) -> Exception:
    """An endpoint's failure in the words of the model port, which say whether asking again may help."""
    told = f"{error.model_name}: {error.message}"
    if not isinstance(error, ModelHTTPError):
        rejected = isinstance(error, ModelRequestRejectedError)
        return RequestRejected(told) if rejected else Unreachable(told)
    if error.status_code == 429:
        return RateLimited(told, retry_after_ms=retry_after_ms(error.headers or {}))
    if error.status_code >= 500 or error.status_code in AGAIN:
        return EndpointFailed(told)
    return RequestRejected(told)


class _NoWait(ExternalEventWaiter):
    """A wait inside an attempt would end with its process."""

    @override
    async def wait(self, name: str, **_: Any) -> Any:
        raise UserError(
            f"{name!r} would wait for an external event inside an attempt of an activity, which a crash would end: "
            "let a person decide through approval=Needs(…) of the tool's Rules, or send the session a message"
        )


@contextmanager
def no_waits() -> Iterator[None]:
    """Refuses waits in process while an agent runs in an attempt."""
    with external_event_scope(_NoWait()):
        yield
