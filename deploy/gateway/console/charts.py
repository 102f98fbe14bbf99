"""Charts as inline SVG, drawn here: no script, no style of their own, and a table's words for who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 128
"""Units of a chart's own; a stylesheet gives it its size."""

LEFT, BOTTOM, TOP = 30, 18, 8

GAP = 2


@dataclass(frozen=True, slots=True)
class Box:
    """One rectangle; `kind` names its colour."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A label beside an axis, or below it."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What a template draws, and the same in words."""

    title: str
    words: str
    boxes: list[Box]
    levels: list[Tick]
    slots: list[Tick]
    empty: bool
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def left(self) -> int:
        """Where the bars begin."""
        return LEFT

    @property
    def floor(self) -> int:
        """Where the bars stand."""
        return HEIGHT - BOTTOM


Slot = tuple[str, Sequence[tuple[str, int]]]
"""A bar's label, and its parts from below: colour and count."""


def bars(title: str, slots: Sequence[Slot], *, words: str, labels: Sequence[int]) -> Chart:
    """A chart of stacked bars; `labels` says by number which of them are named below."""
    totals = [sum(count for _, count in parts) for _, parts in slots]
    top = _round_up(max(totals, default=0))
    floor, room = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP
    step = (WIDTH - LEFT) / max(1, len(slots))
    boxes = []
    for number, (label, parts) in enumerate(slots):
        y = float(floor)
        for kind, count in parts:
            if not count:
                continue
            height = max(1.5, count / top * room)
            y -= height
            x, width = LEFT + number * step + GAP / 2, step - GAP
            boxes.append(
                Box(
                    round(x, 1),
                    round(y, 1),
                    round(width, 1),
                    round(height, 1),
                    kind,
                    f"{label}: {count} {kind}",
                )
            )
    levels = [
        Tick(floor - room * part, _count(top * part))
        for part in (0, 0.5, 1)
        if top * part == int(top * part)
    ]
    below = [Tick(round(LEFT + (n + 0.5) * step, 1), slots[n][0]) for n in labels if n < len(slots)]
    return Chart(title, words, boxes, levels, below, empty=not any(totals))


def _round_up(most: int) -> int:
    """The top of an axis: 1, 2, 4, 5 or 10 times a power of ten, so that half of it is a round number, too."""
    size = 1
    while True:
        for times in (1, 2, 4, 6, 8):
            if most <= times * size:
                return times * size
        size *= 10


def _count(value: float) -> str:
    count = int(value)
    return f"{count // 1000}k" if count >= 10_000 else str(count)
