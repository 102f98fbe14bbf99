"""Reads the bundled schemas and `ids.lock`, from a checkout or from a wheel.

`ids.lock` has one line per schema version that was ever written: id, fingerprint, record, file. Ids count from
1,000,000 up, so that they collide with nobody's registry, and are never reused. The last line of a record is its
current version; older ones keep their file in `history/`. A reader in ten years needs nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, cast

from fastavro.schema import fingerprint, to_parsing_canonical_form

ID_MIN = 1_000_000
"""Registries count from 1; nobody's has reached a million."""

ID_MAX = 2**31 - 1
"""Confluent framing holds the id in four bytes, and its tools read them as a signed number."""


class LockError(Exception):
    """`ids.lock` does not read as it should; the message names the line."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of one record: `fingerprint` is CRC-64-AVRO, its 8 bytes in the order Avro stores them."""

    id: int
    fingerprint: bytes
    record: str
    file: str


@dataclass(frozen=True, slots=True)
class Lock:
    """`ids.lock` as read. A draft binds nobody yet: no release was made under it."""

    draft: bool
    versions: tuple[SchemaVersion, ...]


class Library:
    """Every schema version in one folder, found by fingerprint, by id, or by record."""

    def __init__(self, folder: Traversable) -> None:
        self.folder = folder
        self.lock = parse_lock(folder.joinpath("ids.lock").read_text("utf-8"))
        self._by_fingerprint = {v.fingerprint: v for v in self.lock.versions}
        self._by_id = {v.id: v for v in self.lock.versions}
        self._current = {v.record: v for v in self.lock.versions}

    def of_fingerprint(self, fingerprint: bytes) -> SchemaVersion | None:
        """The version with this fingerprint."""
        return self._by_fingerprint.get(fingerprint)

    def of_id(self, id_: int) -> SchemaVersion | None:
        """The version with this bundled id."""
        return self._by_id.get(id_)

    def current(self, record: str) -> SchemaVersion:
        """The newest version of a record, by its full name; `LockError` where there is none."""
        version = self._current.get(record)
        if version is None:
            raise LockError(f"ids.lock has no line for {record}")
        return version

    def schema(self, version: SchemaVersion) -> dict[str, Any]:
        """The version's schema, as JSON."""
        return read_schema(self.folder.joinpath(*version.file.split("/")).read_text("utf-8"))


@cache
def bundled() -> Library:
    """The schemas that came with this package."""
    return Library(resources.files(__package__))


def read_schema(text: str) -> dict[str, Any]:
    """A schema file's JSON object."""
    return cast("dict[str, Any]", json.loads(text))


def fingerprint_of(schema: dict[str, Any]) -> bytes:
    """CRC-64-AVRO over the parsing canonical form; docs, defaults and white space do not count."""
    return _hashed(to_parsing_canonical_form(schema))


@cache
def _hashed(canonical: str) -> bytes:
    """Byte by byte, in Python: the gate asks for each version several times."""
    return bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def parse_lock(text: str) -> Lock:
    """Reads `ids.lock`; refuses ids, fingerprints or files that stand in it twice."""
    draft, versions = False, []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words == ["draft"]:
            draft = True
            continue
        versions.append(_version(number, words))
    _check_unique(versions)
    return Lock(draft, tuple(versions))


def _version(number: int, words: list[str]) -> SchemaVersion:
    try:
        id_, hex_, record, file = words
        version = SchemaVersion(int(id_), bytes.fromhex(hex_), record, file)
    except ValueError as error:
        raise LockError(
            f"ids.lock line {number}: expected id, fingerprint, record, file"
        ) from error
    if not ID_MIN <= version.id <= ID_MAX or len(version.fingerprint) != 8:
        raise LockError(f"ids.lock line {number}: id below {ID_MIN} or fingerprint not of 8 bytes")
    return version


def _check_unique(versions: Iterable[SchemaVersion]) -> None:
    seen: set[object] = set()
    for version in versions:
        for key in (version.id, version.fingerprint, version.file):
            if key in seen:
                told = key.hex() if isinstance(key, bytes) else key
                raise LockError(
                    f"ids.lock: {told} stands twice ({version.record}); ids are never reused"
                )
            seen.add(key)
