"""The bundled schemas: alike among themselves, equal to their classes, readable from anywhere."""

import dataclasses
import json
import types
import zipfile
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from wakeful.commands.models import CommandBody, CommandHeader
from wakeful.events.records import (
    ActivityTask,
    AttemptOver,
    Envelope,
    EventBody,
    JournalChunk,
    Outcome,
    PartitionMark,
    PolicyPublished,
    PolicySeen,
    RolloutSeen,
    RolloutSet,
    Snapshot,
)
from wakeful.events.state import SessionState
from wakeful.schemas import Library, bundled
from wakeful.schemas.library import ID_MIN, LockError, fingerprint_of, parse_lock
from wakeful.schemas.rules import by_name, full_name, records_in

FOLDER = Path(__file__).parents[2] / "schemas"
VECTORS = Path(__file__).parent / "vectors" / "fingerprints.json"
LEADS = {
    **dict.fromkeys(get_args(EventBody), ("envelope", Envelope)),
    **dict.fromkeys(get_args(CommandBody), ("header", CommandHeader)),
    **dict.fromkeys(
        (
            ActivityTask,
            AttemptOver,
            Outcome,
            Snapshot,
            JournalChunk,
            PartitionMark,
            PolicyPublished,
            PolicySeen,
            RolloutSet,
            RolloutSeen,
            SessionState,
        )
    ),
}
NAMES = {str: "string", int: "long", bytes: "bytes", bool: "boolean"}


def avro_of(hint: Any) -> Any:
    """The type an annotation stands for; records as nested lists of their fields."""
    if get_origin(hint) in {types.UnionType, Union}:
        (inner,) = (h for h in get_args(hint) if h is not types.NoneType)
        return ["null", avro_of(inner)]
    if get_origin(hint) is tuple:
        return {"array": avro_of(get_args(hint)[0])}
    return NAMES.get(hint) or (hint.__name__, fields_of(hint))


def fields_of(cls: type) -> list[tuple[str, Any]]:
    hints = get_type_hints(cls)
    return [(field.name, avro_of(hints[field.name])) for field in dataclasses.fields(cls)]


def fields_in(schema: dict[str, Any], named: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(field["name"], type_in(field["type"], named)) for field in schema["fields"]]


def type_in(kind: Any, named: dict[str, Any]) -> Any:
    if isinstance(kind, list):
        return ["null", type_in(kind[1], named)]
    if isinstance(kind, dict) and kind["type"] == "array":
        return {"array": type_in(kind["items"], named)}
    if kind in NAMES.values():
        return kind
    schema = named[kind] if isinstance(kind, str) else kind
    return schema["name"], fields_in(schema, named)


def test_every_class_has_a_schema_and_every_schema_a_class() -> None:
    records = {version.record for version in bundled().lock.versions}
    assert records == {f"wakeful.v1.{cls.__name__}" for cls in LEADS}


@pytest.mark.parametrize("cls", LEADS, ids=lambda cls: cls.__name__)
def test_a_class_and_its_schema_have_the_same_fields_in_the_same_order(cls: type) -> None:
    schema = bundled().schema(bundled().current(f"wakeful.v1.{cls.__name__}"))
    named = {full_name(record): record for record in records_in(schema)}
    lead = [(LEADS[cls][0], avro_of(LEADS[cls][1]))] if LEADS[cls] else []
    assert fields_in(schema, named) == [*lead, *fields_of(cls)]


def test_a_record_spelled_out_in_many_files_is_the_same_in_all() -> None:
    copies: dict[str, list[Any]] = {}
    for version in bundled().lock.versions:
        if bundled().current(version.record) is not version:
            continue  # as it was, and so are the records in it
        for record in records_in(bundled().schema(version)):
            known = copies.setdefault(full_name(record), [])
            if by_name(record) not in known:
                known.append(by_name(record))
    assert {name for name, different in copies.items() if len(different) > 1} == set()


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text("utf-8"))["vectors"])
def test_fingerprints_are_those_of_avro_for_java(vector: dict[str, Any]) -> None:
    found = fingerprint_of(vector["schema"])
    assert found.hex() == vector["bytes"]
    assert f"{int.from_bytes(found, 'little'):016x}" == vector["fingerprint64"]


def test_docs_do_not_change_a_fingerprint_and_names_do() -> None:
    schema = bundled().schema(bundled().current("wakeful.v1.TimerFired"))
    silent = json.loads(json.dumps(schema).replace('"doc"', '"about"'))
    renamed = json.loads(json.dumps(schema).replace('"due_ms"', '"due"'))
    assert fingerprint_of(silent) == fingerprint_of(schema)
    assert fingerprint_of(renamed) != fingerprint_of(schema)


def test_schemas_are_read_from_inside_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in (*FOLDER.rglob("*.avsc"), FOLDER / "ids.lock"):
            packed.write(file, file.relative_to(FOLDER).as_posix())
    library = Library(zipfile.Path(archive))  # type: ignore[arg-type]
    assert library.lock == bundled().lock
    for version in library.lock.versions:
        assert library.schema(version) == bundled().schema(version)


LINE = f"{ID_MIN} 0011223344556677 wakeful.v1.X X.avsc"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINE + "\n" + LINE, "stands twice"),
        (LINE.replace(str(ID_MIN), "12"), "line 1"),
        (LINE.replace("0011", ""), "line 1"),
        (LINE + " more", "line 1"),
        ("# a comment\n\nwhat is this", "line 3"),
    ],
)
def test_a_lock_that_is_not_in_order_is_refused_by_line(text: str, said: str) -> None:
    with pytest.raises(LockError, match=said):
        parse_lock(text)


def test_a_record_without_a_line_is_named() -> None:
    with pytest.raises(LockError, match="no line for wakeful"):
        bundled().current("wakeful.v1.Nothing")
