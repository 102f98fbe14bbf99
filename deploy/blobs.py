"""The store of large payloads that the settings name."""

from __future__ import annotations

from ..events.blob_patience import LIMIT_MS, PatientBlobs, open_blobs
from ..events.blob_store import FsspecBlobs
from ..events.errors import BlobUnavailable
from .exits import Exit, Stopped
from .settings import Settings

FOLDER = "file://"


def blobs_of(given: Settings, *, limit_ms: int = LIMIT_MS) -> PatientBlobs | None:
    """The store, not opened yet; none where the settings name none."""
    return None if given.blobs is None else open_blobs(given.blobs, limit_ms=limit_ms)


def prove_blobs(given: Settings) -> None:
    """`Stopped` where the store's driver is not installed: better now than at the first large payload.

    A folder needs none, so a process that never meets one does not load what it takes.
    """
    if given.blobs is None or given.blobs.startswith(FOLDER):
        return
    try:
        FsspecBlobs(given.blobs).prove()
    except BlobUnavailable as fault:
        raise Stopped(
            Exit.USAGE, f"WAKEFUL_BLOBS cannot be opened: {fault.message}, or name another store"
        ) from fault
