"""What git remembers of the schemas: the locks and files of every commit that touched them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
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
        files = {}
        for line in (_git(folder, "ls-tree", "-r", id_, "--", ".") or "").splitlines():
            about, name = line.split("\t", 1)
            blob = about.split()[2]
            if not name.endswith((".avsc", "ids.lock")):
                continue
            if blob not in texts:
                texts[blob] = _git(folder, "cat-file", "blob", blob) or ""
            files[name] = texts[blob]
        lock = files.pop("ids.lock", None)
        if lock is not None:
            yield Commit(id_[:12], lock, files)


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
