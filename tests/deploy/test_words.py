"""What users and models wrote is shown on one line that cannot steer a terminal; lines of files keep their order."""

import json
import logging
from pathlib import Path

import pytest

from wakeful.deploy.cli.output import facts, shown_text, table, when, write_json
from wakeful.deploy.cli.words import as_json, event_json, event_line, outcome_line
from wakeful.deploy.follow import Follower
from wakeful.deploy.logs import QUIET_S, Sparse
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
