"""Quotas of tenants, refusals that are told together, and what a stranger learns: nothing of others' sessions."""

import random
from fractions import Fraction

import pytest

from tests.processors.desk import KEY
from tests.processors.loops import Cluster
from wakeful.commands.models import CancelSession, CompleteActivity, OpenSession, SendMessage
from wakeful.commands.wire import decode_command
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.payloads import json_payload
from wakeful.processors import quotas as module
from wakeful.processors.quotas import REFUSALS, Meters, Quotas, Rate
from wakeful.projections.audit import CHECKS, asked_by, evidence_from_log
from wakeful.projections.audit.folds import refold
from wakeful.projections.audit.history import History

HELLO = SendMessage(json_payload({"text": "hello"}, KEY))
TWO = Quotas(commands=Rate(2, 1_000))


def cluster_with(quotas=None, faults=None):
    cluster = Cluster(faults=faults)
    cluster.start(quotas=quotas)
    return cluster


def refused(cluster, tenant="acme"):
    """Reasons of refusals that left no event, by command."""
    return {
        outcome.command_id: outcome.reason
        for outcome in cluster.outcomes()
        if outcome.seq is None and outcome.tenant == tenant
    }


def violations(cluster):
    evidence = evidence_from_log(
        cluster.log,
        cluster.topics,
        cluster.app.queues,
        committed=cluster.log.group_offsets("desk.processors"),
        rows=None,
        positions=None,
        quiescent=False,
    )
    history = History.read(evidence, asked_by(decode_command))
    folded = refold(history)
    return [str(told) for _, promise in CHECKS for told in promise(history, folded)]


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100/s", (100, 1_000)), ("6000/min", (6_000, 60_000)), ("20/h", (20, 3_600_000))],
)
def test_a_rate_is_read_as_people_write_it(text, rate):
    assert Rate.from_text(text) == Rate(*rate)


@pytest.mark.parametrize("text", ["", "0/s", "100", "100/day", "-1/s", "1.5/s", "99999999999/s"])
def test_what_is_no_rate_says_what_one_is(text):
    with pytest.raises(ValueError, match=r"such as 100/s|expected 1 to"):
        Rate.from_text(text)


@pytest.mark.parametrize("seed", range(20))
def test_a_meter_grants_what_a_bucket_that_fills_by_the_log_would(seed):
    rng = random.Random(seed)
    rate = Rate(rng.randint(1, 9), rng.choice((7, 100, 1_000)))
    meters, level, now_ms = Meters(), Fraction(rate.most), 0
    for _ in range(300):
        passed_ms = rng.choice((0, 0, 1, rate.per_ms // 3, rate.per_ms * 2))
        now_ms += passed_ms
        level = min(Fraction(rate.most), level + Fraction(passed_ms * rate.most, rate.per_ms))
        trial = meters.trial()
        wait_ms = trial.wait_ms(("commands", "a"), rate, now_ms)
        assert (wait_ms == 0) == (level >= 1)
        assert trial.wait_ms(("commands", "a"), rate, now_ms + wait_ms) == 0
        assert not wait_ms or trial.wait_ms(("commands", "a"), rate, now_ms + wait_ms - 1)
        if not wait_ms:
            trial.take(("commands", "a"), rate, now_ms)
            if rng.random() < 0.8:
                trial.keep()
                level -= 1


def test_meters_of_made_up_keys_cost_no_memory(monkeypatch):
    monkeypatch.setattr(module, "METERS_MAX", 10)
    meters = Meters()
    for number in range(100):
        trial = meters.trial()
        trial.take(("refusals", b"%d" % number), REFUSALS, number)
        trial.keep()
    assert len(meters) == 10


def test_a_tenant_over_its_quota_is_told_when_to_come_again_and_is_let_in_then():
    cluster = cluster_with(TWO)
    cluster.open()
    cluster.send(HELLO, command_id="third")
    cluster.run()
    assert refused(cluster) == {"third": "over_quota"}
    (letter,) = cluster.dead()
    assert "more than 2 commands in 1000 ms" in letter.detail
    again_ms = int(letter.detail.partition("again at ")[2].partition(",")[0])
    assert cluster.facts().count("MessageReceived") == 1
    cluster.clock.ms = max(cluster.clock.ms, again_ms)
    cluster.send(HELLO, command_id="third")
    cluster.run()
    assert cluster.facts().count("MessageReceived") == 2
    assert violations(cluster) == []


def test_others_in_the_same_batch_are_not_refused_for_one_that_floods():
    cluster = cluster_with(TWO)
    for number in range(50):
        cluster.send(HELLO, "s9", tenant="flood")
        if number in (10, 40):
            cluster.send(OpenSession("desk"), f"s{number}", tenant=f"t{number}")
            cluster.send(HELLO, f"s{number}", tenant=f"t{number}")
    cluster.run()
    assert {outcome.tenant for outcome in cluster.outcomes()} == {"flood"}
    assert all("MessageReceived" in cluster.facts(f"s{number}") for number in (10, 40))
    assert set(refused(cluster, "flood").values()) == {"unknown_session", "over_quota"}
    assert violations(cluster) == []


def test_results_wake_ups_and_repeats_are_never_over_quota():
    cluster = cluster_with(Quotas(commands=Rate(2, 3_600_000)))
    cluster.open(workflow="sleeper")
    cluster.run()
    cluster.send(HELLO, command_id="c2")  # by its id: another text would be another command
    cluster.clock.ms += 700_000
    cluster.run(80)
    assert "TimerFired" in cluster.facts()
    assert refused(cluster) == {}
    other = cluster_with(Quotas(commands=Rate(2, 3_600_000)))
    other.open()
    other.run()
    other.answer()
    other.run()
    assert "ActivityCompleted" in other.facts()
    assert refused(other) == {}


def test_new_sessions_have_a_quota_of_their_own_and_old_ones_go_on():
    cluster = cluster_with(Quotas(sessions=Rate(2, 1_000)))
    for number in range(3):
        cluster.send(OpenSession("desk"), f"s{number}", f"open-{number}")
    cluster.send(OpenSession("desk"), "s0", "twice")
    cluster.send(HELLO, "s0", "more")
    cluster.run()
    assert refused(cluster) == {"open-2": "over_quota"}
    assert cluster.facts("s0")[:3] == ["SessionOpened", "CommandRefused", "MessageReceived"]
    assert "2 new sessions in 1000 ms" in cluster.dead()[0].detail


class FirstCommitFails(NoFaults):
    def __init__(self):
        self.commits = 0

    def on_commit(self, transactional_id):
        self.commits += 1
        return Fate.FAILED if self.commits == 1 else Fate.OK


def test_what_a_failed_transaction_would_have_used_is_not_used():
    faults = FirstCommitFails()
    cluster = cluster_with(Quotas(commands=Rate(2, 3_600_000)), faults)
    cluster.open()
    cluster.run()
    assert faults.commits > 1
    assert cluster.facts()[:2] == ["SessionOpened", "MessageReceived"]
    assert refused(cluster) == {}


def test_a_flood_of_strangers_is_told_of_together_and_each_one_is_accounted_for():
    cluster = cluster_with()
    for number in range(350):
        cluster.send(HELLO, "nobody")
        if number % 50 == 0:
            cluster.send(CancelSession("no"), "somebody")
    cluster.run()
    letters = [letter for letter in cluster.dead() if letter.count > 1]
    (together,) = letters
    assert (together.reason, together.count) == ("unknown_session", 350 - REFUSALS.most)
    assert f"one of {together.count} like it" in together.detail
    assert f"up to offset {together.last_offset} of desk.commands.v1/0" in together.detail
    assert len(cluster.outcomes()) == REFUSALS.most + 7
    assert violations(cluster) == []


def test_unreadable_bytes_and_a_tenant_over_quota_are_told_of_together_too():
    cluster = cluster_with(Quotas(commands=Rate(1, 3_600_000)))
    for number in range(150):
        cluster.raw(b"acme/s1", b"garbage")
        cluster.send(HELLO, f"s{number}", tenant="flood")
    cluster.run()
    counts = {letter.reason: letter.count for letter in cluster.dead() if letter.count > 1}
    assert set(counts.values()) == {150 - REFUSALS.most, 149 - REFUSALS.most}
    assert counts["over_quota"] == 149 - REFUSALS.most
    assert violations(cluster) == []


def test_anothers_session_and_none_are_refused_in_the_same_words():
    """Whoever guesses the id of another tenant's session learns as much as by making one up."""
    cluster = cluster_with()
    cluster.open("theirs")
    cluster.run()
    ours = [
        HELLO,
        CancelSession("mine now"),
        OpenSession("nothing-loaded"),
        CompleteActivity("1.1", 1, json_payload(1, KEY), "w1"),
    ]
    before = cluster.facts("theirs")
    for body in ours:
        for session_id in ("theirs", "nowhere"):
            cluster.send(body, session_id, f"{type(body).__name__}-{session_id}", tenant="spy")
    cluster.run()
    told = {}
    for outcome in cluster.outcomes():
        if outcome.tenant == "spy":
            name, _, session_id = outcome.command_id.rpartition("-")
            detail = outcome.detail.replace(session_id, "?")
            told.setdefault(session_id, {})[name] = (outcome.kind, outcome.reason, detail)
    assert told["theirs"] == told["nowhere"]
    assert len(told["theirs"]) == len(ours)
    assert cluster.facts("theirs") == before
