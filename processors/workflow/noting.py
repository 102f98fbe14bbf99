"""Notes what a workflow misuses where it happens, so that its session is held whatever its own code catches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from .errors import WorkflowMisuse

M = TypeVar("M", bound=Callable[..., Any])


def noted(method: M) -> M:
    """A method of `Turn`, sync or async, that hands a `WorkflowMisuse` to `Turn._note` and raises it."""

    @wraps(method)
    async def waits(turn: Any, *args: Any, **named: Any) -> Any:
        try:
            return await method(turn, *args, **named)
        except WorkflowMisuse as error:
            turn._note(error)  # noqa: SLF001 - its own methods alone are given here
            raise

    @wraps(method)
    def answers(turn: Any, *args: Any, **named: Any) -> Any:
        try:
            return method(turn, *args, **named)
        except WorkflowMisuse as error:
            turn._note(error)  # noqa: SLF001 - the same
            raise

    return cast("M", waits if inspect.iscoroutinefunction(method) else answers)
