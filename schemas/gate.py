"""The gate of the stored format: `python -m wakeful.schemas.gate` names every rule that a schema breaks.

- Each file keeps to the part of Avro that is allowed (`rules.py`), and has a line in `ids.lock`.
- A line's fingerprint is that of its file: a changed schema is a new version with a new id.
- Every version of a record can read every other one (FULL_TRANSITIVE): all that the lock lists, and all that were
  committed, where git is there. What a committed lock said stays as it was.
- While the lock says `draft`, commits bind nobody: nothing was released. Once one without it is committed, there is
  no way back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

from .committed import Commit, commits
from .compatibility import check_pair
from .library import Library, LockError, SchemaVersion, fingerprint_of, parse_lock, read_schema
from .rules import Schema, by_name, check_schema, full_name, records_in


def problems(folder: Path) -> list[str]:
    """Everything that is wrong with the schemas in a folder, a sentence each."""
    try:
        library = Library(folder)
    except (LockError, OSError) as error:
        return [str(error)]
    found = list(_files(folder, library.lock.versions))
    schemas: dict[SchemaVersion, Schema] = {}
    for version in library.lock.versions:
        path = folder / version.file
        if path.is_file():
            schemas[version] = read_schema(path.read_text("utf-8"))
    for version, schema in schemas.items():
        broken = list(_one(version, schema))
        found += broken
        if broken:
            return found  # comparing what is malformed gives noise
    found += _copies(
        schemas[version] for version in schemas if version == library.current(version.record)
    )
    found += _versions(schemas)
    past = commits(folder)
    if past is not None:
        found += _past(past, library, schemas)
    return found


def _files(folder: Path, versions: Iterable[SchemaVersion]) -> Iterator[str]:
    listed = {version.file for version in versions}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.avsc")}
    yield from (f"{file}: is in ids.lock and not in the folder" for file in sorted(listed - there))
    yield from (f"{file}: has no line in ids.lock" for file in sorted(there - listed))
    current = {version.record: version for version in versions}
    for version in versions:
        short = version.record.rpartition(".")[2]
        newest = current[version.record] is version
        wanted = f"{short}.avsc" if newest else f"history/{short}.{version.id}.avsc"
        if version.file != wanted:
            yield f"{version.file}: id {version.id} of {version.record} belongs in {wanted}"


def _one(version: SchemaVersion, schema: Schema) -> Iterator[str]:
    broken = [f"{version.file}: {problem}" for problem in check_schema(schema, version.record)]
    if broken:
        yield from broken
    elif fingerprint_of(schema) != version.fingerprint:
        yield (
            f"{version.file}: changed without a new id: its fingerprint is {fingerprint_of(schema).hex()}, "
            f"ids.lock says {version.fingerprint.hex()} for {version.id}"
        )


def _copies(schemas: Iterable[Schema]) -> Iterator[str]:
    """A record that several files spell out is the same in all of them."""
    first: dict[str, tuple[str, Schema]] = {}
    for schema in schemas:
        for record in records_in(schema):
            name = full_name(record)
            file, known = first.setdefault(name, (schema["name"], record))
            if by_name(known) != by_name(record):
                yield f"{schema['name']}.avsc: its {name} differs from that of {file}.avsc"


def _versions(schemas: dict[SchemaVersion, Schema]) -> Iterator[str]:
    for older, newer in combinations(schemas, 2):
        if older.record == newer.record:
            for problem in check_pair(schemas[older], schemas[newer]):
                yield f"{newer.file}: against id {older.id}: {problem}"


def _past(
    past: Iterator[Commit], library: Library, schemas: dict[SchemaVersion, Schema]
) -> Iterator[str]:
    lines = {version.id: version for version in library.lock.versions}
    compared: set[tuple[str, str]] = set()
    for commit in past:
        lock = parse_lock(commit.lock)
        if lock.draft:
            continue
        if library.lock.draft:
            yield f"ids.lock: is a draft again, commit {commit.id} was not"
            return
        for then in lock.versions:
            now = lines.get(then.id)
            if now is None or (now.record, now.fingerprint) != (then.record, then.fingerprint):
                yield f"ids.lock: id {then.id} was {then.record} {then.fingerprint.hex()} in {commit.id}"
                continue
            text = commit.files.get(then.file, "")
            if text and (then.record, text) not in compared:
                compared.add((then.record, text))
                yield from _against(commit, then, text, schemas[library.current(then.record)])


def _against(commit: Commit, then: SchemaVersion, text: str, now: Schema) -> Iterator[str]:
    for problem in check_pair(read_schema(text), now):
        yield f"{then.file}: against commit {commit.id}: {problem}"


def main() -> int:
    """Prints what is wrong; the exit code is 1 where something is."""
    folder = Path(__file__).resolve().parent
    found = problems(folder)
    for problem in dict.fromkeys(found):
        print(f"schemas/{problem}", file=sys.stderr)
    lock = Library(folder).lock if not found else None
    if lock is not None:
        print(
            f"{len(lock.versions)} schema versions{', as a draft' if lock.draft else ''}: in order"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
