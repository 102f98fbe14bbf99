"""A rebuild takes the place of the live views only when it is equal, or was told to; at any moment it may be killed."""

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.errors import Rejected
from wakeful.projections import rebuild as module
from wakeful.projections import rebuild_tables
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.database import is_shown
from wakeful.projections.postgres import PostgresViews, stored_rows
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.rebuild import AnotherRebuild, Differs, Rebuild, discard_rebuilt
from wakeful.projections.rows import SESSIONS
from wakeful.projections.schemas import Schemas

S = ("acme", "s1")
POINTS = (
    *("r.prepared", "j.applied", "j.commit_sent", "j.committed", "r.comparing", "r.compared"),
    *("r.compared_again", "r.switching", "r.switched"),
)

VICTIM = """
import importlib.util, os, random, signal, sys
conftest, url, namespace, seed, point, passes = sys.argv[1:]
spec = importlib.util.spec_from_file_location("histories", conftest)
histories = importlib.util.module_from_spec(spec)
sys.modules["histories"] = histories
spec.loader.exec_module(histories)
from wakeful.events.codec import decode_event
from wakeful.projections.rebuild import Rebuild
scribe = histories.Scribe()
scribe.tell_many(8, random.Random(int(seed)))
run = Rebuild(url, namespace, histories.ListReader(scribe), scribe.places,
    lambda x: decode_event(x.value, x.headers), ends=lambda: scribe.ends, rest=lambda _: None)
left = int(passes)
for name in run.steps():
    left -= name == point
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def decode(record):
    return decode_event(record.value, record.headers)


@pytest.fixture
def told(scribe):
    """Some stories, so that every table has rows."""
    scribe.tell_many(8, random.Random(11))
    return scribe


@pytest.fixture
def live(installed, told, list_reader):
    """The projector that fills the live rows, as `steps` to be walked."""
    views = PostgresViews(*installed)
    yield Projector(list_reader(told), views, told.places, decode, records_max=40)
    views.close()


@pytest.fixture
def rebuild(installed, told, list_reader):
    """Makes runs; each is closed at the end."""
    made = []

    def make(**options):
        options = {"ends": lambda: told.ends, "rest": lambda _: None, **options}
        made.append(Rebuild(*installed, list_reader(told), told.places, decode, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def caught_up(live, walk):
    steps = live.steps()
    walk(steps, lambda: live.caught_up)
    return steps


def spoil(installed, statement):
    url, namespace = installed
    with psycopg.connect(url) as connection:
        connection.execute(Schemas(namespace).fill(statement))


def schemas_of(installed):
    url, namespace = installed
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (namespace,)
        ).fetchall()
    return {name.removeprefix(namespace) for (name,) in found}


def assert_in_place(installed, scribe):
    assert list(differences(stored_rows(*installed), rebuild_rows(scribe.events))) == []
    assert schemas_of(installed) == {"", "_lock", "_v9"}
    assert is_shown(*installed)
    with Queries(*installed) as queries:
        assert queries.positions() == scribe.ends
        assert len(queries.sessions()) == len(rebuild_rows(scribe.events)[SESSIONS])


def test_an_equal_rebuild_takes_the_place_and_the_projector_goes_on_in_it(
    installed, told, live, rebuild, walk
):
    steps = caught_up(live, walk)
    names = list(rebuild().steps())
    assert names[-1] == "r.switched"
    assert_in_place(installed, told)
    told.add(("new", "session"), r.SessionOpened("desk"))
    told.commit()
    walk(steps, lambda: live.positions == told.ends)
    assert_in_place(installed, told)


@pytest.mark.parametrize("seed", range(4))
def test_while_traffic_runs_nothing_is_lost_and_the_projector_is_never_turned_away(
    installed, told, live, rebuild, walk, monkeypatch, seed
):
    monkeypatch.setattr(module, "NEAR", 3)
    rng, steps, number = random.Random(seed), live.steps(), 0
    walk(steps, lambda: sum(live.positions.values()) > 40)
    run = rebuild()
    for _ in run.steps():
        if run.progress.doing == "switches":
            continue  # the live projector would wait for the lock, in this thread
        for _ in range(rng.randrange(6)):
            next(steps)
        if number < 40 and rng.random() < 0.3:
            number += 1
            told.add((f"t{number % 3}", f"s{number % 8}"), r.CancellationRequested(f"r{number}"))
            told.commit()
    walk(steps, lambda: live.positions == told.ends)
    assert run.progress.differing == 0
    assert_in_place(installed, told)


@pytest.mark.parametrize(
    "mistake",
    [
        "UPDATE {live}.sessions SET turn = 77 WHERE session_id = 's1'",
        "DELETE FROM {live}.ledger WHERE activity_id = '1.1' AND session_id = 's2'",
        "UPDATE {live}.outcomes SET events = events + 1 WHERE session_id = 's3'",
        "UPDATE {live}.timers SET status = 'set'",
        "INSERT INTO {live}.gaps VALUES ('t', 0, 1, 'refused', 'by mistake')",
    ],
)
def test_a_planted_difference_is_named_and_nothing_is_switched_unless_it_is_accepted(
    installed, told, live, rebuild, walk, mistake
):
    caught_up(live, walk)
    spoil(installed, mistake)
    before = stored_rows(*installed)
    run = rebuild()
    with pytest.raises(Differs, match="--accept-differences"):
        list(run.steps())
    run.close()
    assert run.progress.differing >= 1
    assert mistake.split(".")[1].split()[0] in {d.table for d in run.progress.shown}
    assert stored_rows(*installed) == before
    list(rebuild(accept_differences=True).steps())
    assert_in_place(installed, told)


def test_what_the_projector_has_in_memory_of_the_old_rows_does_not_come_back(
    installed, told, live, rebuild, walk
):
    session = ("t0", "s0")
    steps = caught_up(live, walk)
    live._rows[SESSIONS][session]["messages"] += 50
    spoil(installed, "UPDATE {live}.sessions SET messages = messages + 50 WHERE session_id = 's0'")
    list(rebuild(accept_differences=True).steps())
    told.add(session, r.MessageReceived("m9", told.payload("one more")))
    told.commit()
    walk(steps, lambda: live.positions == told.ends)
    assert_in_place(installed, told)


def test_a_row_that_goes_wrong_behind_the_first_comparison_is_found_by_the_second(
    installed, told, live, rebuild, walk
):
    steps = caught_up(live, walk)
    run = rebuild()
    of_run = run.steps()
    assert "r.compared" in of_run  # walks until it is there
    told.add(("t0", "s0"), r.CancellationRequested("enough"))
    told.commit()
    walk(steps, lambda: live.positions == told.ends)
    spoil(installed, "UPDATE {live}.sessions SET turn = 9 WHERE session_id = 's0'")
    with pytest.raises(Differs):
        list(of_run)
    assert [(d.table, d.key) for d in run.progress.shown] == [(SESSIONS, ("t0", "s0"))]


@pytest.mark.parametrize("point", POINTS)
def test_stopped_at_any_point_and_run_again_it_comes_to_the_same(
    installed, told, live, rebuild, walk, point
):
    caught_up(live, walk)
    first = rebuild()
    steps = first.steps()
    assert point in steps  # walks until it is there
    steps.close()
    first.close()
    list(rebuild().steps())
    assert_in_place(installed, told)


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["j.applied", "j.commit_sent", "r.comparing", "r.switching"])
def test_kill_9_in_a_rebuild_leaves_the_live_rows_and_the_next_run_ends_it(
    installed, told, live, rebuild, walk, tmp_path, point
):
    caught_up(live, walk)
    script = tmp_path / "victim.py"
    script.write_text(VICTIM)
    conftest = str(Path(__file__).with_name("conftest.py"))
    arguments = [conftest, *installed, "11", point, "1"]
    victim = subprocess.run(
        [sys.executable, str(script), *arguments], check=False, timeout=60, env=os.environ
    )
    assert victim.returncode == -signal.SIGKILL
    assert list(differences(stored_rows(*installed), rebuild_rows(told.events))) == []
    end_backends(installed)
    list(rebuild().steps())
    assert_in_place(installed, told)


def end_backends(installed):
    """What Postgres finds out by itself a little later: the other side is gone."""
    with psycopg.connect(installed[0], autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND "
            "pid IN (SELECT pid FROM pg_locks WHERE relation = %s::regclass)",
            (Schemas(installed[1]).fill("{lock}.rebuilds").as_string(),),
        )


def test_a_second_rebuild_is_told_that_one_runs(told, live, rebuild, walk):
    caught_up(live, walk)
    steps = rebuild().steps()
    assert next(steps) == "r.prepared"
    with pytest.raises(AnotherRebuild, match="runs already"):
        list(rebuild().steps())
    steps.close()


def test_a_run_whose_end_the_database_has_not_noticed_yet_is_waited_for(
    installed, told, live, rebuild, walk
):
    caught_up(live, walk)
    earlier = rebuild().steps()
    assert next(earlier) == "r.prepared"
    with psycopg.connect(installed[0], autocommit=True) as looking, ThreadPoolExecutor(1) as pool:
        later = pool.submit(list, rebuild().steps())
        while not looking.execute(
            "SELECT 1 FROM pg_locks WHERE relation = %s::regclass AND NOT granted",
            (Schemas(installed[1]).fill("{lock}.rebuilds").as_string(),),
        ).fetchone():
            assert not later.done(), later.exception()
        earlier.close()
        assert later.result()[-1] == "r.switched"


def test_rows_that_other_code_began_are_not_gone_on_with(
    installed, told, live, rebuild, walk, monkeypatch
):
    caught_up(live, walk)
    with monkeypatch.context() as patched:
        patched.setattr(rebuild_tables, "fingerprint", lambda: "other")
        first = rebuild()
        walk(first.steps(), lambda: first.progress.done > 0)
        first.close()
    spoil(installed, "UPDATE {beside}.sessions SET turn = 99")
    list(rebuild().steps())
    assert_in_place(installed, told)


def test_a_run_that_was_stopped_goes_on_from_where_it_was(installed, told, live, rebuild, walk):
    caught_up(live, walk)
    first = rebuild()
    walk(first.steps(), lambda: first._projector.positions == told.ends)
    first.close()
    second = rebuild()
    names = list(second.steps())
    assert "j.applied" not in names[: names.index("r.compared")]
    assert second._projector.applied == 0


def test_without_live_rows_the_end_of_the_log_is_the_aim(installed, told, rebuild):
    spoil(installed, "DROP SCHEMA {live} CASCADE")
    list(rebuild().steps())
    assert_in_place(installed, told)


def test_a_reader_in_the_way_makes_it_step_back_and_a_pause_lets_it_through(
    installed, told, live, rebuild, walk
):
    caught_up(live, walk)
    url, namespace = installed
    with psycopg.connect(url) as reader:
        reader.execute(Schemas(namespace).fill("SELECT count(*) FROM {views}.sessions"))
        run = rebuild(rest=lambda _: reader.rollback())
        names = list(run.steps())
    assert names.count("r.stepped_back") == 1
    assert_in_place(installed, told)


def test_what_was_built_on_the_tables_is_not_dropped_without_a_word(
    installed, told, live, rebuild, walk
):
    caught_up(live, walk)
    spoil(installed, "CREATE VIEW {views}.mine AS SELECT tenant FROM {live}.sessions")
    with pytest.raises(Rejected, match="mine"):
        list(rebuild().steps())
    spoil(installed, "DROP VIEW {views}.mine")
    list(rebuild().steps())
    assert_in_place(installed, told)


def test_what_was_built_on_the_views_or_granted_for_them_stays(
    installed, told, live, rebuild, walk
):
    caught_up(live, walk)
    spoil(installed, "CREATE VIEW {views}.mine AS SELECT session_id FROM {views}.sessions")
    list(rebuild().steps())
    url, namespace = installed
    with psycopg.connect(url) as connection:
        (count,) = connection.execute(
            Schemas(namespace).fill("SELECT count(*) FROM {views}.mine")
        ).fetchone()
    assert count == len(rebuild_rows(told.events)[SESSIONS])


def test_what_a_run_left_can_be_discarded(installed, told, live, rebuild, walk):
    caught_up(live, walk)
    first = rebuild()
    walk(first.steps(), lambda: first.progress.done > 0)
    first.close()
    assert "_v9b" in schemas_of(installed)
    assert discard_rebuilt(*installed)
    assert not discard_rebuilt(*installed)
    assert_in_place(installed, told)
