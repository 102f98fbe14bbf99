"""The worker, step by step: what is run, what is not, and which offsets are committed when."""

import pytest

from wakeful.commands.models import CompleteActivity, FailActivity
from wakeful.events.headers import dead_letter_in
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.protocol import LogFault, Place


def committed(bench, queue="default"):
    offsets = bench.log.group_offsets(f"{bench.topics.namespace}.workers.{queue}")
    return sum(offsets.values())


def orders(bench, *numbers, **over):
    return [bench.task("find_order", {"order_id": f"A{n}"}, f"s{n}", **over) for n in numbers]


def test_each_task_is_run_once_and_its_result_sent_to_its_session(bench, hands):
    bench.put(*orders(bench, 1, 2, 3))
    hands().work()
    assert sorted(bench.desk.calls.of("find_order")) == ["A1", "A2", "A3"]
    results = {c.header.session_id: c for c in bench.results()}
    assert sorted(results) == ["s1", "s2", "s3"]
    header, body = results["s1"].header, results["s1"].body
    assert isinstance(body, CompleteActivity)
    assert (header.command_id, header.actor, header.channel) == (
        "acme/s1/1/1#1",
        "worker:w1",
        "worker",
    )


def test_the_command_of_a_result_is_the_same_from_whichever_worker_run(bench, hands):
    bench.put(*orders(bench, 1))
    first = hands("w1")
    first.run(first.take()[0])
    (sent,) = bench.results()
    first.die()
    assert sent.header.command_id == "acme/s1/1/1#1"


def test_a_failure_is_a_result(bench, hands):
    bench.put(bench.task("nobody_knows", {}))
    hands().work()
    (command,) = bench.results()
    assert isinstance(command.body, FailActivity)
    assert command.body.failure.kind == "unknown_activity"
    assert committed(bench) == 1


def test_nothing_is_committed_before_its_result_is_acknowledged(bench, hands):
    bench.put(*orders(bench, 1))
    hand = hands()
    (job,) = hand.take()
    hand.core.commit()
    assert committed(bench) == 0
    hand.run(job)
    hand.core.commit()
    assert committed(bench) == 0
    hand.core.settle()
    hand.core.commit()
    assert committed(bench) == 1


def test_a_running_task_holds_back_the_commit_of_those_behind_it(bench, hands):
    bench.put(*orders(bench, 1, 2, 3), partition=0)
    hand = hands()
    first, *others = hand.take()
    for job in others:
        hand.run(job)
    hand.core.settle()
    hand.core.commit()
    assert committed(bench) == 0
    hand.run(first)
    hand.core.settle()
    hand.core.commit()
    assert committed(bench) == 3


def test_a_task_that_was_never_delivered_is_fresh(bench, hands):
    hand = hands()
    hand.take()
    bench.put(*orders(bench, 1))
    assert [job.fresh for job in hand.take()] == [True]


def test_a_task_that_lay_there_before_the_assignment_is_not_fresh(bench, hands):
    bench.put(*orders(bench, 1))
    assert [job.fresh for job in hands().take()] == [False]


def test_a_later_attempt_is_never_fresh(bench, hands):
    hand = hands()
    hand.take()
    bench.put(*orders(bench, 1, attempt=2))
    assert [job.fresh for job in hand.take()] == [False]


def test_a_recorded_result_is_not_computed_again_after_a_kill(bench, hands):
    bench.put(*orders(bench, 1, 2))
    first = hands("w1")
    for job in first.take():
        first.run(job)
    first.die()
    assert committed(bench) == 0
    second = hands("w2")
    assert second.work() == []
    assert len(bench.desk.calls.of("find_order")) == 2
    assert committed(bench) == 2
    assert second.core.counts.already_settled == 2


def test_a_call_cut_by_a_kill_is_made_again_with_the_same_key(bench, hands):
    bench.put(bench.task("refund", {"order": {"id": "A1", "cents": 1}}))
    first = hands("w1")
    first.answer(first.take()[0])
    first.die()
    hands("w2").work()
    assert bench.desk.calls.of("refund") == ["acme/s1/1/1", "acme/s1/1/1"]
    assert len(bench.results()) == 1


def test_a_recorded_failure_is_not_tried_again_by_itself(bench, hands):
    bench.put(bench.task("nobody_knows", {}))
    first = hands("w1")
    first.run(first.take()[0])
    first.die()
    assert hands("w2").work() == []
    assert len(bench.results()) == 1


def test_the_result_of_one_attempt_does_not_settle_the_next(bench, hands):
    bench.put(*orders(bench, 1))
    first = hands("w1")
    first.work()
    first.die()
    bench.put(*orders(bench, 1, attempt=2))
    hands("w2").work()
    assert [c.body.attempt for c in bench.results()] == [1, 2]


def test_one_scan_answers_for_all_tasks_of_an_assignment(bench, hands):
    bench.put(*orders(bench, *range(40)))
    first = hands("w1")
    for job in first.take(30):
        first.run(job)
    first.die()
    second = hands("w2")
    taken = 0
    for _ in range(20):
        taken += len(second.work())
    assert taken == 10
    assert second.core.counts.already_settled == 30
    assert second.core._settled.scans == 1


def test_what_a_scan_found_is_forgotten_when_the_old_tasks_are_through(bench, hands):
    bench.put(*orders(bench, 1))
    first = hands("w1")
    first.run(first.take()[0])
    first.die()
    second = hands("w2")
    second.work()
    assert second.core._settled.known == 1
    bench.put(*orders(bench, 2))
    second.work()
    assert second.core._settled.known == 0


def test_without_old_tasks_nothing_is_scanned(bench, hands):
    hand = hands()
    hand.take()
    bench.put(*orders(bench, 1, 2, 3))
    hand.work()
    assert hand.core._settled.scans == 0


def test_results_recorded_long_before_the_oldest_task_are_not_read(bench, hands):
    first = hands("w1")
    bench.put(*orders(bench, *range(20)))
    first.work()
    bench.clock.ms += 3_600_000
    bench.put(*orders(bench, 30))
    first.run(first.take()[0])
    first.die()
    second = hands("w2")
    second.work()
    assert second.core._settled.known == 1


def test_the_same_task_delivered_twice_at_once_runs_once(bench, hands):
    bench.put(*orders(bench, 1), partition=0)
    bench.put(*orders(bench, 1), partition=1)
    hand = hands()
    jobs = hand.work()
    assert len(jobs) == 1
    assert len(bench.results()) == 1
    assert committed(bench) == 2


def test_a_job_that_is_given_back_is_delivered_to_the_next_worker(bench, hands):
    bench.put(*orders(bench, 1))
    first = hands("w1")
    first.core.give_back(first.take()[0])
    first.core.settle()
    first.core.commit()
    first.core.close()
    assert [job.command_id for job in hands("w2").work()] == ["acme/s1/1/1#1"]


def test_a_task_past_its_deadline_by_the_logs_clock_is_not_run(bench, hands):
    bench.put(*orders(bench, 1, deadline_ms=bench.clock.ms + 1_000))
    bench.clock.ms += 100_000
    bench.put(*orders(bench, 2))
    hand = hands()
    hand.work()
    bench.put(*orders(bench, 3, deadline_ms=bench.clock.ms - 99_000))
    hand.work()
    assert "A3" not in bench.desk.calls.of("find_order")
    assert hand.core.counts.expired >= 1
    assert committed(bench) == 3


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"acme/s1/1/1#1", b"garbage", "bad_frame"),
        (b"acme/s1/1/1#1", b"", "bad_frame"),
        (b"acme/s1/1/1#1", None, "empty"),
        (None, b"\x00\x00\x00\x00\x01abc", "unknown_id"),
    ],
)
def test_bytes_that_are_no_task_go_to_the_dead_letters_and_work_goes_on(
    bench, hands, key, value, reason
):
    bench.put_bytes(key, value, partition=0)
    bench.put(*orders(bench, 1), partition=0)
    hands().work()
    (letter,) = bench.log.dump(bench.topics.dead_letters)
    cause = dead_letter_in(letter.headers)
    assert (letter.key, letter.value) == (key, value)
    assert (cause.reason, cause.topic, cause.offset) == (
        reason,
        bench.topics.activities("default"),
        0,
    )
    assert bench.desk.calls.of("find_order") == ["A1"]
    assert committed(bench) == 2


def test_a_task_under_a_foreign_key_goes_to_the_dead_letters(bench, hands):
    from wakeful.events.codec import encode_task
    from wakeful.events.headers import record_headers

    encoded = encode_task(orders(bench, 1)[0])
    bench.put_bytes(b"acme/s2/1/1#1", encoded.value, headers=record_headers(encoded, "x"))
    hands().work()
    (letter,) = bench.log.dump(bench.topics.dead_letters)
    assert dead_letter_in(letter.headers).reason == "wrong_key"
    assert bench.desk.calls.made == []


def test_a_task_for_a_session_that_cannot_exist_goes_to_the_dead_letters(bench, hands):
    bench.put(bench.task("find_order", {"order_id": "A"}, tenant="a b"))
    hands().work()
    (letter,) = bench.log.dump(bench.topics.dead_letters)
    assert dead_letter_in(letter.headers).reason == "invalid_key"


class Failing(NoFaults):
    """Plain records fail while `left` lasts; where `arrived`, the log has them all the same."""

    def __init__(self):
        self.left, self.arrived = 0, False

    def on_deliver(self, topic):
        if self.left > 0:
            self.left -= 1
            return Fate.LOST_ANSWER if self.arrived else Fate.FAILED
        return Fate.OK


@pytest.mark.parametrize("arrived", [False, True])
def test_a_result_that_is_not_acknowledged_is_sent_again_and_not_computed_again(
    bench, hands, arrived
):
    bench.put(*orders(bench, 1))
    faults = bench.log._broker.faults = Failing()
    faults.left, faults.arrived = 3, arrived
    hand = hands()
    hand.run(hand.take()[0])
    for _ in range(6):
        hand.core.settle()
    hand.core.commit()
    ids = [c.header.command_id for c in bench.results()]
    assert len(ids) == (4 if arrived else 1)
    assert len(set(ids)) == 1
    assert len(bench.desk.calls.of("find_order")) == 1
    assert committed(bench) == 1


def test_a_result_that_can_never_be_sent_ends_the_worker_in_the_end(bench, hands):
    bench.put(*orders(bench, 1))
    bench.log._broker.faults = faults = Failing()
    faults.left = 10**6
    hand = hands()
    hand.run(hand.take()[0])
    for _ in range(300):
        hand.core.settle()
    with pytest.raises(LogFault, match="results were sent 300 times and not acknowledged"):
        hand.core.settle()


def test_a_refused_commit_loses_nothing(bench, hands):
    bench.put(*orders(bench, 1))

    class Refusing(NoFaults):
        def on_commit_offsets(self, group):
            return Fate.FAILED

    hand = hands()
    bench.log._broker.faults = Refusing()
    hand.work()
    assert committed(bench) == 0
    bench.log._broker.faults = NoFaults()
    hand.core.commit()
    assert committed(bench) == 1


def test_pending_offsets_make_the_worker_ask_again(bench, hands):
    class Pending(NoFaults):
        def on_committed(self, group):
            return Fate.NOT_YET

    bench.put(*orders(bench, 1))
    bench.log._broker.faults = Pending()
    hand = hands()
    assert hand.take() == []
    assert hand.take() == []
    bench.log._broker.faults = NoFaults()
    assert len(hand.take()) == 1


def test_tasks_removed_by_retention_are_passed_over(bench, hands):
    bench.put(*orders(bench, 1, 2, 3), partition=0)
    bench.log.trim(Place(bench.topics.activities("default"), 0), 2)
    hands().work()
    assert bench.desk.calls.of("find_order") == ["A3"]


def test_a_second_worker_takes_over_partitions_without_doing_their_work_again(bench, hands):
    bench.put(*orders(bench, *range(20)))
    first = hands("w1")
    first.work()
    second = hands("w2")
    for _ in range(6):
        first.work()
        second.work()
    bench.put(*orders(bench, *range(20, 40)))
    for _ in range(6):
        first.work()
        second.work()
    assert second.core.counts.taken > 0
    assert len(bench.desk.calls.of("find_order")) == 40
    assert len(bench.results()) == 40
    assert committed(bench) == 40


def test_a_result_for_a_partition_that_is_gone_is_still_sent(bench, hands):
    bench.put(*orders(bench, 1))
    hand = hands()
    (job,) = hand.take()
    hand.core.lost([Place(bench.topics.activities("default"), n) for n in range(4)])
    hand.run(job)
    hand.core.settle()
    assert len(bench.results()) == 1
    assert hand.core.offsets.due() == {}


def test_the_crash_points_of_a_task_come_in_their_order(bench, hands):
    bench.put(*orders(bench, 1))
    hand = hands()
    (job,) = hand.take()
    assert bench.hits == ["w.leased"]
    hand.run(job)
    assert bench.hits == ["w.leased"]
    hand.core.settle()
    assert bench.hits == ["w.leased", "w.result_sent"]


def test_a_worker_serves_its_own_queue_only(bench, hands):
    bench.put(*orders(bench, 1, queue="other"))
    assert hands("w1").work() == []
    assert len(hands("w2", queue="other").work()) == 1
