"""What became of a session, read from its partition of the outcomes: its own ones, in order, and in time."""

import pytest

from wakeful.commands.outcomes import NoOutcome, outcomes, wait_for_outcome
from wakeful.events.codec import encode_outcome
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.records import Outcome
from wakeful.events.topics import Topics

TOPICS = Topics("desk")


@pytest.fixture
def log():
    log = MemoryLog(now_ms=lambda: 1_000)
    log.create_topics(TOPICS.specs(["default"], 4))
    return log


def put_outcome(log, session_id, kind, seq=1):
    outcome = Outcome("acme", session_id, seq, 0, kind, 1, None, None, None, None, None, None, None)
    encoded = encode_outcome(outcome)
    headers = record_headers(encoded, f"acme/{session_id}/{seq}")
    producer = log.producer()
    producer.produce(
        TOPICS.outcomes, key=session_key("acme", session_id), value=encoded.value, headers=headers
    )
    producer.flush(1_000)


def test_only_the_sessions_own_outcomes_are_seen(log):
    for session_id, kind in (("s1", "reply"), ("s2", "reply"), ("s1", "completed")):
        put_outcome(log, session_id, kind)
    assert [seen.outcome.kind for seen in outcomes(log, TOPICS, "acme", "s1")] == [
        "reply",
        "completed",
    ]


def test_reading_goes_on_behind_what_was_seen(log):
    for kind in ("reply", "reply", "completed"):
        put_outcome(log, "s1", kind)
    first = next(outcomes(log, TOPICS, "acme", "s1"))
    rest = outcomes(log, TOPICS, "acme", "s1", start=first.offset + 1)
    assert [seen.outcome.kind for seen in rest] == ["reply", "completed"]


def test_an_outcome_that_cannot_be_read_does_not_hide_the_next(log):
    producer = log.producer()
    producer.produce(TOPICS.outcomes, key=b"acme/s1", value=b"garbage")
    put_outcome(log, "s1", "completed")
    assert [seen.outcome.kind for seen in outcomes(log, TOPICS, "acme", "s1")] == ["completed"]


def test_waiting_returns_the_first_outcome_of_a_wanted_kind(log):
    for kind in ("reply", "approval_wanted", "completed"):
        put_outcome(log, "s1", kind)
    seen = wait_for_outcome(log, TOPICS, "acme", "s1", kinds=["approval_wanted"])
    assert seen.outcome.kind == "approval_wanted"


def test_waiting_ends_in_time_and_tells_what_came_instead(log):
    put_outcome(log, "s1", "reply")
    with pytest.raises(
        NoOutcome, match=r"no outcome of completed, failed, cancelled within 20 ms \(came: reply\)"
    ):
        wait_for_outcome(log, TOPICS, "acme", "s1", timeout_ms=20)
