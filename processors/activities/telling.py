"""What is told of an exception: its type, its message, where it came from, and when it asks to be tried again.

All of it is foreign code, which may raise in its turn, `SystemExit` included: nothing comes out of here. And all of it is
cut to what an event can hold. `Hang` is the same for what has not even raised.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any

from ...events.shown import name_of, said
from .hidden import Hidden

DETAIL_MAX = 4096
"""Bytes of traceback kept with a failure: enough for the frames of the tool, small enough for every event."""

MESSAGE_MAX = 1000
"""Characters of an exception's message that are kept."""

RETRY_AFTER_MS_MAX = 2**53
"""Far beyond every deadline, and no more than a record can hold."""

NUMBERS = frozenset({int, float, Decimal, Fraction})
"""What a tool may count milliseconds in: exactly these, since anything else is foreign code."""

FRAMES_MAX = 8
"""Innermost frames of a traceback: those are the tool's."""

AWAITS_MAX = 1_000
"""As deep as Python lets coroutines wait for each other."""

_MODULE: Callable[[type], object] = type.__dict__["__module__"].__get__
"""Past a metaclass, which may have its own."""

_QUALNAME: Callable[[type], str] = type.__dict__["__qualname__"].__get__


def type_of(error: BaseException) -> str:
    """The name of its class, with its module where it is not a builtin."""
    kind = type(error)
    module = _MODULE(kind)
    if not isinstance(module, str) or module == "builtins":
        return _QUALNAME(kind)
    return f"{str.__str__(module)}.{_QUALNAME(kind)}"


def message_of(error: BaseException) -> str:
    """What the exception says; its own `__str__` may raise, which says something too."""
    return said(error)


def lost_kind_of(error: BaseException) -> str:
    """The kind of resource that a `ResourceLost` names; a property could raise, so none is asked."""
    try:
        kind: Any = object.__getattribute__(error, "__dict__").get("kind")
    except BaseException:  # noqa: BLE001 its class may have a `__dict__` of its own making
        return ""
    return kind if type(kind) is str else ""


def retry_after_of(error: BaseException) -> int | None:
    """When the tool asks to come back, in whole milliseconds, never sooner, as `RetryLater` and models' failures say it; a property could raise, so none is asked."""
    try:
        asked: Any = object.__getattribute__(error, "__dict__").get("retry_after_ms")
    except BaseException:  # noqa: BLE001 its class may have a `__dict__` of its own making
        return None
    if type(asked) not in NUMBERS:
        return None
    try:
        return ceil(asked) if 0 <= asked <= RETRY_AFTER_MS_MAX else None
    except ArithmeticError:  # Decimal("NaN")
        return None


def traceback_of(error: BaseException, hidden: Hidden) -> str:
    """The innermost frames, without values of variables and what is hidden; the end is kept where it is too long."""
    try:
        lines = traceback.format_exception(
            type(error), error, error.__traceback__, limit=-FRAMES_MAX
        )
        told = str.__str__("".join(lines))
    except BaseException as second:  # noqa: BLE001 foreign __str__ and __repr__ are called for it
        return f"<its traceback raised {name_of(type(second))}>"
    return cut(hidden.hide(told))


@dataclass(frozen=True, slots=True)
class Hang:
    """Where an attempt is that nothing can stop, and what its author could do about it."""

    where: str
    advice: str


def hang_in(frame: FrameType | None) -> Hang:
    """That of a thread which is in this frame."""
    where = "" if frame is None else "".join(traceback.format_stack(frame, FRAMES_MAX))
    return Hang(cut(where), "give the call it waits for a shorter time-out")


def clinging(started: object) -> Hang:
    """That of a coroutine which waits again after each cancellation; asked while it waits."""
    frames = [(frame, frame.f_lineno) for frame in _waiting(started)][-FRAMES_MAX:]
    where = "".join(traceback.StackSummary.extract(iter(frames)).format())
    return Hang(cut(where), "it catches asyncio.CancelledError and goes on, let that through")


def cut(text: str, bytes_max: int = DETAIL_MAX) -> str:
    """Its end, in so many bytes as a failure keeps."""
    stored = text.encode("utf-8", "backslashreplace")
    if len(stored) > bytes_max:
        stored = b"..." + stored[3 - bytes_max :]
    return stored.decode("utf-8", "ignore")


def _waiting(started: Any) -> Iterator[FrameType]:
    """The frames of what waits for what, the innermost last."""
    for _ in range(AWAITS_MAX):
        if isinstance(started, CoroutineType):
            frame, started = started.cr_frame, started.cr_await
        elif isinstance(started, GeneratorType):
            frame, started = started.gi_frame, started.gi_yieldfrom
        elif isinstance(started, AsyncGeneratorType):
            frame, started = started.ag_frame, started.ag_await
        else:
            return
        if frame is not None:
            yield frame
