"""Webhooks: a delivery that its hook vouches for becomes one signal; everything else becomes nothing."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey
from tests.processors.desk import START_MS

from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.gateway.hooks import TOLERANCE_MAX_S, Hooks
from wakeful.events import records as r
from wakeful.events.payloads import load_json

from .posting import Gateway, problem

SECRET, OLD_SECRET = "s" * 32, "old" * 12
NOW_S = START_MS // 1000
KEY = ECKey.generate_key("P-256", {"kid": "k1"})

HOOKS = {
    "payments": {
        "tenant": "acme",
        "session": "{/order/id}",
        "signal": "paid",
        "secret": [SECRET, OLD_SECRET],
    },
    "parcels": {
        "tenant": "acme",
        "session": "order-{/parcels/0/order}-x",
        "signal": "shipped",
        "jwks": {"keys": [{**KEY.as_dict(private=False), "kid": "k1"}]},
        "tolerance_s": 60,
    },
    "inside": {"tenant": "acme", "session": "{/order/id}", "signal": "paid", "bearer": True},
    "others": {"tenant": "other", "session": "s1", "signal": "paid", "secret": SECRET},
}


@pytest.fixture
def gateway(tmp_path):
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps({"hooks": HOOKS}))
    found = Gateway(tmp_path, hooks=path)
    found.open("s1")
    yield found
    found.close()


def mac(stamp, delivery, body, secret=SECRET):
    signed = f"{stamp}.{delivery}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), signed, sha256).hexdigest()


def now_s(gateway):
    return gateway.cluster.clock.ms // 1000


def deliver(
    gateway: Gateway,
    said: Any = None,
    *,
    hook: str = "payments",
    delivery: str = "d1",
    stamp: object = None,
    signature: str | None = None,
    **headers: str,
) -> Any:
    """A delivery, signed as it must be unless a signature is given."""
    body = json.dumps({"order": {"id": "s1"}, "euro": 3} if said is None else said).encode()
    stamp = now_s(gateway) if stamp is None else stamp
    told = {
        "content-type": "application/json",
        "wakeful-delivery": delivery,
        "wakeful-timestamp": str(stamp),
        "wakeful-signature": mac(stamp, delivery, body) if signature is None else signature,
        **headers,
    }
    return gateway.client.post(f"/v1/hooks/{hook}", content=body, headers=told)


def signals(gateway, session_id="s1"):
    gateway.run()
    found = [e for e in gateway.cluster.events(session_id) if isinstance(e.body, r.SignalReceived)]
    return [
        (e.envelope.actor, e.envelope.channel, e.body.name, load_json(e.body.data)) for e in found
    ]


def test_a_delivery_becomes_a_signal_of_its_hook(gateway):
    answer = deliver(gateway, prefer="wait=5")
    assert (answer.status_code, answer.json()["state"]) == (200, "applied")
    assert signals(gateway) == [
        ("hook:payments", "webhook", "paid", {"order": {"id": "s1"}, "euro": 3})
    ]


def test_a_delivery_that_is_tried_again_changes_nothing(gateway):
    first = deliver(gateway)
    gateway.cluster.clock.ms += 5_000
    again = deliver(gateway)
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert len(signals(gateway)) == 1


def test_a_delivery_that_is_played_again_later_is_refused(gateway):
    body = json.dumps({"order": {"id": "s1"}, "euro": 3}).encode()
    stamp = now_s(gateway)
    signature = mac(stamp, "d1", body)
    assert deliver(gateway, stamp=stamp, signature=signature).status_code == 202
    gateway.cluster.clock.ms += 301_000
    again = deliver(gateway, stamp=stamp, signature=signature)
    assert "301 s old" in problem(again, 403, "delivery_out_of_time")
    assert len(signals(gateway)) == 1


def test_another_body_under_the_same_id_is_refused(gateway):
    deliver(gateway)
    other = deliver(gateway, {"order": {"id": "s1"}, "euro": 4})
    assert "give each delivery its own id" in problem(other, 409, "delivery_reused")
    assert len(signals(gateway)) == 1


def test_a_secret_is_replaced_while_both_count(gateway):
    body = json.dumps({"order": {"id": "s1"}}).encode()
    stamp = now_s(gateway)
    both = f"v1={'0' * 64}, {mac(stamp, 'd1', body, OLD_SECRET)}"
    assert deliver(gateway, {"order": {"id": "s1"}}, stamp=stamp, signature=both).status_code == 202


def detached(header, signed, key=KEY):
    whole = jws.serialize_compact(header, signed, key, [header["alg"]])
    head, _, signature = whole.split(".")
    return f"{head}..{signature}"


def test_a_detached_jws_vouches_for_a_delivery(gateway):
    said = {"parcels": [{"order": 7}]}
    gateway.open("order-7-x")
    stamp = now_s(gateway)
    signed = f"{stamp}.d1.".encode() + json.dumps(said).encode()
    good = detached({"alg": "ES256", "kid": "k1"}, signed)
    answer = deliver(gateway, said, hook="parcels", stamp=stamp, signature=good)
    assert answer.status_code == 202, answer.text
    assert [name for _, _, name, _ in signals(gateway, "order-7-x")] == ["shipped"]

    whole = jws.serialize_compact({"alg": "ES256", "kid": "k1"}, b"another text", KEY, ["ES256"])
    stranger = ECKey.generate_key("P-256", {"kid": "k1"})
    for bad in (
        whole,
        detached({"alg": "ES256", "kid": "k1"}, signed, stranger),
        detached({"alg": "ES256", "kid": "k1"}, signed + b" "),
        "..",
        "a..b",
        good[:-4],
        "é..é",
        mac(stamp, "d1", json.dumps(said).encode()),
    ):
        told = deliver(
            gateway,
            said,
            hook="parcels",
            stamp=stamp,
            signature=bad.encode("latin-1"),
            delivery="d1",
        )
        problem(told, 401, "unsigned")


@pytest.mark.parametrize(
    "changed",
    [
        {"signature": ""},
        {"signature": "v1="},
        {"signature": "v1=" + "0" * 64},
        {"signature": "v2=" + "0" * 64},
        {"hook": "nothing"},
        {"hook": "others%2F"},
    ],
)
def test_what_its_hook_does_not_vouch_for_is_refused_alike(gateway, changed):
    answer = deliver(gateway, **changed)
    if "%2F" in changed.get("hook", ""):
        problem(answer, 404, "unknown_address")
    else:
        problem(answer, 401, "unsigned")
    assert signals(gateway) == []


@pytest.mark.parametrize("part", ["stamp", "delivery", "body"])
def test_each_part_of_a_delivery_is_signed(gateway, part):
    stamp, body = now_s(gateway), json.dumps({"order": {"id": "s1"}}).encode()
    said = {
        "stamp": (stamp + 1, "d1", body),
        "delivery": (stamp, "d2", body),
        "body": (stamp, "d1", body + b" "),
    }[part]
    answer = deliver(gateway, {"order": {"id": "s1"}}, stamp=stamp, signature=mac(*said))
    problem(answer, 401, "unsigned")


@pytest.mark.parametrize(
    ("delivery", "stamp", "status", "reason"),
    [
        ("d1", "soon", 400, "invalid_header"),
        ("d1", "", 400, "invalid_header"),
        ("d1", "-5", 400, "invalid_header"),
        ("d1", "1e9", 400, "invalid_header"),
        ("d1", 0, 403, "delivery_out_of_time"),
        ("d1", NOW_S + 9_999, 403, "delivery_out_of_time"),
        ("", NOW_S, 400, "invalid_header"),
        ("d 1", NOW_S, 400, "invalid_header"),
        ("x" * 201, NOW_S, 400, "invalid_header"),
    ],
)
def test_a_time_or_an_id_that_cannot_be_one_is_refused(gateway, delivery, stamp, status, reason):
    problem(deliver(gateway, delivery=delivery, stamp=stamp), status, reason)
    assert signals(gateway) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "there is nothing"),
        ([], "there is nothing"),
        ({"order": {"id": None}}, "there is null and no text"),
        ({"order": {"id": True}}, "there is true and no text"),
        ({"order": {"id": {"a": 1}}}, "there is an object"),
    ],
)
def test_a_body_that_names_no_session_is_refused(gateway, said, told):
    assert told in problem(deliver(gateway, said), 422, "unknown_session")


def test_a_body_that_names_what_is_no_session_is_refused(gateway):
    problem(deliver(gateway, {"order": {"id": "a/b"}}), 422, "rejected")


def test_a_hook_speaks_of_its_own_tenant_alone(gateway):
    answer = deliver(gateway, hook="others", prefer="wait=5")
    assert (answer.json()["state"], answer.json()["reason"]) == ("refused", "unknown_session")
    assert signals(gateway) == []


def test_a_hook_may_take_the_bearer_of_a_key_that_may_deliver_for_its_tenant(gateway):
    def bearing(key):
        return deliver(gateway, hook="inside", signature="", authorization=f"Bearer {key}")

    first = bearing(gateway.key("hook", actor="shop"))
    assert first.status_code == 202, first.text
    assert [(actor, channel) for actor, channel, _, _ in signals(gateway)] == [("shop", "webhook")]
    again = bearing(gateway.key("hook", actor="shop"))
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    problem(bearing(gateway.key("user")), 403, "not_permitted")
    problem(bearing(gateway.key("hook", tenant="other")), 401, "unsigned")
    problem(bearing("wk_made_up"), 401, "unsigned")
    problem(deliver(gateway, hook="inside"), 401, "unsigned")
    body = json.dumps({"order": {"id": "s1"}, "euro": 3}).encode()
    answer = deliver(gateway, delivery="d2", signature=mac(now_s(gateway), "d1", body))
    problem(answer, 401, "unsigned")


def test_hooks_are_read_again_when_their_file_changes(tmp_path):
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps({"hooks": HOOKS}))
    hooks = Hooks(path)
    assert hooks.find("payments")
    path.write_text(json.dumps({"hooks": {"new": HOOKS["payments"]}}))
    assert (hooks.find("payments"), bool(hooks.find("new"))) == (None, True)
    path.write_text("{")
    assert hooks.find("new")
    path.unlink()
    assert hooks.find("new") is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"secret": "short"}, "32 characters or more"),
        ({"secret": None}, "secret"),
        ({"jwks": HOOKS["parcels"]["jwks"]}, "one of secret, jwks and bearer"),
        ({"secret": []}, "must vouch"),
        ({"bearer": True}, "must vouch"),
        ({"tenant": "a/b"}, "tenant"),
        ({"signal": ""}, "signal"),
        ({"tolerance_s": TOLERANCE_MAX_S + 1}, "tolerance_s"),
        ({"more": 1}, "more"),
    ],
)
def test_a_hook_that_cannot_be_one_is_refused_without_its_secret(tmp_path, changed, told):
    path = tmp_path / "hooks.json"
    secret = "never shown, never shown, never shown"
    row = {**HOOKS["payments"], "secret": secret, **changed}
    path.write_text(json.dumps({"hooks": {"payments": row}}))
    with pytest.raises(Stopped) as caught:
        Hooks(path)
    assert caught.value.code == Exit.USAGE
    assert told in caught.value.message
    assert secret not in caught.value.message


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"keys": []},
        {"keys": [KEY.as_dict(private=True)]},
        [],
        {"keys": [{"kty": "oct", "k": "eHh4"}]},
    ],
)
def test_keys_that_are_none_or_not_public_are_refused(tmp_path, keys):
    path = tmp_path / "hooks.json"
    row = {**HOOKS["parcels"], "jwks": keys}
    path.write_text(json.dumps({"hooks": {"parcels": row}}))
    with pytest.raises(Stopped, match="jwks"):
        Hooks(path)
