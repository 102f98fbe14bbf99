"""What a workflow awaits: one step, or several at once (`gather`, `first`), without a scheduler.

Strands are looked at in the order given, and only the ones whose wait is over go on. One fact at a time is fed, in
the log's order, so which strand goes on is the log's doing and the same in every replay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from ...events.shown import shown
from .errors import BranchLost, WorkflowMisuse, WorkflowStuck

R = TypeVar("R")

STRANDS_MAX = 1_000
"""Waits in one `gather` or `first`: what is asked for in one activation is bounded anyway."""


@dataclass(frozen=True, slots=True)
class Winner(Generic[R]):
    """The first that was done: its place among those given, and its value."""

    index: int
    value: R


@dataclass(slots=True)
class Step:
    """A wait for one recorded fact; awaiting it hands control back to the engine until the fact is there.

    `abandoned`: whoever awaits it is being let go, and ends here.
    """

    wait_id: str
    value: Any = None
    error: Exception | None = None
    done: bool = False
    abandoned: bool = False

    @property
    def ready(self) -> bool:
        """Whether whoever awaits it can go on."""
        return self.done

    def __await__(self) -> Generator[Step, None, Any]:
        if self.abandoned:
            raise BranchLost
        while not self.done:  # the coroutine goes on for other waits as well
            yield self
        if self.error is not None:
            raise self.error
        return self.value


class Refused:
    """What is awaited in the place of a step that may not be: whoever awaits it is left where it stands, and `told`."""

    def __init__(self, told: str) -> None:
        self.told = told

    def __await__(self) -> Generator[Refused, None, NoReturn]:
        while True:
            yield self


class Strand:
    """One awaitable, driven by hand: it goes on when what it waits for is over."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        if not hasattr(awaitable, "__await__"):
            raise WorkflowMisuse(
                f"gather and first take awaitables such as turn.run(…), got {shown(awaitable)}"
            )
        self.value: Any = None
        self.error: Exception | None = None
        self.done = False
        self.fresh = True
        self._generator: Generator[Any, None, Any] = awaitable.__await__()
        self._waits_for: Step | Several | None = None

    @property
    def ready(self) -> bool:
        """Whether it can go on."""
        return not self.done and (self._waits_for is None or self._waits_for.ready)

    def go_on(self) -> None:
        """Runs it to its next wait or its end; its own exception is kept for whoever waits."""
        self.fresh = False
        try:
            waited = self._generator.send(None)
        except StopIteration as returned:
            self.done, self.value = True, returned.value
        except WorkflowMisuse:
            self.done = True
            raise  # at once: nobody should wait for the others to be told of it
        except Exception as error:  # noqa: BLE001 - raised again where the strands are awaited
            self.done, self.error = True, error
        except BaseException:
            self.done = True
            raise
        else:
            if not isinstance(waited, Step | Several):
                raise misused_by(waited)
            self._waits_for = waited

    def open_steps(self) -> list[Step]:
        """The waits it is still in."""
        if self.done or self._waits_for is None:
            return []
        if isinstance(self._waits_for, Step):
            return [self._waits_for]
        return [step for strand in self._waits_for.strands for step in strand.open_steps()]

    def let_go(self) -> None:
        """Ends it, if it is not over; its `finally` blocks run, and what they raise goes to whoever lets it go."""
        if self.done:
            return
        self.done = True
        try:
            waited = self._generator.throw(BranchLost())
        except (BranchLost, StopIteration):
            return
        raise misused_by(waited)

    def drop(self) -> None:
        """Closes it; the turn is dropped, and whatever it still says counts for nothing."""
        with suppress(BaseException):
            self._generator.close()


class Several:
    """Awaits strands until `enough` says so; awaiting it gives nothing, the strands hold what came of them."""

    def __init__(
        self, awaitables: Sequence[Awaitable[Any]], enough: Callable[[Sequence[Strand]], bool]
    ) -> None:
        if not awaitables:
            raise WorkflowMisuse(
                "turn.first was given nothing to wait for: give it one awaitable at least"
            )
        if len(awaitables) > STRANDS_MAX:
            raise WorkflowMisuse(
                f"gather and first take up to {STRANDS_MAX} awaitables, got {len(awaitables)}"
            )
        if len({id(awaitable) for awaitable in awaitables}) < len(awaitables):
            raise WorkflowMisuse(
                "the same awaitable is given twice: call turn.run(…) once for each"
            )
        self.strands = [Strand(awaitable) for awaitable in awaitables]
        self._enough = enough

    @property
    def ready(self) -> bool:
        """Whether any of them can go on."""
        return any(strand.ready for strand in self.strands)

    def __await__(self) -> Generator[Several, None, None]:
        try:
            while True:
                for strand in self.strands:
                    if strand.ready:
                        strand.go_on()
                        if self._enough(self.strands):
                            return
                if not self.ready:
                    yield self
        except BranchLost:
            let_all_go(self.strands, Strand.let_go)
            raise
        except GeneratorExit:
            for strand in self.strands:
                strand.drop()
            raise
        except WorkflowMisuse:
            for strand in self.strands:
                if strand.fresh:
                    strand.drop()
            raise


def let_all_go(
    strands: Sequence[Strand], let_go: Callable[[Strand], None], won: Exception | None = None
) -> None:
    """Lets all of them go in order, though some raise: then raises what they did, and a group where it is more than one.

    `won` is what the winner raised: the first of the errors.
    """
    errors: list[BaseException] = [] if won is None else [won]
    for strand in strands:
        try:
            let_go(strand)
        except WorkflowStuck:
            raise  # at once: no time is left
        except BaseException as error:  # noqa: BLE001 - raised below, once all are let go
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("several branches of turn.first raised", errors)


def misused_by(waited: object) -> WorkflowMisuse:
    """The error of code that awaits this: something foreign, or what it may not."""
    if isinstance(waited, Refused):
        return WorkflowMisuse(waited.told)
    return WorkflowMisuse(
        f"it awaited {shown(waited)}, which is not of this turn: use turn.sleep, or an activity for I/O"
    )


def all_done(strands: Sequence[Strand]) -> bool:
    """Enough for `gather`."""
    return all(strand.done for strand in strands)


def any_done(strands: Sequence[Strand]) -> bool:
    """Enough for `first`."""
    return any(strand.done for strand in strands)
