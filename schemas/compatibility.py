"""Whether two versions of a record can be read for each other, both ways.

`avro.compatibility` (the reference implementation, a development dependency) decides; on top of it a field keeps
its type, since Avro calls string and bytes compatible and our readers do not convert.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from .rules import Schema, full_name, records_in


def check_pair(older: Schema, newer: Schema) -> Iterator[str]:
    """Why data of one version could be misread with the other, a sentence for each reason."""
    yield from _read_for_each_other(json.dumps(older), json.dumps(newer))
    yield from _types(older, newer)


@cache
def _read_for_each_other(older: str, newer: str) -> tuple[str, ...]:
    """What the reference implementation says; released versions do not change, and are asked about again and again."""
    return tuple(_unreadable(_parsed(older), _parsed(newer)))


@cache
def _parsed(schema: str) -> Any:
    # Imported here: the gate's structural rules work without it, and so does an installed package.
    from avro.schema import parse

    return parse(schema)


def _unreadable(old: Any, new: Any) -> Iterator[str]:
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    for reader, writer, told in (
        (new, old, "the new cannot read the old"),
        (old, new, "the old cannot read the new"),
    ):
        checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
        result = checker.get_compatibility(reader=reader, writer=writer)
        if result.compatibility is not SchemaCompatibilityType.compatible:
            yield f"{told}: {'; '.join(sorted(result.messages)) or result.incompatibilities}"


def _types(older: Schema, newer: Schema) -> Iterator[str]:
    before = {full_name(record): record for record in records_in(older)}
    for record in records_in(newer):
        old = before.get(full_name(record))
        if old is None:
            continue
        kinds = {field["name"]: _kind(field["type"]) for field in old["fields"]}
        for field in record["fields"]:
            kind = _kind(field["type"])
            if kinds.get(field["name"], kind) != kind:
                yield (
                    f"{record['name']}.{field['name']} was {kinds[field['name']]} and is {kind}: "
                    "a field keeps its type"
                )


def _kind(kind: Any) -> str:
    """A type in one line, with records by name."""
    if isinstance(kind, list):
        return f"[{', '.join(_kind(branch) for branch in kind)}]"
    if isinstance(kind, dict) and kind["type"] == "array":
        return f"array of {_kind(kind['items'])}"
    if isinstance(kind, dict) and kind["type"] == "record":
        return full_name(kind)
    return str(kind)
