"""The store of large payloads, through fsspec: a folder, S3, or whatever else it can open. The one place that knows it.

`fsspec` is imported at the first blob, and not before: most processes never meet one.

Nothing is ever seen half-written: where a file grows as it is written, it does so under another name and is renamed;
an object store shows an object once it is whole.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

from .blobs import SETTING, check_ref, missing, other_bytes
from .errors import BlobDamaged, BlobUnavailable, WakefulError
from .limits import BLOB_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "memory"})
"""Protocols whose objects appear whole; there, a rename would be a copy."""

LOCAL = frozenset({"file", "local"})


class FsspecBlobs:
    """Blobs below a URL such as `file:///var/lib/wakeful/blobs` or `s3://bucket/blobs`; see the protocol `Blobs`.

    Nothing is opened before the first call. Keys and endpoints come from the environment, as fsspec's drivers read it.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def prove(self) -> None:
        """Loads the driver; `BlobUnavailable` says which package is missing, or what is wrong with the URL."""
        with _told(self.url):
            _ = self._opened

    def put(self, ref: str, data: bytes) -> None:
        """See `Blobs`. On return a folder has it on the disk itself."""
        check_ref(ref)
        with _told(ref):
            path = self._path(ref)
            found = self._size(path)
            if found is None:
                self._write(path, data)
            elif found != len(data):
                raise other_bytes(ref, size=len(data), found=found)

    def write(self, name: str, data: bytes) -> None:
        """Keeps the bytes under a name of the caller's own, whole or not at all, in place of what was there."""
        with _told(name):
            self._write(self._path(name), data)

    def get(self, ref: str) -> bytes:
        """See `Blobs`."""
        check_ref(ref)
        with _told(ref):
            path = self._path(ref)
            size = self._size(path)
            if size is None:
                raise missing(ref)
            if size > BLOB_MAX:
                raise BlobDamaged(
                    f"blob {ref} has {size} bytes, the limit is {BLOB_MAX}: restore it"
                )
            data: bytes = self._opened[0].cat_file(path)
            return data

    def doubt(self, ref: str) -> None:
        """See `Blobs`. Each get reads anew."""

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        import fsspec.core

        fs, root = fsspec.core.url_to_fs(self.url)
        return fs, str(root).rstrip("/")

    @property
    def _protocols(self) -> set[str]:
        named = self._opened[0].protocol
        return {named} if isinstance(named, str) else set(named)

    def _path(self, ref: str) -> str:
        return f"{self._opened[1]}/{ref}"

    def _size(self, path: str) -> int | None:
        try:
            return int(self._opened[0].info(path)["size"])
        except FileNotFoundError:
            return None

    def _write(self, path: str, data: bytes) -> None:
        fs = self._opened[0]
        if self._protocols & WHOLE:
            fs.pipe_file(path, data)
            return
        folder, _, name = path.rpartition("/")
        fs.makedirs(folder, exist_ok=True)
        beside = f"{folder}/.{name}.{secrets.token_hex(8)}"
        try:
            with fs.open(beside, "wb") as file:
                file.write(data)
                if self._protocols & LOCAL:
                    _sync(file)
            fs.mv(beside, path)
        except BaseException:
            _remove(fs, beside)
            raise
        if self._protocols & LOCAL:
            _sync_folder(folder)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Drivers raise what they like: here it gets its name."""
    try:
        yield
    except WakefulError:
        raise
    except ImportError as error:
        told = f"the driver of {SETTING} is not installed ({error}): install it"
        raise BlobUnavailable(told) from error
    except Exception as error:
        kind = type(error).__name__
        told = f"no answer of the store about {what} ({kind}: {error})"
        raise BlobUnavailable(f"{told}: check that {SETTING} can be reached") from error


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: str) -> None:
    """So that the new name outlives a power cut, too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove(fs: Any, path: str) -> None:
    # Drivers raise what they like. It was never written, or stays behind under a name that nobody asks for.
    with suppress(Exception):
        fs.rm_file(path)
