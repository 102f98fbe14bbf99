"""Durations as users write them, in milliseconds: `"90s"`, `"24h"`, a number of seconds, or a `timedelta`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import SupportsFloat

from ..events.shown import shown

Duration = str | int | float | timedelta

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def to_ms(duration: Duration) -> int:
    """The duration in whole milliseconds; `ValueError` names what was given and what would do."""
    if isinstance(duration, timedelta):
        ms = duration / timedelta(milliseconds=1)
    elif isinstance(duration, str):
        match = _TEXT.fullmatch(duration.strip())
        if match is None:
            raise _not_one(duration)
        ms = float(match[1]) * _UNITS_MS[match[2]]
    elif isinstance(duration, bool) or not isinstance(duration, SupportsFloat):
        raise _not_one(duration)
    else:
        ms = _seconds(duration) * 1_000
    if not 0 <= ms < 2**53:
        raise ValueError(
            f"{shown(duration)} is out of range: a duration is zero or more, and below 285,000 years"
        )
    return round(ms)


def _seconds(number: SupportsFloat) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def _not_one(given: object) -> ValueError:
    return ValueError(
        f"{shown(given)} is not a duration: write it like '500ms', '10s', '5m', '24h' or '7d'"
    )
