"""An export: a history in one file of JSON lines, which needs nothing else to be read, checked and replayed.

| line | what |
|---|---|
| `{"format": "wakeful-export", "version": 1, …}` | the first: namespace, partitions, whose records, what the processors had committed |
| `{"schema": FINGERPRINT, "record": NAME, "avro": {…}}` | a schema, before the first record that was written by it |
| `{"topic": …, "partition": …, "offset": …, "at_ms": …, "key": …, "headers": […], "value": …}` | a record as it lies in the log; the value in base64 |
| `{"end": N}` | the last: how many records there were |

Keys and values of headers are texts, or `{"base64": …}` where they are none. Each line ends with `"chain"`: SHA-256 over the chain of
the line before and the line's own bytes up to there. So the first line that was changed, dropped, moved or added is named, and
the chain of the last line stands for the whole file: whoever has noted it elsewhere knows the file again.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from ...events.codec import SINGLE_OBJECT, decode_snapshot
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import fingerprint_in
from ...events.keys import session_key, session_part
from ...events.log.protocol import Place, Record
from ...events.records import Snapshot
from ...events.topics import Topics
from ...projections.audit import Evidence
from ...projections.audit.slices import Source
from ...schemas import bundled
from ..exits import Exit, Stopped

FORMAT, VERSION = "wakeful-export", 1
BEFORE_FIRST = sha256(b"wakeful-export/1").digest()
LINE_MAX = 64 * 1024 * 1024
"""Bytes of a line; the largest record, in base64, is far below."""

CHAIN = re.compile(rb'(.*),"chain":"([0-9a-f]{64})"\}\n', re.DOTALL)


class Damaged(Stopped):
    """The file is not what was exported; the message names the first line that is not."""

    def __init__(self, message: str) -> None:
        super().__init__(Exit.REFUSED, message)


@dataclass(frozen=True, slots=True)
class About:
    """The first line: what an export is of. `session` is null for a whole namespace."""

    namespace: str
    partitions: int
    session: tuple[str, str] | None
    exported_at_ms: int
    committed: Mapping[Place, int] | None
    trimmed: Mapping[Place, int]

    @property
    def whose(self) -> str:
        """In words."""
        whole = f"namespace {self.namespace}"
        return whole if self.session is None else f"session {'/'.join(self.session)} of {whole}"

    @property
    def topics(self) -> Topics:
        """Their names."""
        return Topics(self.namespace)


@dataclass(slots=True)
class Writer:
    """Writes one export, line after line."""

    file: BinaryIO
    about: About
    chain: bytes = BEFORE_FIRST
    records: int = 0
    _schemas: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        about = self.about
        self._line(
            {
                "format": FORMAT,
                "version": VERSION,
                "namespace": about.namespace,
                "partitions": about.partitions,
                "session": about.session,
                "exported_at_ms": about.exported_at_ms,
                "committed": None if about.committed is None else _listed(about.committed),
                "trimmed": _listed(about.trimmed),
            }
        )

    def add(self, record: Record) -> None:
        """One record, and the schemas that it needs and that are not there yet."""
        for fingerprint in _fingerprints(record):
            self._schema(fingerprint)
        self.records += 1
        value = None if record.value is None else base64.b64encode(record.value).decode()
        self._line(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "at_ms": record.timestamp_ms,
                "key": _shown(record.key),
                "headers": [[name, _shown(told)] for name, told in record.headers],
                "value": value,
            }
        )

    def end(self) -> str:
        """The last line; gives its chain."""
        self._line({"end": self.records})
        return self.chain.hex()

    def _schema(self, fingerprint: bytes) -> None:
        library = bundled()
        version = library.of_fingerprint(fingerprint)
        if version is None or fingerprint in self._schemas:
            return
        self._schemas.add(fingerprint)
        avro = library.schema(version)
        self._line({"schema": fingerprint.hex(), "record": version.record, "avro": avro})

    def _line(self, value: Mapping[str, Any]) -> None:
        body = json.dumps(value, separators=(",", ":")).encode()[:-1]
        self.chain = sha256(self.chain + body).digest()
        self.file.write(b'%b,"chain":"%b"}\n' % (body, self.chain.hex().encode()))


@dataclass(slots=True)
class Export:
    """An export that was opened; `records` may be read any number of times, and each time proves the chain again."""

    path: Path
    about: About
    expected: int
    """How many records there are by the number of lines."""

    def records(self) -> Iterator[Record]:
        """The records in the order of the file. `Damaged` at the first line that is not as it was written."""
        count, end = 0, None
        for number, line in _lines(self.path):
            if end is not None:
                raise Damaged(_told(self.path, number, "it comes after the last line"))
            if "end" in line:
                end = line["end"]
                if end != count:
                    told = f"it says that there are {end} records, and there are {count}"
                    raise Damaged(_told(self.path, number, told))
            elif "topic" in line:
                count += 1
                yield _record(self.path, number, line)
        if end is None:
            told = "it has no last line: it was cut off, or the export did not end; export it again"
            raise Damaged(f"{self.path}: {told}")

    def of_session(self, session: tuple[str, str]) -> tuple[list[Record], list[Record]]:
        """Its events, and its snapshots with what lies beside them."""
        key, topics = session_key(*session), self.about.topics
        found: dict[str, list[Record]] = {topics.events: [], topics.snapshots: []}
        for record in self.records():
            if record.topic in found and session_part(record.key) == key:
                found[record.topic].append(record)
        return found[topics.events], found[topics.snapshots]

    def source(self, *, quiescent: bool = False) -> Source:
        """For an audit; an export has no views."""
        about = self.about
        evidence = Evidence(
            topics=about.topics,
            partitions=about.partitions,
            committed=about.committed,
            quiescent=quiescent,
            trimmed=about.trimmed,
        )
        return Source(evidence, self.records, None, self.expected, whole=about.session is None)


def open_export(path: Path) -> Export:
    """The export in a file. `Damaged` where its first line is none."""
    with path.open("rb") as file:
        lines = sum(1 for _ in file)
    for number, line in _lines(path):
        return Export(path, _about(path, number, line), lines)
    raise Damaged(f"{path} is empty: give a file that 'wakeful audit export' wrote")


def write_export(path: Path, about: About, records: Iterable[Record]) -> tuple[int, str]:
    """Writes a whole export or none; gives how many records it has, and the chain of its last line."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with open(unfinished, "xb", opener=_private) as file:
            writer = Writer(file, about)
            for record in records:
                writer.add(record)
            chain = writer.end()
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return writer.records, chain


def _private(path: str, flags: int) -> int:
    """An export holds what people said: nobody else reads it until its owner lets them."""
    return os.open(path, flags, 0o600)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line with its number, after its chain was proved."""
    chain = BEFORE_FIRST
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(LINE_MAX):
            number += 1
            found = CHAIN.fullmatch(raw)
            if found is None:
                raise Damaged(_told(path, number, "it does not end with a chain"))
            chain = sha256(chain + found[1]).digest()
            if chain.hex().encode() != found[2]:
                told = "it is not as it was written, or a line before it is gone, new, or elsewhere"
                raise Damaged(_told(path, number, told, found[1]))
            try:
                line = json.loads(found[1] + b"}")
            except ValueError as error:
                raise Damaged(_told(path, number, f"it is no JSON: {error}")) from error
            if not isinstance(line, dict):
                raise Damaged(_told(path, number, "it is no JSON object"))
            yield number, line


def _told(path: Path, number: int, what: str, line: bytes = b"") -> str:
    """Names a line, and the record in it as far as it can still be read."""
    try:
        read = json.loads(line + b"}")
        place = f" ({read['topic']} {read['partition']}@{read['offset']})"
    except (ValueError, KeyError, TypeError):
        place = ""
    return f"{path}, line {number}{place}: {what}"


def _about(path: Path, number: int, line: dict[str, Any]) -> About:
    if line.get("format") != FORMAT or line.get("version") != VERSION:
        told = f"expected format {FORMAT!r} in version {VERSION}, found {line.get('format')!r} in {line.get('version')!r}"
        raise Damaged(_told(path, number, told))
    try:
        session = line["session"]
        committed = line["committed"]
        about = About(
            namespace=str(line["namespace"]),
            partitions=int(line["partitions"]),
            session=None if session is None else (str(session[0]), str(session[1])),
            exported_at_ms=int(line["exported_at_ms"]),
            committed=None if committed is None else _placed(committed),
            trimmed=_placed(line["trimmed"]),
        )
        Topics(about.namespace)
    except (KeyError, TypeError, ValueError, IndexError, InvalidKey) as error:
        raise Damaged(_told(path, number, f"it does not say what it is of: {error!r}")) from error
    return about


def _record(path: Path, number: int, line: dict[str, Any]) -> Record:
    try:
        value = line["value"]
        return Record(
            line["topic"],
            line["partition"],
            line["offset"],
            line["at_ms"],
            _raw(line["key"]),
            None if value is None else base64.b64decode(value, validate=True),
            tuple((str(name), _raw(told) or b"") for name, told in line["headers"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(_told(path, number, f"it is no record: {error!r}")) from error


def _fingerprints(record: Record) -> Iterator[bytes]:
    """Of the schemas that wrote a record, and what is in it."""
    try:
        fingerprint = fingerprint_in(record.headers)
        if fingerprint is not None:
            yield fingerprint
        if record.topic.endswith(".snapshots.v1") and record.value is not None:
            found = decode_snapshot(record.value, record.headers)
            if isinstance(found, Snapshot) and found.state[:2] == SINGLE_OBJECT:
                yield found.state[2:10]
    except Undecodable:
        return  # it is exported as it lies; who reads it will say so


def _shown(raw: bytes | None) -> str | dict[str, str] | None:
    if raw is None:
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
    return text


def _raw(shown: Any) -> bytes | None:
    if shown is None:
        return None
    if isinstance(shown, dict):
        return base64.b64decode(shown["base64"], validate=True)
    if not isinstance(shown, str):
        raise TypeError(f"expected a text, got {shown!r}")
    return shown.encode("utf-8")


def _listed(places: Mapping[Place, int]) -> list[list[Any]]:
    return [[place.topic, place.partition, at] for place, at in sorted(places.items())]


def _placed(listed: Any) -> dict[Place, int]:
    return {Place(str(topic), int(partition)): int(at) for topic, partition, at in listed}
