"""When a beat is sent, what of it is kept, and what follows where none is acknowledged."""

import pytest

from wakeful.events.payloads import json_payload
from wakeful.processors.activities.beats import AttemptCancelled, Beats, Stop

from .conftest import DIGEST_KEY


def told(value):
    return json_payload(value, DIGEST_KEY)


class Pen:
    """One attempt's beats on a clock that is moved by hand; `sent` is what went out, `said` its progress."""

    def __init__(self, task, cancel=None):
        self.now, self.sent, self.cancelled = 100.0, [], []
        self.beats = Beats(
            task,
            worker_id="w1",
            send=self.sent.append,
            monotonic=lambda: self.now,
            cancel=cancel,
        )
        self.beats.begin()

    @property
    def said(self):
        return [beat.body.progress and beat.body.progress.inline for beat in self.sent]

    def acknowledge(self):
        for beat in self.sent:
            beat.acknowledged()

    def pass_s(self, seconds):
        self.now += seconds
        return self.beats.look()


@pytest.fixture
def clocked(bench):
    return Pen(bench.task("slow", {}, heartbeat_ms=30_000))


@pytest.fixture
def unclocked(bench):
    return Pen(bench.task("slow", {}))


def test_the_clock_starts_with_the_body(clocked):
    (beat,) = clocked.sent
    assert beat.command_id == "acme/s1/1/1#1/beat/1"
    assert (beat.body.activity_id, beat.body.attempt, beat.body.worker) == ("1.1", 1, "w1")
    assert beat.body.progress is None


def test_no_clock_runs_where_the_activity_has_no_heartbeat(unclocked):
    unclocked.beats.beat(None)
    unclocked.now += 3_600
    assert unclocked.pass_s(3_600)
    assert unclocked.sent == []


def test_a_third_of_the_heartbeat_lies_between_two_beats_and_the_newest_progress_wins(clocked):
    clocked.acknowledge()
    for n in range(100):
        clocked.beats.beat(told(n))
    clocked.pass_s(9.9)
    assert len(clocked.sent) == 1
    clocked.pass_s(0.2)
    assert clocked.said == [None, b"99"], "sent although the body has not called again"
    clocked.acknowledge()
    clocked.pass_s(60)
    assert len(clocked.sent) == 2, "a body that is silent has no beats"


def test_a_beat_that_may_be_sent_is_sent_by_the_call_itself(clocked):
    clocked.acknowledge()
    clocked.now += 10
    clocked.beats.beat(None)
    assert len(clocked.sent) == 2


def test_one_is_on_its_way_at_a_time(clocked):
    clocked.now += 12
    clocked.beats.beat(told("a"))
    clocked.beats.beat(told("b"))
    assert len(clocked.sent) == 1
    clocked.acknowledge()
    clocked.pass_s(0)
    assert clocked.said == [None, b'"b"']


def test_a_sign_of_life_does_not_displace_the_progress_before_it(clocked):
    clocked.beats.beat(told("page 7"))
    clocked.beats.beat(None)
    clocked.acknowledge()
    clocked.pass_s(10)
    assert clocked.said == [None, b'"page 7"']


def test_the_same_progress_is_told_once(clocked):
    for _ in range(3):
        clocked.acknowledge()
        clocked.now += 10
        clocked.beats.beat(told("page 7"))
    assert clocked.said == [None, b'"page 7"', None, None]


def test_without_a_heartbeat_progress_is_told_once_a_second(unclocked):
    for n in range(24):
        unclocked.beats.beat(told(n))
        unclocked.acknowledge()
        unclocked.pass_s(0.125)
    assert unclocked.said == [b"0", b"7", b"15", b"23"]


def test_what_was_kept_is_sent_when_the_attempt_fails(clocked):
    clocked.beats.beat(told("page 7"))
    clocked.beats.close(completed=False)
    assert clocked.said == [None, b'"page 7"']


def test_what_was_kept_is_worth_nothing_beside_a_result(clocked):
    clocked.beats.beat(told("page 7"))
    clocked.beats.close(completed=True)
    clocked.pass_s(60)
    assert clocked.said == [None]


def test_what_goes_on_after_the_end_is_stopped(clocked):
    clocked.beats.close(completed=True)
    assert clocked.beats.is_stopped()
    with pytest.raises(AttemptCancelled):
        clocked.beats.beat(told("from a thread that was left behind"))
    assert len(clocked.sent) == 1


def test_an_attempt_is_fenced_when_no_beat_arrives_for_its_heartbeat(clocked):
    clocked.acknowledge()
    clocked.now += 10
    clocked.beats.beat(None)
    assert clocked.pass_s(19.9)
    assert not clocked.pass_s(0.2), "30 s after the last that arrived was sent"


def test_a_first_beat_that_does_not_arrive_fences_too(clocked):
    assert clocked.pass_s(29.9)
    assert not clocked.pass_s(0.2)


def test_an_acknowledgement_counts_from_when_its_beat_was_sent(clocked):
    clocked.now += 25
    clocked.acknowledge()
    clocked.beats.beat(None)
    assert not clocked.pass_s(6)


def test_a_body_that_is_silent_is_not_fenced_but_left_to_the_processor(clocked):
    clocked.acknowledge()
    assert clocked.pass_s(3_600)


def test_a_beat_after_a_long_silence_has_a_moment_to_arrive(clocked):
    clocked.acknowledge()
    clocked.now += 3_600
    clocked.beats.beat(None)
    assert clocked.pass_s(0.9)
    clocked.acknowledge()
    assert clocked.pass_s(5)


def test_progress_without_a_heartbeat_fences_nobody(unclocked):
    unclocked.beats.beat(told(1))
    assert unclocked.pass_s(3_600)


def test_a_worker_that_looks_for_what_was_done_beats_for_its_attempt(clocked):
    clocked.acknowledge()
    clocked.beats.rest()
    for _ in range(3):
        clocked.pass_s(10)
        clocked.acknowledge()
    assert clocked.said == [None] * 4
    clocked.beats.begin()
    clocked.pass_s(60)
    assert len(clocked.sent) == 4, "the body speaks for itself again"


def test_nothing_beats_before_the_body_has_begun(bench):
    sent = []
    task = bench.task("slow", {}, heartbeat_ms=30_000)
    beats = Beats(task, worker_id="w1", send=sent.append, monotonic=lambda: 100.0)
    beats.rest()
    assert beats.look()
    assert sent == []


def test_a_stopped_attempt_beats_no_more_and_is_told(clocked):
    assert not clocked.beats.is_stopped()
    clocked.beats.stop(Stop.OVER)
    clocked.beats.stop(Stop.FENCED)
    assert (clocked.beats.stopped, clocked.beats.told) == (Stop.OVER, False)
    with pytest.raises(AttemptCancelled, match="nobody waits for its result"):
        clocked.beats.beat(told(1))
    assert clocked.beats.told
    clocked.pass_s(60)
    assert len(clocked.sent) == 1


def test_an_end_is_not_stopped(bench):
    cancelled = []
    pen = Pen(bench.task("slow", {}), cancel=lambda: cancelled.append(1))
    pen.beats.close(completed=True)
    pen.beats.stop(Stop.OVER)
    assert (cancelled, pen.beats.stopped) == ([], None)
