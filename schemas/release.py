"""`python -m wakeful.schemas.release`: gives changed and new schema files their line in `ids.lock`.

A new file gets the next id. A changed one gets a new id too, and what it was in the last commit moves to `history/`;
while the lock is a draft, its line is corrected instead. With `--bind` the lock stops being a draft, for good.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from .committed import last_text
from .library import ID_MIN, Lock, LockError, SchemaVersion, fingerprint_of, parse_lock, read_schema
from .rules import full_name

HEAD = """\
# One line per schema version that was ever written: id, CRC-64-AVRO fingerprint, record, file.
# Lines are only added; ids are never reused; the last line of a record is its current version.
"""


def release(folder: Path, *, bind: bool = False) -> list[str]:
    """Brings the lock up to the files, and says what it did."""
    lock = parse_lock((folder / "ids.lock").read_text("utf-8"))
    versions, said = list(lock.versions), []
    for path in sorted(folder.glob("*.avsc")):
        schema = read_schema(path.read_text("utf-8"))
        fingerprint, record = fingerprint_of(schema), full_name(schema)
        known = next((v for v in reversed(versions) if v.record == record), None)
        if known is not None and known.fingerprint == fingerprint:
            continue
        if known is not None and lock.draft:
            versions[versions.index(known)] = replace(known, fingerprint=fingerprint)
            said.append(f"{path.name}: {known.id} corrected, as the lock is a draft")
            continue
        if known is not None:
            versions[versions.index(known)] = _retire(folder, known)
        id_ = max((v.id for v in versions), default=ID_MIN - 1) + 1
        versions.append(SchemaVersion(id_, fingerprint, record, path.name))
        said.append(f"{path.name}: new version {id_}")
    text = _text(Lock(lock.draft and not bind, tuple(versions)))
    (folder / "ids.lock").write_text(text, "utf-8")
    return said


def _retire(folder: Path, known: SchemaVersion) -> SchemaVersion:
    text = last_text(folder, known.file)
    if text is None or fingerprint_of(read_schema(text)) != known.fingerprint:
        raise LockError(
            f"{known.file}: the last commit does not hold version {known.id}; put it into history/ by hand"
        )
    file = f"history/{known.record.rpartition('.')[2]}.{known.id}.avsc"
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(text, "utf-8")
    return replace(known, file=file)


def _text(lock: Lock) -> str:
    lines = [f"{v.id} {v.fingerprint.hex()} {v.record} {v.file}\n" for v in lock.versions]
    return HEAD + ("draft\n" if lock.draft else "") + "".join(lines)


def main(arguments: list[str]) -> int:
    """Releases the schemas of this checkout."""
    for line in release(Path(__file__).resolve().parent, bind="--bind" in arguments):
        sys.stdout.write(f"schemas/{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
