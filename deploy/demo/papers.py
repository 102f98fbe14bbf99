"""The desk's papers: one file per letter, named by its idempotency key, and a line for each model call.

```
letters/<key>.json     what was sent to the customer; the same key is the same file
model_calls.ndjson     start and end of every call to the model, appended by whoever makes it
```

Both survive any kill: a file appears whole, by a rename, and a line is one append.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time
from typing import Any

CALLS = "model_calls.ndjson"
LETTERS = "letters"
SUFFIX = ".json"


class PapersBroken(Exception):
    """The folder holds what nobody of ours wrote; names the file."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What was sent to a customer. Without a time, so that a repeat writes the same bytes."""

    key: str
    customer: str
    text: str


@dataclass(frozen=True, slots=True)
class CallLine:
    """One end of a model call: `at` is start, end or failed."""

    at: str
    call: str
    key: str
    ms: int
    pid: int


@dataclass(frozen=True, slots=True)
class Papers:
    """The folder of one run."""

    folder: Path

    def prepare(self) -> None:
        """Makes the folders."""
        (self.folder / LETTERS).mkdir(parents=True, exist_ok=True)

    def write(self, letter: Letter) -> Path:
        """Writes the letter; again with the same key, and it is the same file."""
        target = self.folder / LETTERS / f"{file_name(letter.key)}{SUFFIX}"
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with beside.open("x", encoding="utf-8") as file:
                json.dump(asdict(letter), file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        return target

    def letters(self) -> list[Letter]:
        """All letters, by key. What a kill left half written has another name and does not count."""
        found = []
        for path in sorted((self.folder / LETTERS).glob(f"[!.]*{SUFFIX}")):
            try:
                found.append(Letter(**json.loads(path.read_text(encoding="utf-8"))))
            except (ValueError, TypeError) as error:
                raise PapersBroken(f"{path} is no letter of ours: {error}") from error
        return found

    @contextmanager
    def call(self, key: str) -> Iterator[str]:
        """Notes the start and the end of a model call; gives its id, which goes into the result."""
        call = secrets.token_hex(8)
        self._note("start", call, key)
        at = "failed"
        try:
            yield call
            at = "end"
        finally:
            self._note(at, call, key)

    def calls(self) -> list[CallLine]:
        """Every line so far, in the order of their appends."""
        path = self.folder / CALLS
        if not path.exists():
            return []
        found = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                found.append(CallLine(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise PapersBroken(f"{path}:{number} is no line of ours: {error}") from error
        return found

    def _note(self, at: str, call: str, key: str) -> None:
        line = asdict(CallLine(at, call, key, int(time() * 1000), os.getpid()))
        append(self.folder / CALLS, line)


def append(path: Path, line: dict[str, Any]) -> None:
    """Appends one line by one write, so that lines of several processes never mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
    finally:
        os.close(descriptor)


def file_name(key: str) -> str:
    """A key as a file's name: ids hold no `~`, so two keys never share one."""
    return key.replace("/", "~")
