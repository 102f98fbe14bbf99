"""The store is a cache: whatever happens to its file, at most one process ends and the log gives everything back."""

import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.processors.loops import Cluster
from wakeful.events import records as r
from wakeful.events.errors import Corrupt
from wakeful.events.log.protocol import Place

STATEMENTS = {
    "state": "UPDATE sessions SET base = x'c301000000'",
    "event": "UPDATE tails SET body = x'ff'",
    "fingerprint": "UPDATE tails SET fingerprint = x'00'",
    "all-events-lost": "DELETE FROM tails",
    "event-lost": "DELETE FROM tails WHERE seq = (SELECT MIN(seq) + 1 FROM tails)",
}


def spoil(folder: Path, statement: str) -> None:
    for file in folder.glob("*.sqlite"):
        database = sqlite3.connect(file)
        assert database.execute(statement).rowcount
        database.commit()
        database.close()


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_a_store_that_holds_nonsense_ends_one_process_and_is_rebuilt(
    statement: str, tmp_path: Path
) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open()
    cluster.run()
    cluster.kill()
    spoil(tmp_path, statement)
    cluster.start()
    cluster.answer()
    with pytest.raises(Corrupt, match="is dropped"):
        cluster.run()
    cluster.kill()
    cluster.start()
    cluster.run()
    assert cluster.facts()[-1] == "SessionWaiting"
    assert cluster.facts().count("ActivityCompleted") == 1


def test_a_file_whose_damage_sqlite_cannot_even_put_into_text_is_remade(tmp_path: Path) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open()
    cluster.run()
    cluster.kill()
    for file in tmp_path.glob("*.sqlite"):
        with sqlite3.connect(file) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREATE \xff\xfe\xfd\xfc\xfb"))
        with pytest.raises(UnicodeDecodeError):
            sqlite3.connect(file).execute("PRAGMA journal_mode=WAL")
    cluster.start()
    cluster.run()
    cluster.answer()
    cluster.run()
    assert cluster.facts()[-1] == "SessionWaiting"


def test_the_files_are_for_their_owner_alone_also_those_that_were_not(tmp_path: Path) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open()
    cluster.run()
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.glob("*.sqlite*")}
    assert any(name.endswith("-wal") for name in modes)
    assert set(modes.values()) == {0o600}
    cluster.kill()
    for file in tmp_path.glob("*.sqlite"):
        file.chmod(0o644)
    cluster.start()
    cluster.run()
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("*.sqlite")} == {0o600}


def test_a_file_of_another_layout_is_remade(tmp_path: Path) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open()
    cluster.run()
    cluster.kill()
    for statement in (
        "UPDATE marks SET value = 1 WHERE name = 'layout'",
        "ALTER TABLE sessions RENAME COLUMN gap TO unused",
    ):
        for file in tmp_path.glob("*.sqlite"):
            database = sqlite3.connect(file)
            database.execute(statement)
            database.commit()
            database.close()
    cluster.start()
    cluster.run()
    cluster.answer()
    cluster.run()
    assert cluster.facts()[-1] == "SessionWaiting"


def test_a_store_that_is_ahead_of_its_log_is_of_another_log(tmp_path: Path) -> None:
    before = Cluster(folder=tmp_path)
    before.start()
    before.open()
    before.run()
    before.kill()
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.run()
    cluster.open()
    cluster.run()
    cluster.answer()
    cluster.run()
    assert cluster.facts()[-1] == "SessionWaiting"


def test_commands_that_retention_took_are_passed_over_and_the_later_ones_decided() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open()
    cluster.run()
    cluster.kill()
    cluster.open("s2")
    cluster.answer()
    place = Place(cluster.topics.commands, 0)
    cluster.log.trim(place, cluster.log.dump(place.topic)[-1].offset)
    with capture_logs() as told:
        cluster.start()
        cluster.run()
    assert [type(e.body) for e in cluster.events("s1")][-2:] == [
        r.ApprovalRequested,
        r.SessionWaiting,
    ]
    assert cluster.events("s2") == []
    assert [line["log_level"] for line in told if "commands were deleted" in line["event"]] == [
        "error"
    ]
