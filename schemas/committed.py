"""What git remembers of the schemas: the locks and files of every commit that touched them."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

GIT_SECONDS_MAX = 60


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: its lock's text, and the texts of its schema files by name relative to the folder."""

    id: str
    lock: str
    files: dict[str, str]


def commits(folder: Path) -> Iterator[Commit] | None:
    """The commits that changed the folder, newest first; null where git does not know the folder."""
    if shutil.which("git") is None or _git(folder, "ls-files", "--", "ids.lock") in {None, ""}:
        return None
    return _commits(folder)


def last_text(folder: Path, file: str) -> str | None:
    """A file as it stands in the last commit."""
    return _git(folder, "show", f"HEAD:./{file}")


def _commits(folder: Path) -> Iterator[Commit]:
    texts: dict[str, str] = {}
    for id_ in (_git(folder, "log", "--format=%H", "--", ".") or "").split():
        blobs = {}
        for line in (_git(folder, "ls-tree", "-r", id_, "--", ".") or "").splitlines():
            about, name = line.split("\t", 1)
            if name.endswith((".avsc", "ids.lock")):
                blobs[name] = about.split()[2]
        texts.update(_texts(folder, sorted(set(blobs.values()) - set(texts))))
        files = {name: texts.get(blob, "") for name, blob in blobs.items()}
        lock = files.pop("ids.lock", None)
        if lock is not None:
            yield Commit(id_[:12], lock, files)


def _texts(folder: Path, blobs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The text of each of these blobs, from one process of git."""
    if not blobs:
        return
    done = subprocess.run(
        ["git", "cat-file", "--batch"],  # noqa: S607 - whichever git the developer has
        cwd=folder,
        input="".join(f"{blob}\n" for blob in blobs).encode(),
        capture_output=True,
        timeout=GIT_SECONDS_MAX,
        check=True,
    )
    told = io.BytesIO(done.stdout)
    for blob in blobs:
        _, _, size = told.readline().split()
        yield blob, told.read(int(size)).decode("utf-8")
        told.readline()


def _git(folder: Path, *arguments: str) -> str | None:
    done = subprocess.run(  # noqa: S603 - fixed words and ids that git gave us
        ["git", *arguments],  # noqa: S607 - whichever git the developer has
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=GIT_SECONDS_MAX,
        check=False,
    )
    return done.stdout if done.returncode == 0 else None
