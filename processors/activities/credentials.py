"""Who gives activities their credentials: `@credentials`, the one provider of an app, and what it is told of an attempt.

Asked anew for every attempt, just before its function or look-up is called. What it returns goes into that one call
and nowhere else: it is no argument of the action, in no digest, and nothing stores or logs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from .signatures import Declined

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Access:
    """For what credentials are asked: one attempt of one activity.

    `writes` is true for writes, and false for reads and for every look-up, that of a write as well. `key` is the
    idempotency key, the same in all attempts.
    """

    activity: str
    writes: bool
    tenant: str
    session_id: str
    on_behalf_of: str | None
    attempt: int
    key: str


class Provider(Generic[T_co]):
    """What `@credentials` makes of a function; called, it is that function."""

    def __init__(self, function: Callable[[Access], Awaitable[T_co] | T_co]) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", function))
        self.is_sync = not inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        _check(self.name, function)

    def __call__(self, access: Access) -> Awaitable[T_co] | T_co:
        """What the function returns, for tests of it."""
        return self.function(access)

    def __repr__(self) -> str:
        return f"<credentials {self.name!r}>"


@overload
def credentials(function: Callable[[Access], Awaitable[T]], /) -> Provider[T]: ...


@overload
def credentials(function: Callable[[Access], T], /) -> Provider[T]: ...


def credentials(function: Callable[[Access], Any] | None = None, /) -> Provider[Any]:
    """Declares the app's provider of credentials: `async def`, or `def` for what blocks.

    An activity or look-up with a keyword-only parameter `credentials` gets what it returns for that attempt. It has
    the activity's `timeout`; one that raises or is late fails the attempt as `no_credentials`, and nothing runs.
    """
    if function is None:
        raise Declined(
            "@credentials has brackets: it takes nothing but the function, so leave them out"
        )
    return Provider(function)


def _check(name: str, function: Callable[..., Any]) -> None:
    told = f"provider {name!r}"
    if not inspect.isroutine(function):
        raise Declined(f"{told} is not a function: write 'def' or 'async def'")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Declined(f"{told} yields: it returns the credentials of one attempt")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise Declined(
            f"{told} cannot be asked ({error}): write 'def {name}(access: Access)'"
        ) from error
