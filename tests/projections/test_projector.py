"""The projector loses nothing and repeats nothing, wherever it is stopped and whatever it is handed."""

import random

import pytest

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.protocol import OffsetGone, Place
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.memory import MemoryDatabase, MemoryViews, Trouble
from wakeful.projections.project import project
from wakeful.projections.projector import (
    BUSY_RECORDS,
    FULL_RECORDS,
    GATHER_MS,
    Projector,
)
from wakeful.projections.rows import OUTCOMES, SESSIONS, TABLES, TIMERS, fold
from wakeful.projections.views import Moved, Superseded

POINTS = ("j.assigned", "j.polled", "j.applied", "j.commit_sent", "j.committed")
S = ("acme", "s1")


def decode(record):
    return decode_event(record.value, record.headers)


@pytest.fixture
def make(list_reader):
    def build(
        scribe,
        database,
        *,
        trouble=lambda call: None,
        deliver=lambda records, polls: records,
        **options,
    ):
        reader = list_reader(scribe, deliver)
        return Projector(reader, MemoryViews(database, trouble), scribe.places, decode, **options)

    return build


def assert_rebuilt(database, scribe):
    assert list(differences(database.rows, rebuild_rows(scribe.events))) == []
    assert database.next_offsets() == scribe.ends


def test_rows_equal_a_rebuild_for_every_batch_size_and_cache_size(new_scribe, make, catch_up):
    scribe = new_scribe()
    scribe.tell_many(12, random.Random(1))
    for records_max in (1, 7, 500):
        for rows_max in (0, 3, 1_000):
            database = MemoryDatabase()
            projector = make(scribe, database, records_max=records_max, rows_max=rows_max)
            catch_up(projector)
            assert_rebuilt(database, scribe)
            assert (projector.applied, projector.faults) == (len(scribe.records), 0)


def test_only_between_a_session_and_a_backlog_are_more_events_waited_for(new_scribe, make):
    scribe = new_scribe()
    while len(scribe.records) < 2 * FULL_RECORDS + 100:
        scribe.tell_many(50, random.Random(len(scribe.records)))
    wanted = [FULL_RECORDS, BUSY_RECORDS - 1, BUSY_RECORDS, FULL_RECORDS - 1, 1, 1]
    sizes, paused = iter(wanted), []
    projector = make(scribe, MemoryDatabase(), pause=lambda ms: paused.append((batches, ms)))
    batches = 0
    for name in projector.steps():
        if name in ("j.assigned", "j.committed"):
            batches += name == "j.committed"
            projector._records_max = next(sizes, None) or 1
            if batches == len(wanted):
                break
    assert paused == [(3, GATHER_MS), (4, GATHER_MS)]


@pytest.mark.parametrize("point", POINTS)
def test_a_projector_killed_at_any_point_is_resumed_by_the_next(new_scribe, make, catch_up, point):
    scribe = new_scribe()
    scribe.tell_many(6, random.Random(2))
    database = MemoryDatabase()
    for passes in range(1, 12):
        victim, seen = make(scribe, database, records_max=9), 0
        for name in victim.steps():
            seen += name == point
            if seen == passes or victim.caught_up:
                break
    last = make(scribe, database, records_max=9)
    catch_up(last)
    assert_rebuilt(database, scribe)


def never_read_back(monkeypatch):
    """Takes every command for a new one."""
    load = Projector._load_others

    def blind(self, fresh):
        load(self, [[c for c in changes if c.table != OUTCOMES] for changes in fresh])

    monkeypatch.setattr(Projector, "_load_others", blind)


def last_instead_of_highest(monkeypatch):
    """A command that was kept, and is decided late, moves its session's position back."""

    def fold_last(row, change):
        fold(row, change)
        if change.heard > -1:
            row["command_offset"] = change.heard

    def fold_all(rows, changes, touched):
        for change in changes:
            row = rows[change.table].get(change.key) or TABLES[change.table].blank(change.key)
            rows[change.table][change.key] = row
            fold_last(row, change)
            touched[change.table][change.key] = row

    monkeypatch.setattr("wakeful.projections.projector.fold_all", fold_all)


def timers_never_end(monkeypatch):
    """What fires or is cancelled is still shown as set."""

    def deaf(event):
        return [c for c in project(event) if c.table != TIMERS or c.creates]

    monkeypatch.setattr("wakeful.projections.projector.project", deaf)


@pytest.mark.parametrize(
    "mistake",
    [never_read_back, last_instead_of_highest, timers_never_end],
    ids=lambda m: m.__name__,
)
def test_a_planted_mistake_shows_as_a_difference(new_scribe, make, catch_up, monkeypatch, mistake):
    scribe = new_scribe()
    scribe.tell_many(12, random.Random(1))
    mistake(monkeypatch)
    database = MemoryDatabase()
    catch_up(make(scribe, database, records_max=3, rows_max=0))
    assert list(differences(database.rows, rebuild_rows(scribe.events))) != []


def test_the_newest_time_of_a_record_is_kept_whatever_the_batches(new_scribe, make, catch_up):
    scribe = new_scribe()
    scribe.tell_many(4, random.Random(5))
    newest = {}
    for record in scribe.records:
        newest[Place(record.topic, record.partition)] = record.timestamp_ms
    for records_max in (1, 5, 100):
        database = MemoryDatabase()
        catch_up(make(scribe, database, records_max=records_max))
        assert database.times == newest


@pytest.mark.case("U24")
@pytest.mark.parametrize("seed", range(25))
def test_duplicated_and_reordered_batches_give_the_rows_of_a_rebuild(new_scribe, make, walk, seed):
    """A batch may come twice, in disorder, or after the next one; in order again after it was asked for again."""
    rng = random.Random(seed)
    scribe = new_scribe()
    scribe.tell_many(8, rng)
    database, held = MemoryDatabase(), []

    def deliver(records, polls_since_assign):
        if polls_since_assign < 3:
            held.clear()
            return records
        if rng.random() < 0.2 and not held:
            held.append(records)
            return []
        out = [*records, *(held.pop() if held else [])]
        if rng.random() < 0.2:
            rng.shuffle(out)
        return out + out if rng.random() < 0.3 else out

    for _ in range(4):
        records_max, rows_max = rng.randint(1, 20), rng.choice((0, 50))
        projector = make(
            scribe, database, deliver=deliver, records_max=records_max, rows_max=rows_max
        )
        steps_max = rng.randint(5, 60)
        for count, _name in enumerate(projector.steps()):
            if count >= steps_max and not held:
                break
    final = make(scribe, database, deliver=deliver, records_max=10)
    walk(final.steps(), lambda: final.caught_up and not held)
    assert not database.gaps
    assert_rebuilt(database, scribe)


@pytest.mark.parametrize(
    "call", ["claim", "recall", "rows", "apply", "send_commit", "await_commit"]
)
@pytest.mark.parametrize("trouble", [Trouble.LOST, Trouble.ANSWER_LOST])
def test_a_lost_connection_or_answer_is_read_back_and_never_guessed(
    new_scribe, make, catch_up, call, trouble
):
    scribe = new_scribe()
    scribe.tell_many(6, random.Random(4))
    database, rng = MemoryDatabase(), random.Random(5)

    def sometimes(name):
        if name == call and rng.random() < 0.4:
            return trouble
        if name == "apply" and call == "recall" and rng.random() < 0.3:
            return Trouble.LOST
        return None

    projector = make(scribe, database, trouble=sometimes, records_max=5)
    names = catch_up(projector)
    assert_rebuilt(database, scribe)
    assert "j.committed" in names


def test_a_projector_that_was_taken_over_ends_and_changes_nothing(new_scribe, make, walk, catch_up):
    scribe = new_scribe()
    scribe.tell_many(6, random.Random(6))
    database = MemoryDatabase()
    zombie = make(scribe, database, records_max=5)
    steps = zombie.steps()
    walk(steps, lambda: zombie.applied >= 10)
    owner = make(scribe, database)
    catch_up(owner)
    with pytest.raises(Superseded, match="epoch 2, this projector at 1"):
        walk(steps, lambda: False)
    assert_rebuilt(database, scribe)


def test_a_zombie_whose_commit_was_under_way_at_the_take_over_is_turned_away(
    new_scribe, make, walk, catch_up
):
    scribe = new_scribe()
    scribe.tell_many(6, random.Random(6))
    database = MemoryDatabase()
    zombie = make(scribe, database, records_max=5)
    steps = zombie.steps()
    for name in steps:
        if name == "j.applied" and zombie.applied:
            break
    owner = make(scribe, database)
    catch_up(owner)
    with pytest.raises(Superseded):
        walk(steps, lambda: False)
    assert_rebuilt(database, scribe)


def test_memory_views_refuse_to_move_a_position_they_do_not_hold():
    database = MemoryDatabase()
    place = Place("t", 0)
    views = MemoryViews(database)
    assert views.claim([place]) == {place: 0}
    from wakeful.projections.views import Batch

    with pytest.raises(Moved):
        views.apply(Batch({place: (3, 4)}))
    views.apply(Batch({place: (0, 4)}))
    views.send_commit()
    views.await_commit()
    assert database.positions == {place: (4, 1)}


def test_a_record_that_does_not_decode_becomes_a_gap_and_the_others_go_on(scribe, make, catch_up):
    scribe.add(S, r.SessionOpened("desk"), partition=0)
    bad = scribe.append(0, b"acme/s1", b"\0garbage")
    scribe.add(S, r.MessageReceived("m", scribe.payload(1)), partition=0)
    database = MemoryDatabase()
    projector = make(scribe, database)
    catch_up(projector)
    assert [(gap.offset, gap.partition) for gap in database.gaps.values()] == [(bad.offset, 0)]
    assert database.rows[SESSIONS][S]["messages"] == 1


def test_an_event_missing_from_the_log_itself_is_a_gap_after_one_second_look(
    scribe, make, catch_up
):
    scribe.add(S, r.SessionOpened("desk"), partition=0)
    scribe.add(S, r.MessageReceived("m", scribe.payload(1)), seq=5, partition=0)
    database = MemoryDatabase()
    projector = make(scribe, database)
    names = catch_up(projector)
    assert names.count("j.faulted") == 1
    (gap,) = database.gaps.values()
    assert (gap.reason, gap.detail) == ("events_missing", "acme/s1: no events 2 to 4")
    assert database.rows[SESSIONS][S]["seq"] == 5


def test_a_row_that_the_database_never_takes_is_isolated_as_a_gap(new_scribe, make, catch_up):
    scribe = new_scribe(partitions=1)
    for number in range(5):
        scribe.add(("acme", f"s{number}"), r.SessionOpened("desk"))
    database = MemoryDatabase()
    projector = make(scribe, database)
    views = projector._views
    store = views.apply

    def picky(batch):
        if any(row["session_id"] == "s2" for row in batch.rows.get(SESSIONS, ())):
            views._trouble = lambda call: Trouble.REFUSED
        try:
            store(batch)
        finally:
            views._trouble = lambda call: None

    views.apply = picky
    catch_up(projector)
    assert [(gap.offset, gap.reason) for gap in database.gaps.values()] == [(2, "refused")]
    assert {key[1] for key in database.rows[SESSIONS]} == {"s0", "s1", "s3", "s4"}
    assert not projector._one_by_one


@pytest.mark.case("L8")
def test_a_quiet_log_has_its_end_stored_markers_and_all(scribe, make, walk, catch_up):
    scribe.add(S, r.SessionOpened("desk"))
    scribe.commit()
    database = MemoryDatabase()
    projector = make(scribe, database)
    catch_up(projector)
    assert database.next_offsets() == scribe.ends
    scribe.add(S, r.MessageReceived("m", scribe.payload(1)))
    walk(projector.steps(), lambda: projector.applied == 2)
    assert database.next_offsets() != {}


def test_records_gone_from_the_log_stop_the_projector_loudly(scribe, make):
    projector = make(scribe, MemoryDatabase())

    def gone(records_max, timeout_ms):
        raise OffsetGone("position 0 is below the start 7")

    projector._reader.poll = gone
    with pytest.raises(OffsetGone, match="below the start"):
        list(projector.steps())


def test_bounds_are_checked_at_construction(scribe, make):
    with pytest.raises(ValueError, match="records_max 0"):
        make(scribe, MemoryDatabase(), records_max=0)
