"""`python -m bench.table results.jsonl …`: what the lines say, as tables in markdown.

A cell is the median of the repetitions and, where they differ, `(least-most)`. Ratios are taken within a round, where
the machine was the same for both, and only then is their median taken.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import median, ratio

Line = Mapping[str, Any]

OWN = "wakeful"


@dataclass(frozen=True, slots=True)
class Shape:
    """How one measure is shown: what makes a row, and what is in it."""

    title: str
    keys: tuple[str, ...]
    columns: Mapping[str, str]
    """Heading by field; a field ending in `*` is all fields that begin so, each under the rest of its name."""


CPU = {"cpu_ms_per_step": "CPU ms/step", "cpu_ms_per_step_*": ""}

SHAPES = {
    "throughput": Shape(
        "Steps per second, and CPU milliseconds per step by process",
        ("window", "durability", "peer"),
        {
            "steps_per_s": "steps/s",
            **CPU,
            "step_ms_p50": "step ms p50",
            "step_ms_p99": "p99",
            "views_follow_ms": "views follow, ms",
        },
    ),
    "latency": Shape(
        "One session at a time",
        ("durability", "peer"),
        {
            "step_ms_p50": "step ms p50",
            "step_ms_p99": "p99",
            "approval_ms_p50": "approval to next step ms p50",
            "approval_ms_p99": "p99",
        },
    ),
    "parked": Shape(
        "Parked sessions: MB per 1,000 (PSS) by process once a partition's share of memory is full, and idle CPU",
        ("sessions", "kept_in_memory"),
        {
            "mb_per_1000_more_*": "",
            "idle_cpu_cores": "idle cores",
            "resume_ms_p50": "approval ms p50, in memory",
            "resume_from_disk_ms_p50": "from disk",
            "disk_to_memory": "ratio",
        },
    ),
    "next_step": Shape(
        "The next step of a session with so many steps behind it",
        ("history",),
        {
            "warm_next_step_ms": "in memory, ms",
            "from_disk_next_step_ms": "from disk, ms",
            "disk_to_warm": "ratio",
            "cold_next_step_s": "after a restart, s",
            "cold_since_kill_s": "from the kill, s",
        },
    ),
    "recovery": Shape(
        "kill -9 with all sessions in flight: seconds from the kill",
        ("case", "sessions"),
        {
            "restarted_s": "restarted",
            "first_step_s": "first step",
            "last_first_step_s": "last session moves",
            "last_since_restart_s": "… from the restart",
            "limit_s": "limit",
            "all_done_s": "all done",
            "reexecuted_completed": "completed steps repeated",
            "duplicated_inflight": "steps in flight repeated",
        },
    ),
    "worker_killed": Shape(
        "kill -9 of one of two workers, with long calls: seconds to their next begin",
        ("session_timeout_s", "calls_cut"),
        {"again_s_first": "first", "again_s_p50": "p50", "again_s_last": "last"},
    ),
}


def table(lines: Sequence[Line]) -> str:
    """All tables that there are lines for, one after the other."""
    parts = []
    for measure, shape in SHAPES.items():
        found = [line for line in lines if line["measure"] == measure]
        if found:
            parts.append(f"**{shape.title}**\n\n{rows_of(shape, found)}")
    rounds = ratios(lines)
    if rounds:
        title = f"**{OWN.capitalize()} / peer, within each round**"
        parts.append(f"{title}\n\n{ratio_rows(rounds)}")
    return "\n\n".join(parts) or "no lines"


def rows_of(shape: Shape, lines: Sequence[Line]) -> str:
    """One measure's table."""
    columns = expand(shape.columns, lines)
    grouped: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        grouped.setdefault(tuple(line.get(key) for key in shape.keys), []).append(line)
    heads = [*shape.keys, *columns.values(), "runs", "load"]
    body = [
        [
            *map(str, key),
            *(cell(each.get(field) for each in group) for field in columns),
            str(len(group)),
            cell(each.get("load1") for each in group),
        ]
        for key, group in sorted(grouped.items(), key=lambda item: order(item[0]))
    ]
    return markdown(heads, body)


def expand(columns: Mapping[str, str], lines: Iterable[Line]) -> dict[str, str]:
    """Headings by field, with those of `*` put in where it stands, in the order of the lines."""
    fields = list(dict.fromkeys(field for line in lines for field in line))
    found: dict[str, str] = {}
    for field, heading in columns.items():
        if field.endswith("*"):
            prefix = field[:-1]
            found.update(
                {
                    one: one.removeprefix(prefix).replace("_", " ")
                    for one in fields
                    if one.startswith(prefix)
                }
            )
        else:
            found[field] = heading
    return found


def ratios(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Wakeful by peer, per round, window and durability of Wakeful's: steps per second and CPU per step.

    Over 1 is faster in the first, and dearer in the others. Without the driver: it is the benchmark's, not the engine's.
    """
    measured = [line for line in lines if line["measure"] == "throughput" and "round" in line]
    found = []
    for own in measured:
        if own["peer"] != OWN:
            continue
        for peer in measured:
            same = (peer["round"], peer["window"]) == (own["round"], own["window"])
            if same and peer["peer"] != OWN:
                found.append(
                    {
                        "window": own["window"],
                        "durability": own["durability"],
                        "peer": peer["peer"],
                        "round": own["round"],
                        **{
                            name: ratio(own.get(field), peer.get(field))
                            for name, field in COMPARED.items()
                        },
                    }
                )
    return found


COMPARED = {
    "steps_ratio": "steps_per_s",
    "cpu_ratio": "cpu_ms_per_step",
    "cpu_ratio_without_driver": "cpu_ms_per_step_without_driver",
}


def ratio_rows(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The median over the rounds, and each of them."""
    grouped: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in rounds:
        key = (one["window"], one["durability"], one["peer"])
        grouped.setdefault(key, []).append(one)
    heads = ["window", "durability", "peer", "steps/s", "rounds", "CPU per step", "without driver"]
    body = [
        [
            *map(str, key),
            str(median(one["steps_ratio"] for one in group)),
            " ".join(str(one["steps_ratio"]) for one in group),
            cell(one["cpu_ratio"] for one in group),
            cell(one["cpu_ratio_without_driver"] for one in group),
        ]
        for key, group in sorted(grouped.items(), key=lambda item: order(item[0]))
    ]
    return markdown(heads, body)


def cell(values: Iterable[float | None]) -> str:
    """`2.1 (1.9-2.4)`, `2.1` where all are the same, `-` where there is nothing."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    middle = shown(median(known))
    least, most = shown(min(known)), shown(max(known))
    return middle if least == most else f"{middle} ({least}-{most})"


def shown(value: float | None) -> str:
    """With three figures or so."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def order(key: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    """Numbers by size, before words."""
    return tuple((isinstance(part, str), part) for part in key)


def markdown(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table with columns of equal width, to be read as it is too."""
    rows = [list(heads), *map(list, body)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(heads))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def read(paths: Iterable[Path]) -> list[Line]:
    """The lines of these files; raises `ValueError` that names a line which is none of ours."""
    found = []
    for path in paths:
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                known = "measure" in line
            except (json.JSONDecodeError, TypeError):
                known = False
            if not known:
                raise ValueError(f"{path}:{number} is no line of a benchmark: {text[:60]!r}")
            found.append(line)
    return found


def main() -> None:
    """Prints the tables of the files that are named."""
    paths = [Path(word) for word in sys.argv[1:]]
    if not paths:
        sys.exit("give at least one file of lines: python -m bench.table results.jsonl")
    print(table(read(paths)))


if __name__ == "__main__":
    main()
