"""The book: one file, one line of JSON per charge or undo, on the disk before anybody is told.

```
{"kind": "charge", "id": "ch_1", "key": "local/m1/1/3", "order_id": "order-7", "cents": 2500}
{"kind": "undo", "key": "local/m1/1/5", "of": "local/m1/1/3", "charges": ["ch_1"]}
```

A last line without its end was never acknowledged: a reader skips it, and who opens the book to write cuts it off.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class BookBroken(Exception):
    """The book holds a whole line that nobody of ours wrote, or cannot be written; names the file."""


class BookHeld(Exception):
    """Another process has this book open to write."""


class Charge(BaseModel):
    """Money that was paid back; `undone` when it was taken back again."""

    model_config = ConfigDict(frozen=True)

    id: str
    key: str
    order_id: str
    cents: int
    undone: bool = False


class Undo(BaseModel):
    """Charges of the key `of` that were taken back; `key` is the undo's own and means nothing to the service."""

    model_config = ConfigDict(frozen=True)

    key: str
    of: str
    charges: tuple[str, ...]


class _ChargeLine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["charge"] = "charge"
    id: str
    key: str
    order_id: str
    cents: int


class _UndoLine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["undo"] = "undo"
    key: str
    of: str
    charges: tuple[str, ...]


_Line = _ChargeLine | _UndoLine
_LINE: TypeAdapter[_Line] = TypeAdapter(Annotated[_Line, Field(discriminator="kind")])


class Book:
    """What a book says: charges in the order they were made, and undos. A value to ask, not a file."""

    def __init__(self) -> None:
        self.undos: list[Undo] = []
        self._charges: dict[str, Charge] = {}
        self._ids: dict[str, list[str]] = {}

    def __len__(self) -> int:
        """How many charges there are."""
        return len(self._charges)

    @property
    def charges(self) -> list[Charge]:
        """Every charge, undone or not."""
        return list(self._charges.values())

    @property
    def charges_by_key(self) -> dict[str, list[Charge]]:
        """Every charge by the key it was asked with, keys in the order of their first charge."""
        return {key: self.of(key) for key in self._ids}

    def of(self, key: str) -> list[Charge]:
        """The charges of one key, undone or not."""
        return [self._charges[one] for one in self._ids.get(key, ())]

    def duplicates(self) -> dict[str, list[Charge]]:
        """The keys that were charged more than once, by their charges that stand: an undo takes a key off."""
        standing = {
            key: [charge for charge in charges if not charge.undone]
            for key, charges in self.charges_by_key.items()
        }
        return {key: charges for key, charges in standing.items() if len(charges) > 1}

    def apply(self, line: _Line) -> None:
        """Takes in one line; `ValueError` where it does not follow from the lines before."""
        match line:
            case _ChargeLine():
                if line.id in self._charges:
                    raise ValueError(f"{line.id} was charged before")
                self._charges[line.id] = Charge(**line.model_dump(exclude={"kind"}))
                self._ids.setdefault(line.key, []).append(line.id)
            case _UndoLine():
                unknown = [one for one in line.charges if one not in self._ids.get(line.of, ())]
                if unknown:
                    raise ValueError(f"{', '.join(unknown)} was not charged for {line.of}")
                for one in line.charges:
                    charge = self._charges[one]
                    self._charges[one] = charge.model_copy(update={"undone": True})
                self.undos.append(Undo(**line.model_dump(exclude={"kind"})))


def read_book(path: Path) -> Book:
    """The book in this file, also while a service writes it; empty without a file; raises `BookBroken`."""
    return _fold(path, _whole(path.read_bytes()) if path.exists() else b"")


class OpenBook:
    """The book opened to write, by one process at a time; for several threads.

    What a method returns is on the disk. Raises `BookHeld`, `BookBroken` or `OSError` when it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._size = 0
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        try:
            self._hold()
            self._book = self._read_back()
            _sync_folder(path.absolute().parent)
        except BaseException:
            self._close()
            raise

    def close(self) -> None:
        """Closes the file after the line that is being written; whoever comes later raises `BookBroken`."""
        with self._lock:
            self._close()

    def charge(self, *, key: str, order_id: str, cents: int) -> Charge:
        """Charges, whatever was charged with this key before."""
        with self._lock:
            return self._charge(key, order_id, cents)

    def charge_once(self, *, key: str, order_id: str, cents: int) -> Charge:
        """Charges, or gives the first charge of this key, which may be for another order or sum."""
        with self._lock:
            before = self._book.of(key)
            return before[0] if before else self._charge(key, order_id, cents)

    def undo(self, *, of: str, key: str) -> list[Charge]:
        """Takes back the charges of the key `of` that stand; gives all of them that are taken back by now.

        A repeat, or a key never charged, writes nothing. A charge that comes later stands.
        """
        with self._lock:
            standing = tuple(charge.id for charge in self._book.of(of) if not charge.undone)
            if standing:
                self._append(_UndoLine(key=key, of=of, charges=standing))
            return self._book.of(of)

    def find(self, key: str) -> list[Charge]:
        """The charges of this key, undone or not."""
        with self._lock:
            return self._book.of(key)

    def counts(self) -> dict[str, int]:
        """Numbers for a summary."""
        with self._lock:
            charges = self._book.charges
            standing = [charge for charge in charges if not charge.undone]
            return {
                "charges": len(charges),
                "undone": len(charges) - len(standing),
                "cents": sum(charge.cents for charge in standing),
                "keys": len(self._book.charges_by_key),
                "duplicates": len(self._book.duplicates()),
                "undos": len(self._book.undos),
            }

    def _charge(self, key: str, order_id: str, cents: int) -> Charge:
        number = len(self._book) + 1
        self._append(_ChargeLine(id=f"ch_{number}", key=key, order_id=order_id, cents=cents))
        return self._book.of(key)[-1]

    def _append(self, line: _Line) -> None:
        raw = line.model_dump_json().encode() + b"\n"
        try:
            written = os.write(self._descriptor, raw)
            if written != len(raw):
                raise OSError(f"only {written} of {len(raw)} bytes went in")
            os.fsync(self._descriptor)
            self._size += written
        except OSError as error:
            self._cut()
            raise BookBroken(f"{self._path} cannot be written: {error}") from error
        self._book.apply(line)

    def _cut(self) -> None:
        """Takes back what of a line went in; where that fails, too, no other line may follow it."""
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            self._close()

    def _close(self) -> None:
        if self._descriptor != -1:
            os.close(self._descriptor)
            self._descriptor = -1

    def _hold(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BookHeld(
                f"{self._path} is open in another payment service: end that one, or take another file"
            ) from error

    def _read_back(self) -> Book:
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            raw = file.read()
        whole = _whole(raw)
        book = _fold(self._path, whole)  # first: what is not ours is left as it is
        self._size = len(whole)
        if len(whole) < len(raw):
            os.ftruncate(self._descriptor, self._size)
            os.fsync(self._descriptor)
        return book


def _whole(raw: bytes) -> bytes:
    """The lines that have their end."""
    return raw[: raw.rfind(b"\n") + 1]


def _fold(path: Path, raw: bytes) -> Book:
    book = Book()
    for number, line in _numbered(raw):
        try:
            book.apply(_LINE.validate_json(line))
        except ValidationError as error:
            fault = error.errors()[0]["msg"]
            raise BookBroken(f"{path}:{number} is no line of ours: {fault}") from error
        except ValueError as error:
            raise BookBroken(f"{path}:{number} does not follow: {error}") from error
    return book


def _numbered(raw: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(raw.split(b"\n")[:-1], start=1)


def _sync_folder(folder: Path) -> None:
    """A new file survives a power cut only once its folder is on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
