"""Finished sessions go out of the views and into files, each once, whatever dies when; nothing brings them back."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest

from wakeful.events import records as r
from wakeful.events.blob_store import FsspecBlobs
from wakeful.events.codec import decode_event
from wakeful.events.errors import BlobUnavailable, Rejected
from wakeful.projections import archive
from wakeful.projections.archive import AnotherRuns, Archive, archived_sessions
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews, stored_gaps, stored_rows
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.rebuild import Rebuild
from wakeful.projections.rows import SESSIONS, TABLES
from wakeful.projections.schemas import Schemas

from .conftest import T0_MS, ListReader, finish

EVER_MS = T0_MS * 2
POINTS = ("a.claimed", "a.written", "a.taken_out", "a.told")

VICTIM = """
import os, signal, sys
from wakeful.events.blob_store import FsspecBlobs
from wakeful.projections import archive
archive.CLAIM_MAX, archive.PART_MAX = 4, 2
url, namespace, store, before_ms, left = sys.argv[1:]
left = int(left)
for point in archive.Archive(url, namespace, FsspecBlobs(store), before_ms=int(before_ms)).steps():
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def decode(record):
    return decode_event(record.value, record.headers)


@pytest.fixture
def told(scribe):
    """Stories of three tenants, of which some are over, and one that has ended in every way."""
    scribe.tell_many(16, random.Random(8))
    versions = (r.Version("workflow", "1"),)
    for n in range(5):
        key = (f"t{n % 2}", f"done-{n}")
        scribe.add(key, r.SessionOpened("desk"))
        scribe.add(key, r.TurnStarted(1, "message", "", "m1", "desk", 1, versions))
        scribe.request(key, "1.1")
        scribe.add(key, r.ActivityCompleted("1.1", 1, scribe.payload({"n": n}), "w1"))
        scribe.add(key, r.SessionFailed(1, r.Failure("raised", "ValueError", "no", ""), 0))
    scribe.commit()
    return scribe


class World:
    """Views that a projector fills, and a folder for what is archived."""

    def __init__(self, installed, told, folder: Path) -> None:
        self.installed, self.told, self.folder = installed, told, folder
        self.views = PostgresViews(*installed)
        self.projector = Projector(ListReader(told), self.views, told.places, decode)
        self.steps = self.projector.steps()
        self.catch_up()
        self.before = stored_rows(*installed)

    @property
    def finished(self):
        return {
            key for key, row in self.before[SESSIONS].items() if row["status"] in archive.FINISHED
        }

    def catch_up(self) -> None:
        ends = self.told.ends
        finish(self.steps, lambda: all(self.projector.positions.get(p, 0) >= ends[p] for p in ends))

    def run(self, *, before_ms: int = EVER_MS, store=None):
        return Archive(
            *self.installed, store or FsspecBlobs(self.folder.as_uri()), before_ms=before_ms
        )

    def archived(self):
        """What the files have, by the manifests alone: rows per table by key."""
        found = {name: {} for name in TABLES}
        for manifest in self.folder.glob("*/manifest.json"):
            told = json.loads(manifest.read_text())
            assert told["tenant"] == manifest.parent.name
            for part in told["parts"]:
                data = (self.folder / part["name"]).read_bytes()
                assert (sha256(data).hexdigest(), len(data)) == (part["sha256"], part["bytes"])
                lines = gzip.decompress(data).decode().splitlines()
                assert len(lines) == part["rows"]
                for line in map(json.loads, lines):
                    key = tuple(line["row"][column] for column in TABLES[line["table"]].key)
                    assert key[0] == told["tenant"]
                    assert key not in found[line["table"]], "a row is in two parts"
                    found[line["table"]][key] = line["row"]
        return found

    def check_all_once(self, finished=None) -> None:
        """Each row is in the files or in the views, as it was, and never in both."""
        finished = self.finished if finished is None else finished
        files, left = self.archived(), stored_rows(*self.installed)
        for name, table in TABLES.items():
            gone = {key: row for key, row in self.before[name].items() if key[:2] in finished}
            assert files[name].keys() == gone.keys(), name
            for key, row in gone.items():
                told = {
                    c: json.loads(v) if v is not None and table.all_columns[c] == "jsonb" else v
                    for c, v in row.items()
                }
                assert files[name][key] == told
            assert left[name] == {
                k: v for k, v in self.before[name].items() if k[:2] not in finished
            }
        assert archived_sessions(*self.installed) == finished


@pytest.fixture
def world(installed, told, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "CLAIM_MAX", 4)
    monkeypatch.setattr(archive, "PART_MAX", 2)
    one = World(installed, told, tmp_path)
    assert len(one.finished) > 6
    yield one
    one.views.close()


def test_what_is_finished_is_in_files_and_the_rest_stays(world):
    run = world.run()
    points = list(run.steps())
    assert set(points) == set(POINTS)
    assert run.told.sessions == len(world.finished)
    world.check_all_once()
    assert list(world.run().steps()) == ["a.told"] * 3  # each manifest anew, and no more
    world.check_all_once()


def test_only_what_ended_before_the_time_is_archived(world):
    rows = world.before[SESSIONS]
    times = sorted(rows[key]["updated_at_ms"] for key in world.finished)
    cut = times[len(times) // 2]
    list(world.run(before_ms=cut).steps())
    world.check_all_once({key for key in world.finished if rows[key]["updated_at_ms"] < cut})


def test_a_run_that_ends_anywhere_is_ended_by_the_next(installed, told, tmp_path, world):
    total = len(list(world.run().steps())) + 2
    world.check_all_once()
    for passes in range(1, total, 4):
        folder = tmp_path / f"after-{passes}"
        folder.mkdir()
        namespace = f"{installed[1]}-{passes}"
        install(installed[0], namespace)
        again = World((installed[0], namespace), told, folder)
        try:
            begun = again.run().steps()
            for _, _ in zip(range(passes), begun, strict=False):
                pass
            begun.close()
            list(again.run().steps())
            again.check_all_once()
        finally:
            again.views.close()
            drop(installed[0], namespace)


@pytest.mark.parametrize("passes", [1, 2, 3, 4, 5, 8])
def test_killed_at_any_point_it_has_lost_and_doubled_nothing(world, passes):
    killed = subprocess.run(
        [
            sys.executable,
            "-c",
            VICTIM,
            *world.installed,
            world.folder.as_uri(),
            str(EVER_MS),
            str(passes),
        ],
        check=False,
        env={**os.environ},
        capture_output=True,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    world.catch_up()
    list(world.run().steps())
    world.check_all_once()


def test_a_tenant_that_has_no_session_left_has_its_manifest_all_the_same(world):
    run = world.run().steps()
    last = max({tenant for tenant, _ in world.finished})
    with closing(psycopg.connect(world.installed[0])) as connection:
        for name in TABLES:
            statement = (
                f"DELETE FROM {{tables}}.{name} WHERE tenant = %s AND NOT session_id = ANY (%s)"
            )
            ids = [one for tenant, one in world.finished if tenant == last]
            connection.execute(Schemas(world.installed[1]).fill(statement), (last, ids))
        connection.commit()
    world.before = stored_rows(*world.installed)
    points = list(run)
    assert points[-1] == "a.told"
    (world.folder / last / "manifest.json").unlink()  # as if it had died before
    assert list(world.run().steps())[-1] == "a.told"
    world.check_all_once()


def test_a_store_that_does_not_answer_leaves_all_rows_where_they_were(world, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BlobUnavailable):
        list(world.run(store=FsspecBlobs((tmp_path / "file").as_uri())).steps())
    assert stored_rows(*world.installed) == world.before
    list(world.run().steps())
    world.check_all_once()


def test_a_projector_that_knew_a_session_does_not_bring_it_back_and_goes_on(world):
    """It has all rows in its memory; what still comes for a session that was archived is passed over, without a gap."""
    list(world.run().steps())
    gone = min(world.finished)
    world.told.add(gone, r.CommandRefused("SendMessage", "ordering", "closed", "open another"))
    alive = min(world.before[SESSIONS].keys() - world.finished)
    world.told.add(alive, r.MessageReceived("late", world.told.payload("hi")))
    world.told.add(("t0", "fresh"), r.SessionOpened("desk"))
    world.told.commit()
    world.catch_up()
    left = stored_rows(*world.installed)
    assert gone not in left[SESSIONS]
    assert not any(key[:2] == gone for rows in left.values() for key in rows)
    assert left[SESSIONS][alive]["seq"] == world.before[SESSIONS][alive]["seq"] + 1
    assert ("t0", "fresh") in left[SESSIONS]
    assert stored_gaps(*world.installed) == []


def test_what_comes_between_the_claim_and_the_end_changes_no_row(world):
    run = world.run().steps()
    assert next(run) == "a.claimed"
    (claimed, *_) = archived_sessions(*world.installed)
    world.told.add(claimed, r.CommandRefused("SendMessage", "ordering", "closed", "open another"))
    world.told.commit()
    world.catch_up()
    assert stored_rows(*world.installed)[SESSIONS][claimed] == world.before[SESSIONS][claimed]
    list(run)
    world.check_all_once()


def rebuilt(world):
    run = Rebuild(
        *world.installed, ListReader(world.told), world.told.places, decode,
        ends=lambda: world.told.ends, rest=lambda _: None,
    )  # fmt: skip
    try:
        list(run.steps())
    finally:
        run.close()
    return run.progress


def test_a_rebuild_leaves_archived_sessions_out_and_finds_no_difference(world):
    list(world.run().steps())
    left = stored_rows(*world.installed)
    assert rebuilt(world).differing == 0
    assert stored_rows(*world.installed) == left
    world.check_all_once()


def test_no_rebuild_begins_while_an_archive_is_half_done_and_a_begun_one_goes_on(world):
    run = world.run().steps()
    next(run)
    with pytest.raises(Rejected, match="runs already"):
        rebuilt(world)
    with pytest.raises(AnotherRuns, match="runs already"):
        list(world.run().steps())
    run.close()
    with pytest.raises(
        Rejected, match="was begun and did not end: run 'wakeful projections archive' again"
    ):
        rebuilt(world)
    list(world.run().steps())
    assert rebuilt(world).differing == 0


def test_a_rebuild_that_was_begun_before_goes_on_without_what_was_archived_since(world):
    begun = Rebuild(
        *world.installed, ListReader(world.told), world.told.places, decode,
        ends=lambda: world.told.ends, rest=lambda _: None,
    )  # fmt: skip
    steps = begun.steps()
    finish(steps, lambda: begun.progress.done > 0)
    steps.close()
    begun.close()
    list(world.run().steps())
    assert rebuilt(world).differing == 0
    world.check_all_once()


def test_archived_sessions_are_told_to_their_tenant_alone(world):
    list(world.run().steps())
    url, namespace = world.installed
    (mine,) = [key for key in world.finished if key == ("t0", "done-0")]
    with Queries(url, namespace, tenant="t0") as queries:
        assert queries.archived("done-0", tenant="t0")["seq"] == world.before[SESSIONS][mine]["seq"]
        assert queries.archived("done-1", tenant="t1") is None
        assert queries.session("done-0", tenant="t0") == []
    with closing(psycopg.connect(url)) as connection:
        connection.execute(Schemas(namespace).fill("SET ROLE {app}"))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(Schemas(namespace).fill("SELECT * FROM {views}.archives"))


def test_an_audit_does_not_miss_what_was_archived(world):
    list(world.run().steps())
    left = stored_rows(*world.installed)
    gone = archived_sessions(*world.installed)
    events = [
        e for e in world.told.events if (e.envelope.tenant, e.envelope.session_id) not in gone
    ]
    assert list(differences(left, rebuild_rows(events))) == []
