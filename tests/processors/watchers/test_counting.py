"""What a watcher counts, remembers and proposes; none of it knows a clock, a broker, or Faust."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.projections.conftest import Scribe, payload

from wakeful.events import records as r
from wakeful.processors.watchers.board import Board, windows_shown
from wakeful.processors.watchers.counting import changes
from wakeful.processors.watchers.prices import Prices
from wakeful.processors.watchers.sessions import after, counted, new_row
from wakeful.processors.watchers.stalls import proposals
from wakeful.processors.watchers.windows import HOUR_MS, WindowKey, added, rates, summed

S1 = ("acme", "s1")
PATIENCE_MS = 300_000
PRICES = Prices.from_text("m-2=1.25/10")


class Watched:
    """One session, told by a scribe and watched event by event."""

    def __init__(self):
        self.scribe = Scribe()
        self.row, self.offset = None, -1

    def add(self, body, **given):
        event = self.scribe.add(S1, body, **given)
        self.offset += 1
        row = self.row or new_row(event)
        found = counted(row, event, PRICES)
        self.row = after(row, event, self.offset)
        return None if found is None else (found.tool, dict(found.counts))

    def turn(self):
        self.add(r.SessionOpened("desk"))
        self.add(r.MessageReceived("m1", payload({})))
        self.add(r.TurnStarted(1, "message", "", "m1", "desk", 3, ()))
        return self

    def request(self, activity_id="1.1"):
        event = self.scribe.request(S1, activity_id, approval="none", proposal=None)
        self.offset += 1
        self.row = after(self.row, event, self.offset)
        return event.body

    def proposed(self, later_ms):
        return list(proposals(self.row, self.scribe.now_ms + later_ms, PATIENCE_MS))


@pytest.fixture
def watched():
    return Watched().turn()


def test_given_a_completed_call_then_its_tool_and_its_time_are_those_of_the_request(watched):
    asked = watched.request()
    at_ms = watched.scribe.now_ms + 700
    done = r.ActivityCompleted("1.1", 1, payload(1), "w1", recovered=False)
    assert watched.add(done, at_ms=at_ms) == (
        asked.name,
        {"completed": 1, "duration_ms": 700, "duration_max_ms": 700},
    )


def test_given_a_models_answer_then_tokens_and_cost_are_counted(watched):
    watched.request()
    answer = {"text": "hi", "model": "m-2", "usage": {"input_tokens": 100, "output_tokens": 7}}
    _, counts = watched.add(r.ActivityCompleted("1.1", 1, payload(answer), "w1", recovered=False))
    assert (counts["input_tokens"], counts["output_tokens"]) == (100, 7)
    assert counts["cost_nanos"] == 100 * 1_250 + 7 * 10_000


def test_given_a_failed_attempt_of_a_model_then_what_it_had_read_is_spent_all_the_same(watched):
    watched.request()
    detail = json.dumps({"model": "unknown", "input_tokens": 50, "output_tokens": None})
    failure = r.Failure("raised", "StreamCut", "cut", detail)
    due_ms = watched.scribe.now_ms + 10
    _, counts = watched.add(r.ActivityRetryScheduled("1.1", 1, due_ms, failure, "w1"))
    assert counts == {"retried": 1, "input_tokens": 50, "output_tokens": 0, "unpriced_tokens": 50}


@pytest.mark.parametrize(
    "told",
    [
        "no json",
        {"usage": 3},
        {"usage": {"input_tokens": 1}},
        {"model": "m-2", "usage": {"input_tokens": -1}},
        {"model": "m-2", "usage": {"input_tokens": True}},
        {"model": "m-2", "usage": {"input_tokens": 2**70}},
        [1],
    ],
)
def test_given_a_result_that_only_looks_like_a_models_then_nothing_is_spent(watched, told):
    watched.request()
    data = told.encode() if isinstance(told, str) else json.dumps(told).encode()
    _, counts = watched.add(
        r.ActivityCompleted("1.1", 1, Scribe.raw_payload(data), "w1", recovered=False)
    )
    assert "input_tokens" not in counts


@given(st.lists(st.integers(0, 30), min_size=1), st.data())
def test_given_events_that_come_again_from_any_earlier_place_then_a_window_counts_each_once(
    gaps, data
):
    offsets = [sum(gaps[: n + 1]) + n for n in range(len(gaps))]
    window = None
    reached = 0
    for _ in range(4):
        start = data.draw(st.integers(0, reached))
        reached = data.draw(st.integers(start, len(offsets)))
        for offset in offsets[start:reached]:
            window = added(window, {"completed": 1}, offset) or window
    seen = 0 if window is None else window["completed"]
    assert seen == sum(1 for offset in offsets if window and offset <= window["position"])


class Life:
    """A watcher's rows as they come to lie in its topic, over crashes: what was written is a prefix of what was to be."""

    def __init__(self, events):
        self.events, self.topic, self.kept = events, [], {}
        self.done = []  # per offset how many rows there were once it was handled

    def handle(self, start, end):
        del self.done[start:]
        for offset in range(start, end):
            event = self.events[offset]
            found = changes(event, 0, offset, self.kept, prices=PRICES, oldest_ms=0)
            for key, row in found:
                self.topic.append((key, row))
                self.kept[key] = row
            self.done.append(len(self.topic))

    def crash(self, rows_lost):
        """What was not acknowledged is gone; the first offset that may have to come again."""
        del self.topic[len(self.topic) - rows_lost :]
        self.kept = dict(self.topic)
        return next((n for n, rows in enumerate(self.done) if rows > len(self.topic)), None)

    def windows(self):
        return {key: row for key, row in self.kept.items() if key[0] == "window"}


@given(st.integers(0, 50), st.data())
@settings(max_examples=60, deadline=None)
def test_given_crashes_between_any_two_rows_and_events_again_from_before_then_windows_are_the_same(
    seed, data
):
    scribe = Scribe(partitions=1)
    scribe.tell_many(4, random.Random(seed))
    whole = Life(scribe.events)
    whole.handle(0, len(scribe.events))
    torn, start = Life(scribe.events), 0
    for _ in range(data.draw(st.integers(1, 5))):
        end = data.draw(st.integers(start, len(scribe.events)))
        torn.handle(start, end)
        lost = torn.crash(data.draw(st.integers(0, min(20, len(torn.topic)))))
        start = data.draw(st.integers(0, end if lost is None else lost))
    torn.handle(start, len(scribe.events))
    assert torn.windows() == whole.windows()
    assert torn.kept.keys() == whole.kept.keys()


def test_given_minutes_of_two_partitions_then_an_hour_is_their_sum():
    key = WindowKey(0, 0, "acme", "desk", 1, "refund")
    first = {"completed": 3, "duration_ms": 30, "duration_max_ms": 20, "position": 4}
    other = {"failed": 1, "duration_ms": 10, "duration_max_ms": 10, "position": 9}
    late = key._replace(start_ms=HOUR_MS)
    windows = [(key, first), (key._replace(partition=1), other), (late, first)]
    found = summed(windows, 0, HOUR_MS)
    (counts,) = found.values()
    assert counts == {"completed": 3, "failed": 1, "duration_ms": 40, "duration_max_ms": 20}
    assert rates(counts) == {"failure_rate": 0.25, "duration_mean_ms": 10}
    assert rates({}) == {"failure_rate": None, "duration_mean_ms": None}


def test_the_shown_minute_is_whole_and_the_shown_hour_has_sixty_of_them():
    shown = windows_shown(7 * HOUR_MS + 61_500)
    assert shown["minute"] == (7 * HOUR_MS, 7 * HOUR_MS + 60_000)
    since_ms, until_ms = shown["hour"]
    assert until_ms - since_ms == HOUR_MS
    assert since_ms <= 7 * HOUR_MS + 61_500 < until_ms


def test_given_a_turn_that_waits_for_nothing_and_stands_still_then_its_session_is_proposed(watched):
    assert watched.proposed(PATIENCE_MS) == []
    (one,) = watched.proposed(PATIENCE_MS + 1)
    assert (one["proposes"], one["kind"], one["session_id"]) == ("RecoverSession", "session", "s1")
    assert (one["workflow"], one["version"]) == ("desk", 3)


def test_given_a_call_past_its_deadline_then_the_call_is_proposed_and_its_end_withdraws_it(watched):
    asked = watched.request()
    left_ms = asked.deadline_ms - watched.scribe.now_ms
    assert watched.proposed(left_ms + PATIENCE_MS) == []
    (one,) = watched.proposed(left_ms + PATIENCE_MS + 1)
    assert (one["kind"], one["activity_id"]) == ("activity", "1.1")
    watched.add(r.ActivityCompleted("1.1", 1, payload(1), "w1", recovered=False))
    assert all(one["kind"] == "session" for one in watched.proposed(left_ms + PATIENCE_MS + 1))


def test_given_a_wait_for_a_person_then_it_is_no_stall_until_it_has_expired(watched):
    due_ms = watched.scribe.now_ms + 7 * 86_400_000
    owed = (r.Obligation("approval", "1.1", "refund", due_ms, "expires"),)
    watched.add(r.SessionWaiting(1, owed, ()))
    assert watched.proposed(86_400_000) == []
    (one,) = watched.proposed(8 * 86_400_000)
    assert one["since_ms"] == due_ms


def test_given_a_resource_that_is_over_then_who_waits_for_a_person_is_no_stall(watched):
    due_ms = watched.scribe.now_ms + 7 * 86_400_000
    held = r.Obligation("resource", "1.1", "sandbox", watched.scribe.now_ms + 60_000, "expires")
    owed = r.Obligation("approval", "1.3", "refund", due_ms, "expires")
    watched.add(r.SessionWaiting(1, (held, owed), ()))
    assert watched.proposed(86_400_000) == []
    watched.add(r.ResourceExpired("1.1", "sandbox", "expired"))
    assert watched.proposed(86_400_000) == []


def test_given_a_wait_when_a_message_queues_then_it_is_still_a_wait(watched):
    due_ms = watched.scribe.now_ms + 7 * 86_400_000
    watched.add(r.SessionWaiting(1, (r.Obligation("approval", "1.1", "refund", due_ms, "x"),), ()))
    watched.add(r.MessageReceived("m2", payload("more")))
    assert watched.proposed(86_400_000) == []
    assert len(watched.proposed(8 * 86_400_000)) == 1


def test_given_a_session_at_rest_or_held_then_no_time_makes_it_a_stall(watched):
    for_ever_ms = 365 * 86_400_000
    watched.add(r.SessionHeld("unfoldable", "because"))
    watched.add(r.CommandParked("SendSignal", b"\1" * 8, b"\2"))
    assert watched.proposed(for_ever_ms) == []
    watched.add(r.SessionReleased("fixed"))
    assert len(watched.proposed(for_ever_ms)) == 1
    watched.add(r.TurnCompleted(1, 1, payload(None), (), ()))
    watched.add(r.CommandRefused("SendMessage", "ordering", "too_old", "issue it anew"))
    assert watched.proposed(for_ever_ms) == []
    watched.add(r.SessionHeld("unfoldable", "because"))
    watched.add(r.SessionReleased("fixed"))
    assert watched.proposed(for_ever_ms) == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gpt", "gpt"),
        ("gpt=1", "gpt=1"),
        ("gpt=x/1", "x"),
        ("gpt=-1/1", "-1"),
        ("gpt=0.0001/1", "0.0001"),
        ("gpt=nan/1", "nan"),
        ("gpt=1/1,gpt=2/2", "gpt"),
    ],
)
def test_given_a_price_that_is_none_then_the_error_names_it(text, part):
    with pytest.raises(ValueError, match="price") as refused:
        Prices.from_text(text)
    assert repr(part) in str(refused.value)


def test_prices_go_by_the_first_pattern_that_fits_and_no_price_is_not_nothing():
    prices = Prices.from_text(" gpt-5-mini=0.25/2 , gpt-*=1.25/10 ")
    assert prices.cost_nanos("gpt-5-mini", 1_000_000, 0) == 250_000_000
    assert prices.cost_nanos("gpt-5", 0, 1) == 10_000
    assert prices.cost_nanos("other", 1, 1) is None


def row(scribe, key, value):
    data = None if value is None else json.dumps(value).encode()
    return scribe.append(0, json.dumps(key).encode(), data)


def test_given_a_row_that_a_watcher_wrote_late_then_the_further_one_stays():
    board, scribe, key = Board(), Scribe(), ["window", 0, 0, "acme", "desk", 1, "refund"]
    for position in (7, 3):
        board.take(row(scribe, key, {"completed": position, "position": position}))
    assert [counts["completed"] for _, counts in board.windows()] == [7]
    board.take(row(scribe, key, None))
    assert list(board.windows()) == []


def test_given_strangers_bytes_in_the_topic_then_they_are_counted_and_passed_over():
    board, scribe = Board(), Scribe()
    for value in (3, [], {"position": "x"}, {}):
        board.take(row(scribe, ["said", 0], value))
    board.take(scribe.append(0, b"\xff", b"{"))
    board.take(scribe.append(0, None, b"{}"))
    assert board.unreadable == 6
    assert board.silence(1, 0).ever is False


def test_given_one_partition_of_two_without_a_word_then_silence_names_it_and_since_when():
    board, scribe = Board(), Scribe()
    assert not board.silence(2, 1_000_000).ever
    for number, at_ms in ((0, 1_000_000), (1, 900_000)):
        said = {"at_ms": at_ms, "caught_up": True, "position": at_ms, "undecodable": 0}
        board.take(row(scribe, ["said", number], said))
    silence = board.silence(2, 1_000_001)
    assert (silence.silent, silence.since_ms, silence.behind) == ((1,), 900_000, ())
