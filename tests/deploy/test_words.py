"""What users and models wrote is shown on one line that cannot steer a terminal; lines of files keep their order."""

import json
import logging
from pathlib import Path
from typing import get_args

import pytest

from wakeful.deploy.cli.output import facts, table, write_json
from wakeful.deploy.follow import Follower
from wakeful.deploy.logs import QUIET_S, Sparse
from wakeful.deploy.telling.text import shown_text, span, when
from wakeful.deploy.telling.words import (
    SUMMARIES,
    as_json,
    event_json,
    event_line,
    outcome_line,
    wanting,
)
from wakeful.events import records as r
from wakeful.events.payloads import json_payload

KEY = b"k" * 16


def event(body: r.EventBody) -> r.Event:
    cause = r.Cause("desk.commands.v1", 0, 7, "c1", None, None)
    envelope = r.Envelope(
        "acme", "s1", 3, 1_700_000_000_000, "ann", None, "cli", cause, None, None, b"\1" * 32
    )
    return r.Event(envelope, body)


def test_control_characters_of_a_message_do_not_reach_the_terminal() -> None:
    hostile = {"text": "hello\x1b[2J\n\x07 wor\u202eld\u2028"}
    line = event_line(event(r.MessageReceived("m1", json_payload(hostile, KEY))))
    assert line.isprintable()
    assert "hello" in line
    assert "\x1b" not in line


def test_a_long_text_is_cut_and_says_so() -> None:
    assert shown_text("x" * 500, 10) == "xxxxxxxxx…"


def test_every_kind_of_event_has_a_line_and_an_object() -> None:
    failure = r.Failure("raised", "ValueError", "no such order", "")
    owed = r.Obligation("approval", "1.1-ab", "refund", 5, "expires")
    payload = json_payload({"text": "hi"}, KEY)
    bodies: list[r.EventBody] = [
        r.SessionOpened("desk"),
        r.SessionWaiting(1, (owed,), ()),
        r.ActivityFailed("1.1", 1, failure, "w"),
        r.TimerSet("1.1", 1, 1, 1_700_000_000_000),
        r.SessionCompleted(1, 1, payload, payload, None, 0),
    ]
    for body in bodies:
        line = event_line(event(body))
        assert type(body).__name__ in line
        found = json.loads(json.dumps(event_json(event(body), partition=0, offset=9)))
        assert found["kind"] == type(body).__name__
    assert "for approval refund" in event_line(event(bodies[1]))
    assert "raised: no such order" in event_line(event(bodies[2]))


def test_no_kind_of_event_is_without_its_words() -> None:
    assert {kind.__name__ for kind in get_args(r.EventBody)} == set(SUMMARIES)


def test_facts_about_doubt_signals_and_occasions_are_told_in_words() -> None:
    data = json_payload({"text": "hi"}, KEY)
    died = r.Failure("cut_off", "", "it died in the middle", "")
    doubt = r.Obligation("uncertain", "1.3", "refund", None, "waits to be resolved")
    taken = (r.TakenMessage("m2", "ann", data), r.TakenMessage("m3", "ann", data))
    told: list[tuple[r.EventBody, str]] = [
        (r.ActivityUncertain("1.3", 1, died, "w"), "1.3  cut_off: it died in the middle"),
        (
            r.SessionWaiting(1, (doubt,), ()),
            "for uncertain refund  resolve it with 'wakeful activity resolve s1 1.3 --completed JSON', or --failed",
        ),
        (r.ActivityResolved("1.3", 1, "completed", data, "seen"), "1.3  completed  hi  seen"),
        (r.ActivityResolved("1.3", 1, "failed", None, ""), "1.3  failed"),
        (r.ActivityCompleted("1.3", 2, data, "w", recovered=True), "1.3  hi  recovered"),
        (r.ActivityCompleted("1.3", 2, data, "w"), "1.3  hi"),
        (r.TurnStarted(2, "schedule", "monday", "t", "d", 1, ()), "schedule  version 1  monday"),
        (r.InboxTaken("1.4", taken), "1.4  2 messages: hi; hi"),
        (r.SignalReceived("x1", "paid", data), "paid  hi"),
        (r.TurnContinued(1, 2, 40, data), "turn 1  stretch 2  steps 40"),
    ]
    for body, words in told:
        assert event_line(event(body)).endswith(words)


def test_an_outcome_of_doubt_says_where_to_look() -> None:
    outcome = r.Outcome(
        "acme", "s1", 6, 0, "uncertain", None, None, None,
        "cut_off", "activity 1.3: it died", None, None, None,
    )  # fmt: skip
    assert outcome_line(outcome).endswith(
        "cut_off: activity 1.3: it died: see 'wakeful activity list --uncertain s1'"
    )


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            "uncertain",
            "activity a b is uncertain: it died; resolve it with 'wakeful activity resolve s1 1.3 ",
        ),
        ("signal", "'wakeful signal s1 'a b' JSON'"),
        ("inbox", "'wakeful session send s1 TEXT'"),
        ("approval", "'wakeful approval approve 1.3 --session s1'"),
    ],
)
def test_a_wait_says_what_ends_it(kind: str, told: str) -> None:
    assert told in wanting(kind, "1.3", "a b", "s1", why="it died")


def test_a_wait_that_ends_by_itself_asks_for_nothing() -> None:
    assert wanting("timer", "1.3", "sleep", "s1") == ""


def test_a_payload_that_cannot_be_read_is_shown_as_such() -> None:
    strange = r.Payload("avro", b"\x02", None, b"", 1, None)
    assert "expected inline json" in as_json(strange)["unreadable"]


def test_a_payload_by_reference_is_shown_as_its_reference() -> None:
    lent = r.Payload("json", None, "acme/" + "ab" * 32, b"", 900_000, None)
    assert as_json(lent) == {"ref": "acme/" + "ab" * 32, "size": 900_000}


def test_an_outcome_says_what_is_wanted_of_whom() -> None:
    outcome = r.Outcome(
        "acme", "s1", 6, 0, "approval_wanted", 1, json_payload({"cents": 5}, KEY), None,
        "supervisor", "refund", "1.1-ab", b"\2" * 32, 1,
    )  # fmt: skip
    line = outcome_line(outcome)
    assert "proposal 1.1-ab" in line
    assert "refund by supervisor" in line


def test_times_out_of_range_are_numbers_and_no_error() -> None:
    assert when(10**18) == f"{10**18} ms"
    assert when(0) == "1970-01-01 00:00:00"


def test_tables_are_aligned_and_facts_leave_out_what_is_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table(("name", "n"), [("a", 1), ("longer", None)])
    facts([("status", "Waiting"), ("failure", None)])
    assert capsys.readouterr().out == "NAME    N\na       1\nlonger  -\nstatus  Waiting\n"


def test_json_is_one_line_of_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"text": "grüße\nzwei", "digest": b"\1\2"})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"text": "grüße\nzwei", "digest": "0102"}


def test_a_follower_tells_whole_lines_once_and_starts_again_in_a_new_file(tmp_path: Path) -> None:
    heard: list[str] = []
    path = tmp_path / "a.log"
    path.write_text("before\n")
    follower = Follower(lambda name, line: heard.append(f"{name}: {line}"))
    follower.add("a", path)
    with path.open("a") as file:
        file.write("one\ntw")
    follower.look()
    with path.open("a") as file:
        file.write("o\n")
    follower.look()
    path.unlink()
    follower.look()
    path.write_text("new\n")
    follower.add("a", path)
    path.write_text("new\nmore\n")
    follower.look()
    assert heard == ["a: one", "a: two", "a: more"]


def test_a_line_of_the_kafka_client_that_repeats_itself_is_shown_once_in_a_while() -> None:
    now_s = 100.0
    sparse = Sparse(lambda: now_s)

    def shown(text: str) -> bool:
        return sparse.filter(logging.LogRecord("wakeful.kafka", 40, "", 0, text, (), None))

    assert shown("Connect to 127.0.0.1:9092 failed (after 0ms in state CONNECT)")
    assert not shown("Connect to 127.0.0.1:9092 failed (after 3ms in state CONNECT)")
    assert shown("Disconnected")
    now_s += QUIET_S
    assert shown("Connect to 127.0.0.1:9092 failed")


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "0.0 s"),
        (1_250, "1.2 s"),
        (59_999, "60.0 s"),
        (60_000, "1 min"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (7 * 86_400_000, "7 d"),
    ],
)
def test_a_length_of_time_has_its_two_largest_units(ms, told):
    assert span(ms) == told
