"""What a processor makes of commands that nobody vouches for: an outcome, a dead letter, and nothing more."""

import pytest

from tests.commands.keys import Ring, key, signed
from tests.processors.desk import KEY, Desk
from tests.processors.loops import Cluster, play
from wakeful import Message, Turn, workflow
from wakeful.commands.identity import Signed
from wakeful.commands.keyring import RETIRED, REVOKED, Keyring
from wakeful.commands.models import (
    CancelSession,
    Command,
    CommandHeader,
    CompleteActivity,
    DecideApproval,
    FireTimer,
    OpenSession,
    ReleaseSession,
    SendMessage,
)
from wakeful.commands.signatures import KEY_HEADER
from wakeful.commands.wire import encode_command
from wakeful.events import records as r
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.payloads import json_payload
from wakeful.processors.app import gather

PEOPLE, WORKER, ENGINE = key("people"), key("worker", "worker"), key("engine", "processor")
BETA = key("beta", tenants=frozenset({"beta"}))
CAROL = key("carol", actor="carol")


@pytest.fixture
def ring():
    return Ring(PEOPLE, WORKER, ENGINE)


@pytest.fixture
def cluster(ring):
    made = Cluster(identity=Signed(ring, "memory"))
    made.start()
    return made


def forge(cluster, body, *, by=None, tenant="acme", actor="eve", command_id="forged", **where):
    """A command under a key that the forger has, or none, in the place where it is read."""
    header = CommandHeader(tenant, "s1", command_id, cluster.clock.ms, actor, None, "evil", None)
    said = Command(header, body)
    encoded, place = encode_command(said), session_key(tenant, "s1")
    topic, there = where.get("topic", cluster.topics.commands), where.get("there", "memory")
    mark = () if by is None else signed(by, said, topic=topic, cluster=there)
    cluster.raw(place, encoded.value, [*record_headers(encoded, command_id), *mark])
    cluster.run()


def asked(cluster):
    """Brings the session to a proposal, and gives the decision that would carry it out."""
    cluster.open()
    cluster.run()
    cluster.answer(cents=25_000)
    cluster.run()
    wanted = next(e.body for e in cluster.events() if isinstance(e.body, r.ApprovalRequested))
    return DecideApproval(wanted.proposal_id, wanted.digest, "approve", "")


def refused(cluster, reason):
    """Exactly one refusal at identity, told to whoever waits and laid aside with its reason."""
    told = [outcome.reason for outcome in cluster.outcomes() if outcome.kind == "refused"]
    assert told == [reason]
    assert [letter.reason for letter in cluster.dead()] == [reason]


def test_the_whole_story_is_signed_and_every_event_names_its_key(cluster) -> None:
    play(cluster, cluster.run)
    assert cluster.facts()[-1] == "SessionCompleted"
    by = {type(e.body).__name__: e.envelope.vouched_by for e in cluster.events()}
    assert by["MessageReceived"] == "people"
    assert by["ActivityCompleted"] == "worker"
    kids = {
        dict(record.headers).get(KEY_HEADER) for record in cluster.log.dump(cluster.topics.commands)
    }
    assert kids == {b"people", b"worker"}
    assert cluster.dead() == []


def test_a_wake_up_is_signed_by_the_processor(cluster) -> None:
    cluster.open(workflow="sleeper")
    cluster.run()
    cluster.clock.ms += 3_600_000 * 48
    cluster.run()
    woken = [e for e in cluster.events() if isinstance(e.body, r.TimerFired)]
    assert [e.envelope.vouched_by for e in woken] == ["engine"]


@pytest.mark.parametrize(
    ("by", "where", "reason"),
    [
        (None, {}, "unsigned"),
        (key("people", secret=b"\1" * 32), {}, "bad_signature"),
        (key("worker"), {}, "wrong_kind"),
        (key("stranger"), {}, "unknown_key"),
        (PEOPLE, {"topic": "other.commands.v1"}, "bad_signature"),
        (PEOPLE, {"there": "staging"}, "bad_signature"),
        (key("beta"), {}, "wrong_tenant"),
        (key("carol"), {"actor": "sue"}, "forged_actor"),
    ],
)
def test_an_approval_that_no_key_vouches_for_moves_no_money(
    cluster, ring, by, where, reason
) -> None:
    ring.keys = Keyring((PEOPLE, WORKER, ENGINE, BETA, CAROL))
    decision = asked(cluster)
    before, tasks = cluster.facts(), len(cluster.tasks())
    forge(cluster, decision, by=by, **where)
    assert cluster.facts() == before
    assert len(cluster.tasks()) == tasks
    refused(cluster, reason)


def test_a_gateway_cannot_report_the_result_of_a_call(cluster) -> None:
    cluster.open()
    cluster.run()
    (task,) = cluster.tasks()
    before = cluster.facts()
    result = CompleteActivity(task.activity_id, 1, json_payload(1, KEY), "w1")
    forge(cluster, result, by=key("people", "worker"), actor="worker:w1")
    assert cluster.facts() == before
    refused(cluster, "wrong_kind")


def test_a_worker_cannot_wake_a_session_nor_a_processor_answer_for_a_worker(cluster) -> None:
    cluster.open()
    cluster.run()
    before = cluster.facts()
    forge(cluster, FireTimer("1.1", 1), by=key("worker", "processor"))
    assert cluster.facts() == before
    refused(cluster, "wrong_kind")


def test_a_strangers_command_grows_no_history_and_does_not_tell_whether_there_is_one(
    cluster,
) -> None:
    forge(cluster, CancelSession("mine"))
    unknown = [(o.reason, o.detail) for o in cluster.outcomes()]
    cluster.open()
    cluster.run()
    forge(cluster, CancelSession("mine"))
    known = [(o.reason, o.detail) for o in cluster.outcomes() if o.kind == "refused"]
    assert known == unknown * 2
    assert "SessionCancelled" not in cluster.facts()


@pytest.mark.parametrize("by", [None, key("beta"), key("stranger")])
def test_whoever_is_refused_at_identity_has_not_touched_the_session(
    cluster, ring, by, monkeypatch
) -> None:
    """So neither words nor time tell him whether there is one: it is not looked for."""
    ring.keys = Keyring((PEOPLE, WORKER, ENGINE, BETA))
    cluster.open()
    cluster.run()
    looked_for = []
    partition = type(next(iter(cluster.loops[0]._partitions.values())))
    find = partition.session

    def noted(self, session):
        looked_for.append(session)
        return find(self, session)

    monkeypatch.setattr(partition, "session", noted)
    forge(cluster, CancelSession("mine"), by=by)
    assert len(cluster.dead()) == 1
    assert looked_for == []
    cluster.send(CancelSession("ours"))
    cluster.run()
    assert looked_for == [b"acme/s1"]


def test_the_same_signed_record_again_changes_nothing(cluster) -> None:
    cluster.open()
    cluster.run()
    before = cluster.facts()
    for record in cluster.log.dump(cluster.topics.commands):
        cluster.raw(record.key, record.value, record.headers)
    cluster.run()
    assert cluster.facts() == before
    assert cluster.dead() == []


def test_a_signed_record_played_again_long_after_is_too_old(cluster) -> None:
    cluster.open()
    cluster.run()
    message = next(
        record
        for record in cluster.log.dump(cluster.topics.commands)
        if dict(record.headers)["ce_type"].endswith(b"SendMessage")
    )
    cluster.clock.ms += 40 * 86_400_000
    cluster.send(SendMessage(json_payload({"text": "later"}, KEY)))
    cluster.run()
    cluster.raw(message.key, message.value, message.headers)
    cluster.run()
    *_, last = cluster.events()
    assert last.body.reason == "too_old"


@workflow("mendable", version=1)
async def mendable(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Fails until somebody mends it."""
    if not MENDED:
        raise RuntimeError("broken")
    return desk


MENDED: list[bool] = []


def kept_and_released(ring, people):
    """What became of a message that was kept while its session was held; the key behind it is `people` by the release."""
    MENDED.clear()
    cluster = Cluster(identity=Signed(ring, "memory"))
    cluster.app = gather((mendable,))
    cluster.start()
    cluster.open(workflow="mendable")
    cluster.run()
    assert "SessionHeld" in cluster.facts()
    cluster.send(SendMessage(json_payload({"text": "kept"}, KEY)), command_id="kept")
    cluster.run()
    assert cluster.facts()[-1] == "CommandParked"
    ring.keys = Keyring((people, key("operator"), WORKER, ENGINE))
    MENDED.append(True)
    cluster.kill()
    cluster.start()
    cluster.run()
    cluster.send(ReleaseSession("mended"))
    cluster.run()
    released = [e for e in cluster.events() if isinstance(e.body, r.SessionReleased)]
    assert [e.envelope.vouched_by for e in released] == ["operator"]
    said = [e for e in cluster.events() if e.envelope.cause.command_id == "kept"]
    assert {e.envelope.vouched_by for e in said} == {"people"}
    return cluster, [e.body for e in said]


def test_a_command_kept_while_its_session_is_held_keeps_its_evidence(ring) -> None:
    _, (parked, *became) = kept_and_released(ring, key("people", status=RETIRED))
    assert isinstance(parked, r.CommandParked)
    assert isinstance(became[0], r.MessageReceived)


def test_what_was_kept_counts_for_nothing_once_its_key_is_revoked(ring) -> None:
    cluster, (parked, became) = kept_and_released(ring, key("people", status=REVOKED))
    assert isinstance(parked, r.CommandParked)
    assert isinstance(became, r.CommandRefused)
    assert (became.check, became.reason) == ("identity", "revoked_key")
    told = [one for one in cluster.outcomes() if one.kind == "refused"]
    assert [one.reason for one in told] == ["revoked_key"]


def test_what_was_believed_once_is_not_asked_again_when_the_session_is_rebuilt(
    cluster, ring
) -> None:
    cluster.open()
    cluster.run()
    before = cluster.facts()
    ring.keys = Keyring((key("people", status=REVOKED), key("next"), WORKER, ENGINE))
    cluster.kill()
    cluster.start(always_replay=True)
    cluster.run()
    cluster.answer()
    cluster.run()
    assert cluster.facts()[: len(before)] == before
    assert len(cluster.facts()) > len(before)


def test_a_revoked_key_is_refused_from_then_on(cluster, ring) -> None:
    cluster.open()
    cluster.run()
    before = cluster.facts()
    ring.keys = Keyring((key("people", status=REVOKED), WORKER, ENGINE))
    forge(cluster, CancelSession("late"), by=PEOPLE, actor="ann")
    assert cluster.facts() == before
    refused(cluster, "revoked_key")


def test_it_is_the_first_thing_asked_even_before_the_session_is_opened(cluster) -> None:
    forge(cluster, OpenSession("desk"))
    assert cluster.events() == []
    refused(cluster, "unsigned")
