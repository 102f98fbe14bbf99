"""Who is believed: one reason per refusal, and evidence for all else."""

from dataclasses import replace

import pytest
from tests.commands.keys import NOW_MS, TOPIC, command, identity, key, record, signed

from wakeful.commands.check import Refusal
from wakeful.commands.identity import INSECURE, Unchecked
from wakeful.commands.keyring import RETIRED, REVOKED, ROLES, Evidence, Keyring, NoKey
from wakeful.commands.models import (
    CancelSession,
    CompleteActivity,
    DecideApproval,
    FireTimer,
    OpenSession,
    ReleaseSession,
)
from wakeful.commands.signatures import ED25519, KEY_HEADER, SIGNATURE_HEADER
from wakeful.commands.wire import encode_command, read_command
from wakeful.events.headers import FINGERPRINT
from wakeful.events.payloads import json_payload

OPEN = OpenSession("desk")
DECIDE = DecideApproval("1.1-1", b"d" * 32, "approve", "")
RESULT = CompleteActivity("1.1", 1, json_payload(1, b"k"), "w1")

CLIENT, WORKER, ENGINE = key("client"), key("worker", "worker"), key("engine", "processor")
PUBLISHER = key("publisher", "publisher")
ALL = (CLIENT, WORKER, ENGINE, PUBLISHER)


def judged(found, *keys):
    said, stored = read_command(found.value, found.headers)
    return identity(*(keys or ALL)).check(said, stored, found)


def reason(found, *keys):
    refusal = judged(found, *keys)
    assert isinstance(refusal, Refusal)
    assert refusal.check == "identity"
    return refusal.reason


@pytest.mark.parametrize("algorithm", ["hmac-sha256", ED25519])
@pytest.mark.parametrize(
    ("role", "body"), [("client", DECIDE), ("worker", RESULT), ("processor", FireTimer("t", 1))]
)
def test_what_a_key_vouches_for_is_believed_and_leaves_its_evidence(role, body, algorithm) -> None:
    own = key("own", role, algorithm=algorithm)
    said = command(body)
    assert judged(record(said, *signed(own, said)), own) == Evidence("own")


def test_unsigned_is_refused_and_half_a_signature_is_none() -> None:
    said = command(OPEN)
    kid, signature = signed(CLIENT, said)
    assert reason(record(said)) == "unsigned"
    assert reason(record(said, kid)) == "unsigned"
    assert reason(record(said, signature)) == "unsigned"


def test_a_key_that_is_not_in_the_ring_is_refused() -> None:
    said = command(OPEN)
    assert reason(record(said, *signed(key("stranger"), said))) == "unknown_key"


def test_a_record_copied_from_another_topic_cluster_session_or_value_has_no_signature() -> None:
    said = command(OPEN)
    for mark in (
        signed(CLIENT, said, topic="other.commands.v1"),
        signed(CLIENT, said, cluster="other"),
        signed(CLIENT, command(OPEN, session="s2")),
        signed(CLIENT, command(OPEN, tenant="beta")),
        signed(CLIENT, command(CancelSession("no"))),
        signed(CLIENT, command(OPEN, at_ms=NOW_MS + 1)),
        signed(key("client", role="client", secret=b"x" * 32), said),
    ):
        assert reason(record(said, *mark)) == "bad_signature"
    assert judged(record(said, *signed(CLIENT, said))) == Evidence("client")


def test_a_revoked_key_counts_for_nothing_and_a_retired_one_for_what_it_signed() -> None:
    said = command(OPEN)
    found = record(said, *signed(CLIENT, said))
    assert judged(found, key("client", status=RETIRED)) == Evidence("client")
    assert reason(found, key("client", status=REVOKED)) == "revoked_key"


def test_a_key_ends_by_the_logs_clock_not_by_the_callers() -> None:
    ends = key("client", not_after_ms=NOW_MS)
    backdated = command(OPEN, at_ms=NOW_MS - 1_000)
    mark = signed(CLIENT, backdated)
    assert judged(record(backdated, *mark, at_ms=NOW_MS), ends) == Evidence("client")
    assert reason(record(backdated, *mark, at_ms=NOW_MS + 1), ends) == "expired_key"


def test_another_tenants_key_is_refused() -> None:
    beta = key("client", tenants=frozenset({"beta"}))
    said = command(OPEN)
    assert reason(record(said, *signed(CLIENT, said)), beta) == "wrong_tenant"
    own = command(OPEN, tenant="beta")
    assert judged(record(own, *signed(CLIENT, own)), beta) == Evidence("client")


@pytest.mark.parametrize(
    ("holder", "body"),
    [
        (WORKER, DECIDE),
        (WORKER, OPEN),
        (WORKER, FireTimer("t", 1)),
        (CLIENT, RESULT),
        (CLIENT, FireTimer("t", 1)),
        (ENGINE, RESULT),
        (ENGINE, DECIDE),
        (PUBLISHER, DECIDE),
        (PUBLISHER, OPEN),
    ],
)
def test_workers_cannot_approve_and_gateways_cannot_report_results(holder, body) -> None:
    said = command(body)
    willing = key(holder.kid, kinds=frozenset().union(*ROLES.values()))
    assert reason(record(said, *signed(willing, said))) == "wrong_kind"


def test_a_key_of_one_actor_names_nobody_else() -> None:
    carol = key("client", actor="carol")
    own, forged = command(OPEN, actor="carol"), command(OPEN, actor="admin")
    assert judged(record(own, *signed(CLIENT, own)), carol) == Evidence("client")
    assert reason(record(forged, *signed(CLIENT, forged)), carol) == "forged_actor"


def test_a_signed_release_cannot_be_read_as_a_cancellation() -> None:
    said = command(ReleaseSession("go on"))
    other = encode_command(command(CancelSession("go on")))
    assert other.body == encode_command(said).body
    mark = signed(CLIENT, said)
    found = record(said, (FINGERPRINT, other.fingerprint), *mark, own=False)
    assert read_command(found.value, found.headers)[0].body == CancelSession("go on")
    assert reason(found) == "other_schema"
    assert judged(record(said, *mark, own=False)) == Evidence("client")


def test_a_header_given_twice_is_refused() -> None:
    said = command(OPEN)
    found = record(said, *signed(CLIENT, said), (KEY_HEADER, b"worker"))
    assert reason(found) == "ambiguous_header"


@pytest.mark.parametrize("kid", [b"\xff\xfe", b"", b"x" * 10_000, "kl\u00fc".encode()])
def test_any_bytes_may_claim_to_be_a_key(kid) -> None:
    said = command(OPEN)
    refusal = judged(record(said, (KEY_HEADER, kid), (SIGNATURE_HEADER, b"s")))
    assert (refusal.reason, len(refusal.detail) < 500) == ("unknown_key", True)


def test_the_key_meant_for_fewest_signs_and_of_those_the_newest() -> None:
    first, second = key("first"), key("second")
    acme = key("acme", tenants=frozenset({"acme"}))
    carol = key("carol", actor="carol")
    old = key("old", tenants=frozenset({"acme"}), status=RETIRED)
    ring = Keyring([carol, acme, first, second, old])
    assert ring.signing_key("acme", "OpenSession", "ann", NOW_MS).kid == "acme"
    assert ring.signing_key("beta", "OpenSession", "ann", NOW_MS).kid == "second"
    assert ring.signing_key("acme", "OpenSession", "carol", NOW_MS).kid == "carol"
    assert ring.signing_key("acme", "CompleteActivity", "ann", NOW_MS) is None


@pytest.mark.parametrize(
    "more",
    [
        {"status": RETIRED},
        {"status": REVOKED},
        {"not_after_ms": NOW_MS - 1},
        {"tenants": frozenset({"beta"})},
        {"actor": "carol"},
        {"kinds": ROLES["worker"]},
    ],
)
def test_nothing_is_signed_with_a_key_that_may_not(more) -> None:
    with pytest.raises(NoKey, match=r"OpenSession of tenant 'acme' by 'ann': .*wakeful keys new"):
        signed(key("client", **more), command(OPEN))


def test_a_public_half_verifies_and_does_not_sign() -> None:
    own = key("own", algorithm=ED25519)
    half = key("own", algorithm=ED25519, secret=None)
    said = command(OPEN)
    assert judged(record(said, *signed(own, said)), half) == Evidence("own")
    with pytest.raises(NoKey):
        signed(half, said)


def test_insecure_believes_everybody_and_has_no_evidence() -> None:
    said = command(OPEN)
    found = record(said, (KEY_HEADER, b"x"), (SIGNATURE_HEADER, b"y"))
    parts = read_command(found.value, found.headers)
    assert INSECURE.check(*parts, found) == Evidence(None)
    assert INSECURE.sign(said, TOPIC, b"", b"") == ()
    unchecked = Unchecked(lambda: Keyring([CLIENT]), "memory")
    assert unchecked.check(*parts, found) == Evidence(None)
    assert unchecked.sign(said, TOPIC, b"acme/s1", b"v")[0] == (KEY_HEADER, b"client")
    assert unchecked.sign(command(RESULT), TOPIC, b"acme/s1", b"v") == ()


def test_no_repr_shows_a_secret() -> None:
    for algorithm in ("hmac-sha256", ED25519):
        own = key("own", algorithm=algorithm)
        assert own.secret.hex() not in repr(own)
        assert repr(own.secret) not in repr(own)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"secret": b"short"}, "bytes must be 32"),
        ({"secret": None}, "bytes must be 32"),
        ({"kid": ""}, "key id"),
        ({"kid": "a\nb"}, "key id"),
        ({"kinds": frozenset()}, "kinds"),
        ({"kinds": frozenset({"DropEverything"})}, "DropEverything"),
        ({"status": "asleep"}, "asleep"),
        ({"algorithm": "none"}, "none"),
        ({"algorithm": ED25519}, "bytes must be 32"),
        ({"algorithm": ED25519, "public": b"p" * 32}, "public half"),
    ],
)
def test_what_is_no_key_is_not_made_and_the_error_shows_no_secret(more, told) -> None:
    own = key("own")
    with pytest.raises(ValueError, match=told) as refused:
        replace(own, **more)
    assert b"short".hex() not in str(refused.value)


def test_two_keys_of_one_id_make_no_ring() -> None:
    with pytest.raises(ValueError, match="one id"):
        Keyring([key("own"), key("own", "worker")])
