"""How a mistake is planted: functions are replaced while a schedule runs; the product has no switch for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

Mistake = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake; `seed` is one that kills it, tried first."""

    name: str
    mistake: Mistake
    seed: int = 0


def plant(*patches: tuple[Any, str, Any]) -> Mistake:
    """A mistake that is in force inside of its context."""

    @contextmanager
    def force() -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, value in patches:
                stack.enter_context(mock.patch.object(target, name, value))
            yield

    return force
