"""What a workflow holds of an external job: its id, to be handed to whoever does it, and its result, once it is awaited."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic

from typing_extensions import TypeVar

T_co = TypeVar("T_co", covariant=True, default=Any)


class Job(Generic[T_co]):
    """A job that somebody else does: `await` it for its result. See `Turn.job`."""

    def __init__(
        self, job_id: str, name: str, result: Callable[[], Coroutine[Any, Any, T_co]]
    ) -> None:
        self.id = job_id
        self.name = name
        self._result = result

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._result().__await__()

    def __repr__(self) -> str:
        return f"<job {self.name} {self.id}>"
