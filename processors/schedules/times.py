"""When a schedule is due: cron expressions in time zones, as milliseconds since 1970.

As Debian's cron has it: where clocks go forward, a time that does not exist runs in the instant after the gap; where they go
back, a time that comes twice runs the first time. Expressions that run in every hour or every few minutes (whose hour or minute
begins with a star) go by what has passed instead: they have no gap, and nothing to do twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ...events.shown import shown

CRON_LENGTH_MAX = 128
"""Characters of an expression: it stands among what its session is found by."""

ZONE_LENGTH_MAX = 64

_FIELDS = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WINDOW_MS = 3_600_000
"""How far back the last times are looked for at first; then twice as far, until there are enough."""


class BadTime(ValueError):
    """An expression or a time zone that cannot be; says which, and what can."""


def check_cron(expression: str) -> str:
    """The expression, if it is one and comes at all."""
    told = f"cron {shown(expression, 80)}"
    if not isinstance(expression, str) or len(expression) > CRON_LENGTH_MAX:
        raise BadTime(f"{told}: write a text of {CRON_LENGTH_MAX} characters at most")
    fields = expression.split()
    if len(fields) != _FIELDS:
        counted = f"{len(fields)} field{'s' if len(fields) != 1 else ''}"
        raise BadTime(
            f"{told} has {counted}, and 5 are needed: minute, hour, day of month, month, day of week, "
            "as in '0 9 * * MON-FRI'"
        )
    try:
        next(CronSim(expression, _EPOCH))
    except CronSimError as error:
        raise BadTime(f"{told}: {str(error).lower()}: write it like '0 9 * * MON-FRI'") from error
    except StopIteration:
        raise BadTime(f"{told} never comes: give it a day that there is") from None
    return expression


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name."""
    told = f"time zone {shown(name, 80)} is not known here: write it like Europe/Berlin, or UTC"
    if not isinstance(name, str) or len(name) > ZONE_LENGTH_MAX or name == "localtime":
        raise BadTime(told)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadTime(told) from error


def next_after(cron: str, zone: str, after_ms: int) -> int | None:
    """The first time that comes later than this; none where there is none in the next decades."""
    return next(_times(cron, zone, after_ms), None)


def upcoming(cron: str, zone: str, after_ms: int, count: int) -> list[int]:
    """The next times, so many at most."""
    return [due for due, _ in zip(_times(cron, zone, after_ms), range(count), strict=False)]


def last_up_to(
    cron: str, zone: str, first_ms: int, now_ms: int, count: int
) -> tuple[list[int], bool]:
    """The last times of those from `first_ms` up to `now_ms`, oldest first; and whether there were more than these."""
    window_ms = _WINDOW_MS
    while True:
        from_ms = max(first_ms, now_ms - window_ms)
        found = [due for due in _up_to(cron, zone, from_ms - 1, now_ms) if due >= first_ms]
        if len(found) > count or from_ms == first_ms:
            return found[-count:], len(found) > count
        window_ms *= 2


def moment(at_ms: int) -> datetime:
    """The same as a time in UTC."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def to_ms(at: datetime) -> int:
    """A time with its zone as milliseconds since 1970."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _up_to(cron: str, zone: str, after_ms: int, now_ms: int) -> Iterator[int]:
    for due in _times(cron, zone, after_ms):
        if due > now_ms:
            return
        yield due


def _times(cron: str, zone: str, after_ms: int) -> Iterator[int]:
    """All times later than this. What begins in an hour that comes twice may be given times of the first one: they are past."""
    last_ms = after_ms
    for at in CronSim(cron, moment(after_ms).astimezone(zone_of(zone))):
        due_ms = to_ms(at.astimezone(UTC))
        if due_ms > last_ms:
            last_ms = due_ms
            yield due_ms
