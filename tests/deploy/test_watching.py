"""Watching a command: what became of it is told by the facts that it led to, and by no others."""

import itertools
import json

import pytest
from tests.processors.desk import KEY
from tests.processors.loops import Cluster

from wakeful.commands.client import Client
from wakeful.commands.models import OpenSession
from wakeful.commands.sending import Receipt
from wakeful.deploy.cli import asking
from wakeful.deploy.cli.asking import Answer, finish
from wakeful.deploy.cli.watching import Rest, Verdict, Watch, _take, _takes, nondeterminism
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.settings import Settings
from wakeful.deploy.telling.reading import refusal_of
from wakeful.events import records as r
from wakeful.processors import handler

WAIT_MS = 200


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.start()
    return cluster


@pytest.fixture
def client(cluster):
    ids = itertools.count(1)
    with Client(
        cluster.log,
        cluster.topics,
        tenant="acme",
        actor="sue",
        channel="test",
        digest_key=KEY,
        now_ms=cluster.clock.now_ms,
        new_id=lambda: f"id-{next(ids)}",
    ) as opened:
        yield opened


def asked(cluster):
    """Brings the session to a proposal, and gives it."""
    cluster.open()
    for _ in range(3):
        cluster.run()
        cluster.answer(cents=20_000)
    (proposal,) = [e.body for e in cluster.events() if isinstance(e.body, r.ApprovalRequested)]
    return proposal


def approve(cluster, client, proposal):
    """The verdict on an approval, as `approval approve` asks for it."""
    with Watch(cluster.log, cluster.topics, "acme", "s1") as watch:
        receipt = client.decide("s1", proposal.proposal_id, proposal.digest, "approve")
        cluster.run()
        return watch.verdict(receipt.command_id, WAIT_MS)


def test_an_approval_in_time_is_applied(cluster, client):
    proposal = asked(cluster)
    assert approve(cluster, client, proposal).kind == "applied"
    assert "ApprovalGranted" in cluster.facts()


def test_an_approval_after_an_expiry_that_nobody_woke_is_refused_and_not_applied(cluster, client):
    proposal = asked(cluster)
    cluster.clock.ms = proposal.expires_at_ms + 1
    verdict = approve(cluster, client, proposal)
    assert "ApprovalExpired" in cluster.facts()
    assert "ApprovalGranted" not in cluster.facts()
    assert (verdict.kind, verdict.reason) == ("refused", "already_decided")


def test_a_difference_is_told_in_one_sentence_wherever_it_is_met():
    body = r.NondeterminismFound(1, 4, "find_order", "refund")
    rest = Rest()
    _take(rest, body, ours=False)
    assert (rest.status, rest.detail) == ("Held", nondeterminism(body))


def test_a_session_that_waits_for_somebody_rests_and_says_for_what():
    died = r.Failure("cut_off", "", "it died", "")
    for kind, name in (("uncertain", "refund"), ("signal", "paid"), ("inbox", "")):
        owed = (r.Obligation(kind, "1.3", name, None, "waits"),)
        rest = Rest()
        _take(rest, r.ActivityUncertain("1.3", 1, died, "w"), ours=True)
        _take(rest, r.SessionWaiting(1, owed, ()), ours=True)
        assert (rest.status, rest.obligations) == ("Waiting", owed)
        assert rest.doubts == {"1.3": "cut_off: it died"}


def test_a_session_that_waits_for_time_alone_does_not_rest():
    rest = Rest()
    owed = (r.Obligation("timer", "1.3", "sleep", 9, "fires"),)
    _take(rest, r.SessionWaiting(1, owed, ()), ours=True)
    assert rest.status == ""


def test_whatever_takes_what_was_sent_is_the_turn_that_is_watched():
    data = r.Payload("json", b"1", None, b"", 1, None)
    for body in (
        r.TurnStarted(1, "schedule", "", "x1", "desk", 1, ()),
        r.InboxTaken("1.2", (r.TakenMessage("x1", "ann", data),)),
        r.SignalDelivered("1.2", "x1", data),
    ):
        assert _takes(body, "x1")
        assert not _takes(body, "x2")
    assert not _takes(r.SignalReceived("x1", "paid", data), "x1")


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("not_uncertain", "see 'wakeful activity list s1'"),
        ("already_settled", "see 'wakeful activity list s1'"),
        ("wrong_result", "what the tool would have returned"),
    ],
)
def test_a_refusal_says_what_to_do_next(reason, step):
    answer = Answer(Receipt("s1", "c1", 1, "t", 0, 0), Verdict("refused", reason, "no"))
    with pytest.raises(Stopped, match=step) as stopped:
        finish(answer, as_json=False, done="")
    assert stopped.value.code == Exit.REFUSED


@pytest.mark.parametrize("as_json", [False, True])
def test_a_wait_for_a_doubt_tells_how_to_end_it(capsys, as_json):
    owed = (r.Obligation("uncertain", "1.3", "refund", None, "waits to be resolved"),)
    rest = Rest("Waiting", "uncertain refund", obligations=owed, doubts={"1.3": "it died"})
    answer = Answer(Receipt("s1", "c1", 1, "t", 0, 0), Verdict("applied"), rest)
    assert finish(answer, as_json=as_json, done="") == Exit.DONE
    out, err = capsys.readouterr()
    if as_json:
        assert json.loads(out)["waiting_for"][0]["id"] == "1.3"
    else:
        assert err.startswith(
            "activity refund is uncertain: it died; resolve it with 'wakeful activity resolve s1 1.3 "
        )


def test_a_signal_and_a_trigger_are_applied_once(cluster, client):
    asked(cluster)
    for ask in (
        lambda: client.signal("s1", "paid", 1, "x1"),
        lambda: client.start_turn("s1", "schedule", "monday", trigger_id="x2"),
    ):
        with Watch(cluster.log, cluster.topics, "acme", "s1") as watch:
            receipt = ask()
            ask()
            cluster.run()
            assert watch.verdict(receipt.command_id, WAIT_MS).kind == "applied"
    assert cluster.facts().count("SignalReceived") == 1
    assert cluster.facts().count("TriggerReceived") == 1


def test_a_resolution_of_what_is_not_in_doubt_is_refused_with_the_reason(cluster, client):
    asked(cluster)
    for activity_id, reason in (("1.1", "already_settled"), ("7.7", "not_uncertain")):
        with Watch(cluster.log, cluster.topics, "acme", "s1") as watch:
            receipt = client.resolve("s1", activity_id, "failed")
            cluster.run()
            verdict = watch.verdict(receipt.command_id, WAIT_MS)
        assert (verdict.kind, verdict.reason) == ("refused", reason)


def test_a_refusal_is_found_again_by_the_id_of_its_command(cluster, client):
    asked(cluster)
    refused = client.resolve("s1", "7.7", "failed", command_id="r1")
    client.signal("s1", "paid", 1, "x1")
    cluster.run()
    session = ("acme", "s1")
    found = refusal_of(cluster.log, cluster.topics, session, refused.command_id, 0)
    assert (found.reason, found.command_type) == ("not_uncertain", "ResolveActivity")
    assert refusal_of(cluster.log, cluster.topics, session, "x1", 0) is None
    assert refusal_of(cluster.log, cluster.topics, ("acme", "s2"), "r1", 0) is None


def test_a_command_over_which_its_session_is_held_is_kept_for_a_reason(
    cluster, client, monkeypatch
):
    monkeypatch.setattr(handler, "decide", lambda *_: 1 / 0)
    cluster.send(OpenSession("desk"))
    cluster.run()
    with Watch(cluster.log, cluster.topics, "acme", "s1") as watch:
        receipt = client.send("s1", "hello")
        cluster.run()
        verdict = watch.verdict(receipt.command_id, WAIT_MS)
    assert (verdict.kind, verdict.reason) == ("kept", "engine_fault")
    assert "ZeroDivisionError" in verdict.detail


class Undecided:
    """A watch that sees nothing so often, and then that it was applied."""

    def __init__(self, times: int) -> None:
        self.times = times

    def verdict(self, _command_id: str, _timeout_ms: int) -> Verdict:
        self.times -= 1
        return Verdict("undecided") if self.times >= 0 else Verdict("applied")


@pytest.mark.parametrize(("usual_ms", "told"), [(0, 1), (60_000, 0)])
def test_who_waits_for_long_is_told_once_that_nobody_has_decided(
    monkeypatch, capsys, usual_ms, told
) -> None:
    monkeypatch.setattr(asking, "DECIDED_MS", usual_ms)
    monkeypatch.setattr("wakeful.events.log.kafka_survey.committed_offsets", lambda *_: {})
    receipt = Receipt("s1", "c1", 0, "desk.commands.v1", 0, 7)
    given = Settings(kafka="nowhere:1", namespace="desk")
    assert asking._verdict(given, Undecided(3), receipt, 60_000).kind == "applied"
    shown = capsys.readouterr().err
    assert shown.count("no processor has decided it yet: see with 'wakeful status'") == told
    assert shown.count("waiting on") == told
