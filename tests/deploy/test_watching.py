"""Watching a command: what became of it is told by the facts that it led to, and by no others."""

import itertools

import pytest
from tests.processors.desk import KEY
from tests.processors.loops import Cluster

from wakeful.commands.client import Client
from wakeful.commands.models import OpenSession
from wakeful.deploy.cli.watching import Rest, Watch, _take, nondeterminism
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
