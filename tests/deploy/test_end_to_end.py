"""One app under a supervisor on real Kafka and Postgres, driven by the command line alone."""

import asyncio
import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import pytest
import structlog

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.settings import Settings
from wakeful.deploy.supervisor import Supervisor

LIMIT_S = 20.0

Cli = Callable[..., tuple[int, Any, str]]


def test_a_refund_is_asked_for_approved_and_paid_by_commands_alone(cli: Cli) -> None:
    code, out, err = cli("session", "open", "refund-desk", "--session", "r1")
    assert (code, out) == (Exit.DONE, "r1\n")
    assert "next, 'wakeful session send r1 TEXT --wait'" in err

    code, out, err = cli("session", "send", "r1", "order-7", "--wait", "--timeout", "20")
    assert code == Exit.DONE, err
    step = re.search(r"'wakeful (approval approve \S+ --session r1)'", err)
    assert step, err

    code, shown, _ = cli("session", "show", "r1", "--json")
    assert (code, shown["status"], shown["turn"]) == (Exit.DONE, "Waiting", 1)
    assert [owed["kind"] for owed in shown["waiting_for"]] == ["approval"]
    allowed = {one["command"]: one["allowed"] for one in shown["next_valid"]}
    assert allowed["DecideApproval"]
    assert not allowed["ReleaseSession"]
    assert shown["events"][-1]["kind"] == "SessionWaiting"

    _, proposals, _ = cli("approval", "list", "--session", "r1", "--json")
    assert [row["session_id"] for row in proposals] == ["r1"]

    code, out, err = cli(*step[1].split(), "--comment", "fine", "--wait", "--timeout", "20")
    assert code == Exit.DONE, err
    assert out.startswith("Refunded 250.00.\noutcome: ")

    code, out, _ = cli("session", "list", "--status", "completed")
    assert "r1" in out
    code, out, _ = cli("session", "show", "r1")
    assert "Completed" in out
    assert "ApprovalGranted" in out

    code, out, err = cli(*step[1].split())
    assert code == Exit.REFUSED
    assert "session_ended" in err


def test_what_is_told_twice_is_applied_once(cli: Cli) -> None:
    first = cli("session", "open", "refund-desk", "--idempotency-key", "k1", "--json")
    second = cli("session", "open", "refund-desk", "--idempotency-key", "k1", "--json")
    assert (first[0], second[0]) == (Exit.DONE, Exit.DONE)
    assert first[1]["session_id"] == second[1]["session_id"]
    assert (first[1]["verdict"], second[1]["verdict"]) == ("applied", "repeat")


def test_what_was_refused_is_refused_again_when_it_is_told_again(cli: Cli) -> None:
    cli("session", "open", "refund-desk", "--session", "k2")
    late = ("session", "send", "k2", "hi", "--message-id", "m1", "--expected-seq", "9", "--json")
    for code, told, _ in (cli(*late), cli(*late)):
        assert (code, told["verdict"], told["reason"]) == (Exit.REFUSED, "refused", "stale_state")


def test_a_decision_needs_no_database_when_session_and_digest_are_given(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("session", "open", "refund-desk", "--session", "r2")
    _, sent, _ = cli("session", "send", "r2", "order-9", "--wait", "--json")
    asked = sent["approvals"][0]
    monkeypatch.setenv("WAKEFUL_POSTGRES", "postgresql://127.0.0.1:1/nowhere")
    digest = ("--session", "r2", "--digest", asked["digest"])
    code, said, err = cli("approval", "reject", asked["proposal_id"], *digest, "--wait", "--json")
    assert code == Exit.DONE, err
    assert said["replies"] == [{"text": "A supervisor declined this refund."}]
    wrong = ("--session", "r2", "--digest", "ab" * 32)
    code, _, err = cli("approval", "approve", asked["proposal_id"], *wrong)
    assert code == Exit.REFUSED
    assert "refused (" in err


def test_signals_are_kept_and_what_is_not_in_doubt_cannot_be_resolved(cli: Cli) -> None:
    cli("session", "open", "refund-desk", "--session", "g1")
    for told in ("received: a turn that asks for 'paid' gets it", "nothing changed"):
        code, _, err = cli("signal", "g1", "paid", '{"cents": 5}', "--signal-id", "x1")
        assert code == Exit.DONE
        assert told in err
    code, out, err = cli("signal", "nobody", "paid", "--json")
    assert (code, out["verdict"], out["reason"]) == (Exit.NOT_FOUND, "refused", "unknown_session")

    cli("session", "send", "g1", "order-7", "--wait", "--timeout", "20")
    for activity_id, reason in (("1.1", "already_settled"), ("9.9", "not_uncertain")):
        code, _, err = cli("activity", "resolve", "g1", activity_id, "--failed")
        assert code == Exit.REFUSED
        assert reason in err
        assert "see 'wakeful activity list g1'" in err
    cli("session", "show", "g1")  # waits for the views
    code, rows, _ = cli("activity", "list", "g1", "--json")
    assert (code, [row["activity_id"] for row in rows]) == (Exit.DONE, ["1.1"])
    assert (rows[0]["status"], rows[0]["contract"], rows[0]["next"]) == ("completed", "read", "")
    code, _, err = cli("activity", "list", "nobody")
    assert code == Exit.NOT_FOUND
    assert "no session 'nobody'" in err


def test_a_write_in_doubt_waits_until_somebody_says_what_became_of_it(cli: Cli) -> None:
    cli("session", "open", "wires", "--session", "u1")
    code, _, err = cli("session", "send", "u1", "order-7", "--wait", "--timeout", "20")
    assert code == Exit.DONE, err
    assert "activity wire is uncertain: raised: " in err
    assert (
        "the line went dead in the middle; resolve it with 'wakeful activity resolve u1 1.1 " in err
    )

    _, shown, _ = cli("session", "show", "u1", "--json")
    assert [owed["kind"] for owed in shown["waiting_for"]] == ["uncertain"]
    _, (row,), _ = cli("activity", "list", "--uncertain", "u1", "--json")
    assert (row["action"], row["contract"], row["attempts"]) == ("wire", "write_once", 1)
    assert "wakeful activity resolve u1 1.1 --completed JSON" in row["next"]

    code, _, err = cli("activity", "resolve", "u1", "1.1", "--completed", "[1]")
    assert code == Exit.REFUSED
    assert "wrong_result" in err
    assert "give --completed what the tool would have returned" in err
    code, out, err = cli(
        *("activity", "resolve", "u1", "1.1", "--completed", '"receipt 9"', "--wait"),
        *("--comment", "seen at the bank", "--actor", "sue", "--timeout", "20"),
    )
    assert (code, out) == (Exit.DONE, "receipt 9\n"), err
    code, _, err = cli("activity", "resolve", "u1", "1.1", "--failed")
    assert code == Exit.REFUSED
    assert "already_settled" in err
    cli("session", "show", "u1")
    _, (row,), _ = cli("activity", "list", "u1", "--json")
    assert (row["status"], row["resolved_by"], row["comment"]) == (
        "completed",
        "sue",
        "seen at the bank",
    )


def test_a_doubt_that_its_workflow_was_told_of_waits_for_nobody(cli: Cli) -> None:
    cli("session", "open", "decides", "--session", "u2")
    _, sent, _ = cli("session", "send", "u2", "order-7", "--wait", "--timeout", "20", "--json")
    assert sent["replies"] == [{"text": "nobody knows"}]
    assert cli("session", "show", "u2", "--json")[1]["uncertain"] == []
    assert cli("activity", "list", "u2", "--uncertain", "--json")[1] == []
    _, (row,), _ = cli("activity", "list", "u2", "--json")
    assert (row["status"], row["next"]) == ("uncertain", "nothing: its workflow was told")
    code, _, err = cli("activity", "resolve", "u2", "1.1", "--failed")
    assert code == Exit.REFUSED
    assert "'1.1' does not wait to be resolved: its workflow was told that it is uncertain" in err


def test_a_session_is_signalled_answered_and_started_by_an_occasion(cli: Cli) -> None:
    cli("session", "open", "listens", "--session", "l1")
    _, _, err = cli("session", "send", "l1", "hello", "--wait", "--timeout", "20")
    assert "waiting for signal paid: 'wakeful signal l1 paid JSON'" in err
    code, out, err = cli("signal", "l1", "paid", "7", "--wait", "--timeout", "20")
    assert (code, out) == (Exit.DONE, "paid 7\n"), err
    assert "waiting for a message: 'wakeful session send l1 TEXT'" in err
    code, out, err = cli("session", "send", "l1", "more", "--wait", "--timeout", "20")
    assert (code, out) == (Exit.DONE, "and more\n"), err
    code, out, err = cli(
        *("session", "start-turn", "l1", "--trigger", "schedule", "--reason", "monday"),
        *("--wait", "--timeout", "20"),
    )
    assert (code, out) == (Exit.DONE, "schedule: monday\n"), err
    code, out, _ = cli("session", "show", "l1")
    assert "2 (schedule: monday)" in out


def test_strangers_are_refused_and_their_letters_kept(cli: Cli) -> None:
    code, _, err = cli("session", "send", "nobody", "hello")
    assert code == Exit.NOT_FOUND
    assert "there is no session 'nobody'" in err
    code, _, err = cli("session", "open", "no-such-flow")
    assert code == Exit.REFUSED
    assert (
        "no workflow 'no-such-flow' is loaded here (loaded: buggy, decides, failing, listens, refund-desk, stubborn, studio, wires)"
        in err
    )
    code, letters, _ = cli("dlq", "list", "--json")
    mine = [letter for letter in letters if letter["key"] == "acme/nobody"]
    assert mine[-1]["reason"] == "unknown_session"
    code, shown, _ = cli("dlq", "show", mine[-1]["id"], "--json")
    assert shown["command"]["body"]["message"] == {"text": "hello"}
    assert cli("dlq", "show", "99@1")[0] == Exit.NOT_FOUND
    assert cli("session", "show", "nobody")[0] == Exit.NOT_FOUND
    code, _, err = cli("approval", "approve", "9.9-nothing")
    assert code == Exit.NOT_FOUND
    assert "no proposal '9.9-nothing'" in err


def test_what_libraries_log_is_not_among_the_json(
    cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    cli("session", "list", "--json")
    structlog.get_logger("any").warning("something is odd")
    out, err = capsys.readouterr()
    assert (out, "something is odd" in err) == ("", True)


def test_two_mebibytes_of_text_are_refused_with_the_limit(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = io.TextIOWrapper(io.BytesIO(b"x" * 2 * 1024 * 1024))
    monkeypatch.setattr("sys.stdin", text)
    code, _, err = cli("session", "send", "r1", "-")
    assert code == Exit.USAGE
    assert "the message is 2097163 bytes and the limit is 262144" in err


def test_a_killed_processor_loses_nothing_and_comes_back_under_its_name(
    cli: Cli, desk: tuple[Settings, Supervisor]
) -> None:
    _, supervisor = desk
    cli("session", "open", "refund-desk", "--session", "r3")
    before = supervisor.pids()
    supervisor.kill("processor-0", signal.SIGKILL)
    code, sent, err = cli("session", "send", "r3", "order-1", "--wait", "--json")
    assert code == Exit.DONE, err
    assert (sent["verdict"], sent["status"]) == ("applied", "Waiting")
    assert supervisor.pids()["processor-0"] != before["processor-0"]
    assert supervisor.exit_codes["processor-0"][-1] == -signal.SIGKILL
    _, found, _ = cli("status", "--json")
    shown = {process["name"]: process for process in found["processes"]}
    assert shown["processor-0"]["restarts"] >= 1
    assert shown["processor-0"]["pid"] == supervisor.pids()["processor-0"]


def test_a_workflow_with_a_bug_is_held_shown_and_released_to_be_held_again(cli: Cli) -> None:
    cli("session", "open", "buggy", "--session", "b1")
    code, sent, _ = cli("session", "send", "b1", "hello", "--wait", "--json")
    assert (code, sent["status"]) == (Exit.REFUSED, "Held")
    code, out, _ = cli("session", "show", "b1")
    assert "held because  RuntimeError: a bug of the workflow" in out
    assert "once it is mended: wakeful session release b1" in out
    code, said, _ = cli("session", "send", "b1", "later", "--json")
    assert (code, said["verdict"]) == (Exit.DONE, "kept")
    code, _, err = cli("session", "release", "b1")
    assert code == Exit.REFUSED
    assert "held again at once (workflow_raised: RuntimeError: a bug of the workflow)" in err


def test_a_failed_activity_fails_the_session_with_its_words(cli: Cli) -> None:
    cli("session", "open", "failing", "--session", "f1")
    code, _, err = cli("session", "send", "f1", "order-0", "--wait")
    assert code == Exit.REFUSED
    assert "the session failed: raised: no order order-0" in err
    _, out, _ = cli("session", "show", "f1")
    assert "failure     raised: no order order-0 (ValueError)" in out


def test_a_hung_sync_activity_costs_its_worker_a_restart_and_the_session_goes_on(
    cli: Cli, desk: tuple[Settings, Supervisor]
) -> None:
    _, supervisor = desk
    cli("session", "open", "stubborn", "--session", "h1")
    code, sent, err = cli("session", "send", "h1", "order-0", "--wait", "--timeout", "20", "--json")
    assert code == Exit.DONE, err
    assert sent["replies"] == [{"text": "timed_out"}, {"text": "activity-default-1"}]
    assert supervisor.exit_codes["worker-default-0"][-1] == Exit.FAULT


def test_status_shows_how_many_records_the_readers_are_behind(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("session", "open", "refund-desk", "--session", "r5")
    limit = time.monotonic() + LIMIT_S
    while True:
        _, found, _ = cli("status", "--json")
        behind = sum(one["lag"] for one in found["lag"])
        if not behind or time.monotonic() > limit:
            break
    assert (behind, found["lag_unknown"]) == (0, [])
    places = [(one["reader"], one["topic"].split(".")[1]) for one in found["lag"]]
    assert places == [("processors", "commands")] * 4 + [("projector", "events")] * 4
    _, out, _ = cli("status")
    assert re.search(r"^projector +cli\d+\.events\.v1 +3 +\d+$", out, re.MULTILINE)
    monkeypatch.setenv("WAKEFUL_NAMESPACE", "nothing-here")
    _, found, _ = cli("status", "--json")
    assert found["lag"] == []
    assert "namespace nothing-here has no topics" in found["lag_unknown"][0]


def test_events_and_outcomes_are_tailed_as_lines_and_objects(cli: Cli) -> None:
    cli("session", "open", "refund-desk", "--session", "r4")
    code, out, _ = cli("tail", "--session", "r4", "--from-start", "--no-follow")
    assert code == Exit.DONE
    assert [line.split()[3] for line in out.splitlines()] == ["SessionOpened"]
    cli("session", "cancel", "r4", "--reason", "enough")
    assert invoke(("tail", "outcomes", "--session", "r4", "--from-start", "--limit", "1")) == 0
    code, out, _ = cli("tail", "--session", "r4", "--since", "1h", "--idle", "0.3")
    assert "CancellationRequested" in out
    code, out, err = cli("tail", "--session", "nobody", "--from-start", "--no-follow")
    assert (code, out, "no session 'nobody'" in err) == (Exit.NOT_FOUND, "", True)
    assert cli("tail", "--session", "r4", "--no-follow")[0] == Exit.DONE  # there, and quiet


def test_a_namespace_without_topics_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_NAMESPACE", "nothing-here")
    code, _, err = cli("session", "send", "r1", "hello")
    assert (code, "namespace nothing-here has no topics" in err) == (Exit.NOT_FOUND, True)
    code, _, err = cli("session", "list")
    assert code == Exit.UNAVAILABLE
    assert "no views in this database yet for namespace nothing-here" in err


def test_another_number_of_partitions_is_refused_before_anything_is_created(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_PARTITIONS", "7")
    code, _, err = cli("topics", "apply", "--queue", "brand-new")
    assert code == Exit.USAGE
    assert "has 4 partitions, WAKEFUL_PARTITIONS is 7" in err
    monkeypatch.setenv("WAKEFUL_PARTITIONS", "4")
    code, found, _ = cli("topics", "apply", "--queue", "brand-new", "--json")
    assert len(found["created"]) == 2


def test_a_broker_of_another_cluster_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_CLUSTER_ID", "some-other-cluster")
    code, _, err = cli("session", "send", "r1", "hello")
    assert code == Exit.UNAVAILABLE
    assert "expected some-other-cluster: another broker has taken its address" in err


def test_the_history_of_all_this_keeps_every_promise(cli: Cli) -> None:
    cli("session", "open", "refund-desk")
    limit = time.monotonic() + LIMIT_S
    while True:
        code, found, err = cli("audit", "verify", "--json")
        if code != Exit.NOT_IN_TIME or time.monotonic() > limit:
            break
    assert (code, found["violations"], found["views"]) == (Exit.DONE, [], True), err
    assert found["events"] > 0


def test_an_assistant_sends_and_decides_in_the_users_name(cli: Cli, keys: Path) -> None:
    """Over stdio, as it is served to one; the record says how it came in."""
    cli("session", "open", "refund-desk", "--session", "mcp1")
    serve = ["-m", "wakeful", "mcp", "serve", "--allow", "decide,send"]
    program = mcp.StdioServerParameters(command=sys.executable, args=serve, env=dict(os.environ))

    async def ask() -> tuple[Any, Any, Any]:
        async with mcp.Client(program) as client:

            async def told(name: str, **arguments: Any) -> Any:
                answer = await client.call_tool(name, arguments)
                assert not answer.is_error, answer.content[0].text
                return json.loads(answer.content[0].text)

            session = {"session_id": "mcp1"}
            sent = await told("send_message", **session, text="order-9", message_id="m1")
            while not (asked := await told("list_approvals", **session)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            this = {"proposal_id": asked[0]["proposal_id"], "digest": asked[0]["digest"]}
            done = await told("decide_approval", **session, **this, decision="reject")
            story = await told("explain_session", **session)
            return sent, done, story

    sent, done, story = asyncio.run(asyncio.wait_for(ask(), 3 * LIMIT_S))
    assert (sent["verdict"], done["verdict"]) == ("applied", "applied")
    assert "ann declined it" in json.dumps(story["story"])
    _, shown, _ = cli("session", "show", "mcp1", "--events", "50", "--json")
    came = {e["kind"]: e["channel"] for e in shown["events"] if "channel" in e}
    assert (came["MessageReceived"], came["ApprovalRejected"]) == ("mcp", "mcp")
