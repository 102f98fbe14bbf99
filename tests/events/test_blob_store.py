"""One suite for every store: whole or not at all, by content, never out of its folder, silent faults with a name."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wakeful.events.blob_patience import open_blobs
from wakeful.events.blob_store import FsspecBlobs
from wakeful.events.blobs import Blobs, MemoryBlobs, put_payload
from wakeful.events.errors import BlobDamaged, BlobMissing, BlobUnavailable, InvalidPayload

REF = "acme/" + "ab" * 32
KEY = b"k" * 16


@pytest.fixture(params=["dict", "folder", "objects", "patient"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    makers: dict[str, Callable[[], Blobs]] = {
        "dict": MemoryBlobs,
        "folder": lambda: FsspecBlobs((tmp_path / "a b" / "blobs").as_uri().replace("%20", " ")),
        "objects": lambda: FsspecBlobs(f"memory://{tmp_path.name}"),
        "patient": lambda: open_blobs((tmp_path / "blobs").as_uri()),
    }
    return makers[request.param]()


def test_what_was_put_is_got_and_a_repeat_changes_nothing(blobs: Blobs) -> None:
    data = bytes(range(256)) * 4_096
    blobs.put(REF, data)
    blobs.put(REF, data)
    assert blobs.get(REF) == data


def test_what_was_never_put_is_missing(blobs: Blobs) -> None:
    with pytest.raises(BlobMissing, match=f"blob {REF} is not in the store"):
        blobs.get(REF)
    blobs.put(REF, b"x")
    with pytest.raises(BlobMissing):
        blobs.get(REF.replace("ab", "cd"))


def test_other_bytes_do_not_replace_what_is_there(blobs: Blobs) -> None:
    blobs.put(REF, b"first")
    with pytest.raises(BlobDamaged, match="other bytes"):
        blobs.put(REF, b"another")
    assert blobs.get(REF) == b"first"


@pytest.mark.parametrize("ref", ["../../x", "/etc/hostname", "acme/x", "acme/../" + "ab" * 32])
def test_no_reference_leads_out_of_the_store(blobs: Blobs, ref: str) -> None:
    for call in (lambda: blobs.get(ref), lambda: blobs.put(ref, b"x")):
        with pytest.raises(InvalidPayload):
            call()


def test_two_writers_of_one_blob_do_no_harm(blobs: Blobs) -> None:
    data = b"x" * 1_000_000
    barrier, errors = threading.Barrier(4), []

    def write() -> None:
        barrier.wait()
        try:
            blobs.put(REF, data)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert blobs.get(REF) == data


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_folder_holds_one_file_per_blob_and_nothing_else(tmp_path: Path) -> None:
    blobs = FsspecBlobs(tmp_path.as_uri())
    blobs.put(REF, b"x")
    blobs.put(REF, b"x")
    assert files(tmp_path) == [REF]


def test_a_write_that_is_cut_leaves_nothing_under_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = FsspecBlobs(tmp_path.as_uri())

    def cut(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", cut)
        with pytest.raises(BlobUnavailable, match=rf"about {REF} \(OSError: no space left"):
            blobs.put(REF, b"x" * 1_000)
    assert files(tmp_path) == []
    blobs.put(REF, b"x" * 1_000)
    assert blobs.get(REF) == b"x" * 1_000


def test_a_folder_that_cannot_be_used_is_unavailable_and_not_missing(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file")
    with pytest.raises(BlobUnavailable, match="NotADirectoryError"):
        FsspecBlobs((tmp_path / "blobs").as_uri()).get(REF)


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.events.blob_store.BLOB_MAX", 5)
    blobs = FsspecBlobs(tmp_path.as_uri())
    blobs.put(REF, b"x" * 6)
    with pytest.raises(BlobDamaged, match="has 6 bytes, the limit is 5"):
        blobs.get(REF)


@pytest.mark.parametrize(("url", "told"), [("nosuch://x", "nosuch"), ("s3://bucket", "s3fs")])
def test_a_driver_that_is_missing_is_named(url: str, told: str) -> None:
    with pytest.raises(BlobUnavailable, match=told):
        FsspecBlobs(url).prove()
    with pytest.raises(BlobUnavailable, match=told):
        FsspecBlobs(url).get(REF)


def test_nobody_loads_fsspec_who_meets_no_blob(tmp_path: Path) -> None:
    script = f"""
import sys
import wakeful, wakeful.commands.client, wakeful.deploy.processes, wakeful.processors.activities.worker
from wakeful.events.blob_patience import open_blobs
from wakeful.events.blobs import put_payload
store = open_blobs({tmp_path.as_uri()!r})
put_payload("small", "acme", b"k", store)
assert "fsspec" not in sys.modules
put_payload("x" * 300_000, "acme", b"k", store)
assert "fsspec" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    payload = put_payload("x" * 300_000, "acme", KEY, open_blobs(url))
    assert open_blobs(url).get(payload.ref) == b'"' + b"x" * 300_000 + b'"'
