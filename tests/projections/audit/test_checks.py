"""Each check finds what was planted for it and names it; a clean history gives nothing."""

from dataclasses import replace
from hashlib import sha256

from wakeful.commands import models as m
from wakeful.commands.wire import decode_command
from wakeful.events import records as r
from wakeful.events.codec import STATES, encode_snapshot
from wakeful.events.headers import BATCH, BATCH_COUNT, record_headers
from wakeful.events.log.protocol import Place
from wakeful.events.state import STATE_VERSION, SessionState
from wakeful.projections.audit import CHECKS, asked_by, audit
from wakeful.projections.rows import LEDGER, SESSIONS, TIMERS

from .tampering import on, without

S = ("acme", "s1")
DIGEST = b"\1" * 32


def test_a_clean_history_breaks_no_promise(begin):
    assert audit(begin().story().evidence(), asked_by(decode_command)) == []


def test_a_violation_names_invariant_session_and_offset(begin):
    chronicle = begin().story()
    (first, *_) = audit(chronicle.evidence(events=without(chronicle.scribe.records, 1)))
    assert (first.invariant, first.session) == (1, "acme/s1")
    assert (
        str(first) == f"I1 acme/s1 at offset {first.offset}: expected seq 2 after offset 0, found 3"
    )


def test_every_check_has_a_test_that_plants_its_fault():
    planted = {*range(1, 9), 10, *range(11, 19), *range(21, 28), 32, 33, 34, 37, 38, 39, "17c"}
    assert {number for numbers, _ in CHECKS for number in numbers} == {
        *planted,
        "labels",
        "receiving",
        "attributes",
        "jobs",
        "versions",
        "recovery",
        "children",
        "resources",
    }


# 1, 2, 12, 32: where records lie


def test_1_a_lost_event_is_found(begin, found):
    chronicle = begin().story()
    assert 1 in found(chronicle.evidence(events=without(chronicle.scribe.records, 4)))


def test_1_an_event_that_is_there_twice_is_found(begin, found):
    chronicle = begin().story()
    records = chronicle.scribe.records
    assert 1 in found(chronicle.evidence(events=[*records, replace(records[-1], offset=99)]))


def test_1_an_event_that_does_not_decode_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.scribe.records
    assert 1 in found(chronicle.evidence(events=[replace(first, value=b"\0"), *rest]))


def test_2_a_record_in_another_partition_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.outcomes
    moved = replace(first, partition=1 - first.partition)
    assert found(chronicle.evidence(outcomes=[moved, *rest])) == {2}


def test_2_an_event_in_another_partition_is_found(begin, found):
    chronicle = begin().story()
    *before, last = chronicle.scribe.records
    moved = replace(last, partition=1 - last.partition, offset=0)
    assert 2 in found(chronicle.evidence(events=[*before, moved]), moved=True)


def test_2_a_session_that_was_begun_again_in_another_partition_is_found(begin):
    """As by a processor that takes copied commands where it finds them: each partition for itself is in order."""
    chronicle = begin().story()
    events = chronicle.scribe.records
    again = [replace(one, partition=1 - one.partition) for one in events]
    violations = audit(chronicle.evidence(events=[*events, *again]), asked_by(decode_command))
    homeless = [one for one in violations if one.invariant == 2]
    assert len(homeless) == len(again)
    assert {one.session for one in homeless} == {"acme/s1"}
    assert f"expected {events[0].partition}" in str(homeless[0])


def test_2_a_snapshot_in_another_partition_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.snapshots
    moved = replace(first, partition=1 - first.partition)
    assert 2 in found(chronicle.evidence(snapshots=[moved, *rest]))


def test_2_a_key_that_is_not_the_envelopes_is_found(begin, found):
    chronicle = begin().story()
    records = chronicle.scribe.records
    others = [*records[:-1], replace(records[-1], key=b"acme/s2")]
    assert 2 in found(chronicle.evidence(events=others), moved=True)


def test_12_a_torn_transaction_is_found(begin, found):
    chronicle = begin().story()
    assert 12 in found(chronicle.evidence(activities=chronicle.tasks[1:]))


def test_32_an_event_that_names_another_past_is_found(begin, found):
    chronicle = begin()
    chronicle.story()
    clean = chronicle.scribe.records
    forged = begin(on(r.ReplySent, lambda body: [replace(body, step=4)])).story().scribe.records
    at = next(i for i, (a, b) in enumerate(zip(clean, forged, strict=True)) if a.value != b.value)
    numbers = found(chronicle.evidence(events=[*clean[:at], forged[at], *clean[at + 1 :]]))
    assert 32 in numbers


def test_what_retention_took_is_no_violation(begin, found):
    chronicle = begin().story()
    evidence = chronicle.evidence()
    last = evidence.outcomes[-1]
    starts = {
        Place(x.topic, x.partition): x.offset + 1
        for x in (*evidence.activities, *evidence.commands[:4])
    }
    starts[Place(last.topic, last.partition)] = last.offset + 1
    left = [x for x in evidence.commands if x.offset >= starts.get(Place(x.topic, x.partition), 0)]
    gone = replace(evidence, commands=left, activities=[], outcomes=[], quiescent=False)
    assert found(gone) >= {12, 13}
    assert found(replace(gone, trimmed=starts)) == set()


def test_a_snapshot_that_compaction_took_does_not_tear_its_transaction(begin, found):
    chronicle = begin().story()
    key = b"acme/s1"
    clean = chronicle.scribe.records
    taken = [replace(x, headers=[*x.headers[:-1], (BATCH_COUNT, b"9")]) for x in clean[-1:]]
    torn = chronicle.evidence(events=[*clean[:-1], *taken], outcomes=chronicle.outcomes)
    assert found(torn) == {12}
    assert any(record.key == key for record in chronicle.snapshots)
    assert found(replace(torn, outcomes=_without_batch(torn), compacted=True)) == {13}


def _without_batch(evidence):
    """The outcomes but for the one that shares the last event's batch, whose count would contradict."""
    batch = dict(evidence.events[-1].headers)[BATCH]
    return [x for x in evidence.outcomes if dict(x.headers).get(BATCH) != batch]


# 3, 4, 5, 6, 38: what became of commands


def test_3_a_command_of_which_nothing_became_is_found(begin, found):
    chronicle = begin().story()
    chronicle.ask(m.SendMessage(chronicle.scribe.payload("lost")))
    assert found(chronicle.evidence()) == {3}


def test_1_what_is_no_task_is_found_unless_it_was_put_aside(begin, found):
    chronicle = begin().story()
    topic = chronicle.evidence().topics.activities("default", once=True)
    chronicle.tasks.append(chronicle.put(topic, b"stray", b"no task"))
    assert found(chronicle.evidence()) == {1}
    chronicle.bury(chronicle.tasks[-1])
    assert found(chronicle.evidence()) == set()


def test_3_a_result_that_was_swallowed_is_found(begin, found):
    chronicle = begin().story()
    chronicle.ask(m.CompleteActivity("1.9", 1, chronicle.scribe.payload(1), "w1"))
    assert found(chronicle.evidence()) == {3}


def test_3_a_command_that_is_both_applied_and_dead_is_found(begin, found):
    chronicle = begin().story()
    chronicle.bury(chronicle.commands[0])
    assert found(chronicle.evidence()) == {3}


def test_4_an_event_for_a_command_above_the_committed_offset_is_found(begin, found):
    chronicle = begin().story()
    committed = {place: offset - 1 for place, offset in chronicle.evidence().committed.items()}
    assert 4 in found(chronicle.evidence(committed=committed, quiescent=False))


def test_4_an_event_without_a_command_is_found(begin, found):
    chronicle = begin().story()
    assert 4 in found(chronicle.evidence(commands=chronicle.commands[1:]))


def test_5_a_command_accepted_twice_is_found(begin, found):
    chronicle = begin().story()
    say = chronicle.scribe.payload
    chronicle = begin()
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    for _ in range(2):
        cause = chronicle.ask(m.SendMessage(say("hi")), command_id="m1")
        chronicle.fact(cause, r.MessageReceived("m1", say("hi")))
    assert found(chronicle.evidence(quiescent=False)) == {5, "receiving"}


def test_5_a_command_decided_again_after_others_is_found(begin, found):
    chronicle = begin()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    first = chronicle.ask(m.SendMessage(say(1)))
    chronicle.fact(first, r.MessageReceived("a", say(1)))
    chronicle.fact(chronicle.ask(m.SendMessage(say(2))), r.MessageReceived("b", say(2)))
    chronicle.fact(first, r.MessageReceived("a", say(1)))
    assert found(chronicle.evidence(quiescent=False)) == {5, "receiving"}


def test_5_a_command_that_was_kept_while_held_and_decided_on_release_is_no_repeat(begin, found):
    chronicle = begin()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    chronicle.fact(chronicle.ask(m.SendMessage(say(1)), command_id="a"), r.SessionHeld("x", "y"))
    kept = chronicle.ask(m.SendMessage(say(1)), command_id="b")
    chronicle.fact(kept, r.CommandParked("SendMessage", b"\0" * 8, b"x"))
    release = chronicle.ask(m.ReleaseSession("fixed"))
    chronicle.fact(release, r.SessionReleased("fixed"))
    chronicle.fact(kept, r.MessageReceived("b", say(1)))
    chronicle.fact(release, r.CommandRefused("x", "y", "z", ""))
    assert found(chronicle.evidence(quiescent=False)) == set()


def test_6_one_id_accepted_with_two_contents_is_found(begin, found):
    chronicle = begin()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    for text in ("hi", "ho"):
        cause = chronicle.ask(m.SendMessage(say(text)), command_id="m1")
        chronicle.fact(cause, r.MessageReceived("m1", say(text)))
    assert found(chronicle.evidence(quiescent=False)) == {6, "receiving"}


def test_38_a_command_that_nobody_reads_is_found(begin, found):
    chronicle = begin().story()
    committed = chronicle.evidence().committed
    chronicle.ask(m.SendMessage(chronicle.scribe.payload("hello?")))
    assert found(chronicle.evidence(committed=committed)) == {38}
    assert found(chronicle.evidence(committed=committed, quiescent=False)) == set()


def test_38_a_running_session_that_nothing_will_wake_is_found(begin, found):
    chronicle = begin()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    cause = chronicle.ask(m.SendMessage(say(1)), command_id="m1")
    chronicle.fact(cause, r.MessageReceived("m1", say(1)))
    assert found(chronicle.evidence()) == {38}  # a message waits for a turn
    chronicle.fact(cause, r.TurnStarted(1, "message", "", "m1", "desk", 1, ()))
    assert found(chronicle.evidence()) == {38}  # the turn awaits nothing
    chronicle.fact(cause, chronicle.activity("1.1"))
    assert found(chronicle.evidence()) == set()


# 8, 10: folds


def test_8_a_snapshot_that_its_events_do_not_fold_to_is_found(begin, found):
    chronicle = begin().story()
    chronicle.snapshot(SessionState(chronicle.head, replace(chronicle.state, turn=7)))
    assert found(chronicle.evidence()) == {8}


def test_8_a_snapshot_without_its_event_or_with_a_wrong_hash_is_found(begin, found):
    chronicle = begin().story()
    state = STATES.encode(SessionState(chronicle.head, chronicle.state)).value
    for seq, hashed in ((99, sha256(state).digest()), (chronicle.head.seq, b"\0" * 32)):
        encoded = encode_snapshot(r.Snapshot(*S, seq, STATE_VERSION, state, hashed))
        record = chronicle.put(
            "test.snapshots.v1", b"acme/s1", encoded.value, record_headers(encoded, "x")
        )
        assert found(chronicle.evidence(snapshots=[record])) == {8}


def test_10_an_event_that_is_no_arrow_of_the_lifecycle_is_found(begin, found):
    chronicle = begin(on(r.TurnCompleted, lambda body: [body, body])).story()
    assert 10 in found(chronicle.evidence())


def test_10_work_after_the_end_is_found(begin, found):
    chronicle = begin().story()
    say = chronicle.scribe.payload
    chronicle.fact(chronicle.ask(m.SendMessage(say(1))), r.MessageReceived("late", say(1)))
    assert found(chronicle.evidence()) == {10}


def test_22_a_session_that_waits_and_does_not_park_is_found(begin, found):
    chronicle = begin(on(r.SessionWaiting, lambda _: [])).story()
    assert 22 in found(chronicle.evidence())


# 33, 34: views


def test_33_a_row_that_is_not_where_its_position_says_is_found(begin, found):
    chronicle = begin().story()
    evidence = chronicle.evidence()
    evidence.rows[SESSIONS][S]["seq"] -= 1
    assert 33 in found(evidence)
    ahead = {place: offset - 1 for place, offset in chronicle.scribe.ends.items()}
    assert 33 in found(chronicle.evidence(positions=ahead))


def test_34_a_row_that_a_rebuild_does_not_give_is_found(begin, found):
    evidence = begin().story().evidence()
    evidence.rows[LEDGER][(*S, "1.1")]["late_results"] = 1
    assert found(evidence) == {34}


def test_34_a_status_that_the_fold_does_not_give_is_found(begin, found):
    evidence = begin().story().evidence()
    evidence.rows[SESSIONS][S]["status"] = "Running"
    assert found(evidence) == {34}


def test_34_a_timer_that_the_views_show_and_the_fold_does_not_owe_is_found(begin, found):
    evidence = begin().story().evidence()
    timer = next(iter(evidence.rows[TIMERS].values()))
    timer["status"] = "set"
    told = [str(v) for v in audit(evidence) if "views show timer" in str(v)]
    assert len(told) == 1
    assert found(evidence) == {34}
