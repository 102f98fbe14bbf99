"""What `@activity` was given, checked before anything is made of it: each error names the activity and what to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...commands.check import NAME_LENGTH_MAX
from ...events.topics import QUEUE
from ..durations import Duration, to_ms
from .contracts import Contract, Read, Retry, Write
from .rules import Needs, check_rule
from .signatures import Declined

TIMEOUT_DEFAULT = "60s"
"""Start-to-close where none is named: longer than a slow model call, shorter than a person's patience."""

SCHEDULE_TO_CLOSE_DEFAULT = "24h"
"""From request to result, queueing and dead workers included."""

SCHEDULE_TO_CLOSE_ONCE_DEFAULT = "1h"
"""The same for a write that is called at most once: when it has passed, a call that was lost is known to be uncertain."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of an activity, as they were written or as they are by default."""

    timeout: Duration
    schedule_to_close: Duration
    heartbeat: Duration | None


def check_keywords(misplaced: tuple[object, ...]) -> None:
    """`@activity` is given everything by name; `Declined` says what was meant."""
    if not misplaced:
        return
    given = misplaced[0]
    if isinstance(given, Read | Write):
        told = f"@activity has {given!r} by position: write @activity(contract={given!r})"
    elif isinstance(given, type) and issubclass(given, Read | Write):
        told = f"@activity has {given.__name__} by position: write @activity(contract={given.__name__}())"
    elif isinstance(given, str):
        told = (
            f"@activity has {given!r} by position: write @activity(contract=Read(), name={given!r})"
        )
    elif callable(given):
        named = getattr(given, "__name__", repr(given))
        told = (
            f"activity {named!r} is declared by a bare @activity: write @activity(contract=Read()) if it changes "
            "nothing, and @activity(contract=Write(…)) if it does"
        )
    else:
        told = f"@activity has {given!r} by position: it takes its options by name, @activity(contract=Read())"
    raise Declined(told)


def check_name(what: str, name: object) -> str:
    """The name, if commands, topics and tables can hold it and people can type it."""
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        shown = ascii(name)[:NAME_LENGTH_MAX]
        raise Declined(
            f"{what} name {shown} is not allowed: use 1 to {NAME_LENGTH_MAX} printable characters"
        )
    return name


def checked_contract(
    label: str, function: Callable[..., Any], contract: Contract | None, approval: Needs | None
) -> Contract:
    """The contract, where the function can be an activity under it and under that approval rule."""
    if contract is None:
        raise Declined(
            f"activity {label!r} has no contract: write contract=Read() if it changes nothing, "
            "contract=Write(idempotent=True) if it honours its key, and contract=Write() if it may be called once only"
        )
    if not isinstance(contract, Read | Write):
        raise Declined(
            f"activity {label!r} has contract {contract!r}: write Read() or Write(…), with brackets"
        )
    if not (inspect.isroutine(function) or inspect.iscoroutinefunction(function)):
        raise Declined(
            f"activity {label!r} is not a function: write 'def' or 'async def'{_declared(function)}"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Declined(
            f"activity {label!r} yields: an activity has one result, return it (a list, say)"
        )
    if approval is not None:
        check_rule(label, approval)
        if isinstance(contract, Read):
            raise Declined(
                f"activity {label!r} is a Read() with an approval rule: reads cannot be gated"
            )
        _positive(label, "expires", approval.expires)
    return contract


def checked_queue(label: str, queue: str) -> str:
    """The queue, if a topic can be named by it."""
    if not isinstance(queue, str) or QUEUE.fullmatch(queue) is None:
        raise Declined(
            f"activity {label!r} has queue {queue!r}: a queue is part of a topic's name, "
            "so use up to 64 of a-z 0-9 _ - and start with a letter or digit"
        )
    return queue


def checked_untrusted(label: str, untrusted: object) -> bool:
    """Whether what it returns is content that nobody vouches for."""
    if not isinstance(untrusted, bool):
        raise Declined(f"activity {label!r} has untrusted={untrusted!r}: say True or False")
    return untrusted


def checked_times(
    label: str,
    *,
    once: bool,
    timeout: Duration | None,
    schedule_to_close: Duration | None,
    heartbeat: Duration | None,
) -> Times:
    """The times, if one of them does not make another pointless. `once`: it is called at most once."""
    lasts = TIMEOUT_DEFAULT if timeout is None else timeout
    within = schedule_to_close
    if within is None:
        within = SCHEDULE_TO_CLOSE_ONCE_DEFAULT if once else SCHEDULE_TO_CLOSE_DEFAULT
    lasts_ms = _positive(label, "timeout", lasts)
    within_ms = _positive(label, "schedule_to_close", within)
    if timeout is not None and lasts_ms > within_ms:
        default = " by default" if schedule_to_close is None else ""
        raise Declined(
            f"activity {label!r} has timeout={timeout!r}, and schedule_to_close is {within!r}{default}, which ends it "
            "before: give a shorter timeout, or a schedule_to_close that leaves room for waiting as well"
        )
    if heartbeat is not None and _positive(label, "heartbeat", heartbeat) >= lasts_ms:
        default = " by default" if timeout is None else ""
        raise Declined(
            f"activity {label!r} has heartbeat={heartbeat!r}, and timeout is {lasts!r}{default}, which ends it "
            "before a silence is noticed: give a shorter heartbeat, or a longer timeout"
        )
    return Times(lasts, within, heartbeat)


def checked_retry(label: str, retry: Retry) -> Retry:
    """The policy, if it is one."""
    if not isinstance(retry, Retry):
        raise Declined(f"activity {label!r} has retry={retry!r}: write retry=Retry(attempts=5)")
    return retry


def _positive(label: str, what: str, duration: Duration) -> int:
    """The duration in milliseconds, at least one."""
    try:
        ms = to_ms(duration)
    except ValueError as error:
        raise Declined(f"{what} of activity {label!r}: {error}") from error
    if ms < 1:
        raise Declined(f"activity {label!r} has {what}={duration!r}: it must be at least 1 ms")
    return ms


def _declared(function: object) -> str:
    """What a thing is that is declared already, to be told behind the rest."""
    if type(function).__name__ not in ("Activity", "Workflow"):
        return ""
    return f"; {function!r} is declared already, once is enough"
