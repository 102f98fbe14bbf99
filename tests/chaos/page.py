"""The table of what came of the faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.chaos.run import Met, Result


def table_of(results: Sequence[Result]) -> list[str]:
    """One line per fault, as Markdown."""
    found: dict[str, list[Met]] = {}
    for result in results:
        for met in result.faults:
            found.setdefault(met.name, []).append(met)
    return [
        f"{name}: {len(mets)} {median(m.all_s for m in mets):.1f}"
        for name, mets in sorted(found.items())
    ]


def write_page(path: Path, results: Sequence[Result], day: str) -> None:
    """Writes the page."""
