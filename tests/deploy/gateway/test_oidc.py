"""Tokens of a provider: which count, which do not, and what a provider that is silent or hostile can do."""

from __future__ import annotations

import base64
import hmac
import json
from hashlib import sha256

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, RSAKey
from tests.processors.desk import START_MS

from wakeful.deploy.gateway.oidc import REFETCH_S, REFRESH_S, SKEW_S, Oidc, Provider
from wakeful.deploy.gateway.principals import May
from wakeful.deploy.gateway.problems import Problem

from .issuer import AUDIENCE, Issuer, ed25519
from .posting import Gateway, problem

NOW_S = START_MS // 1000


class Clock:
    """Time as the provider's tokens mean it, and the time that passes."""

    def __init__(self) -> None:
        self.ms = START_MS
        self.steady_s = 0.0


@pytest.fixture
def issuer():
    with Issuer(NOW_S) as found:
        yield found


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def oidc(issuer, clock):
    found = made(issuer, clock)
    yield found
    found.close()


def made(issuer, clock, **more):
    return Oidc(Provider(issuer.url, AUDIENCE, **more), lambda: clock.ms, lambda: clock.steady_s)


def refused(oidc, token, status=401):
    with pytest.raises(Problem) as caught:
        oidc.principal(token)
    assert caught.value.status == status, caught.value.detail
    return caught.value.detail


def part(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_token_says_who_asks(oidc, issuer):
    who = oidc.principal(issuer.token())
    assert (who.tenant, who.actor, who.permissions) == ("acme", "ann", {May.SEE, May.ASK})
    assert (who.channel, who.via) == ("http", "oidc:ann")


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("kind", ["ES256", "Ed25519", "EdDSA", "PS256", "RS512"])
def test_keys_of_each_kind_sign(oidc, issuer, kind):
    if kind == "ES256":
        issuer.add("other", ECKey.generate_key("P-256", {"kid": "other"}))
    elif kind.startswith("Ed"):
        issuer.add("other", ed25519("other"))
    else:
        issuer.add("other", RSAKey.generate_key(2048, {"kid": "other"}))
    assert oidc.principal(issuer.token("other", kind)).actor == "ann"


def test_a_token_without_a_kid_is_judged_where_only_one_key_can_be_meant(oidc, issuer):
    said, key = json.dumps(issuer.claims()), issuer.keys["rsa"]
    token = jws.serialize_compact({"alg": "RS256"}, said, key, ["RS256"])
    assert oidc.principal(token).actor == "ann"
    issuer.add("second", RSAKey.generate_key(2048, {"kid": "second"}))
    other = made(issuer, Clock())
    refused(other, token)
    other.close()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"exp": NOW_S - SKEW_S}, "expired"),
        ({"exp": None}, "never expires"),
        ({"exp": "tomorrow"}, "no number"),
        ({"exp": True}, "no number"),
        ({"nbf": NOW_S + SKEW_S + 1}, "not valid yet (nbf)"),
        ({"iat": NOW_S + SKEW_S + 1}, "not valid yet (iat)"),
        ({"aud": "another"}, "not for 'wakeful'"),
        ({"aud": None}, "not for 'wakeful'"),
        ({"aud": ["another", "third"]}, "not for 'wakeful'"),
        ({"aud": {"wakeful": 1}}, "not for 'wakeful'"),
        ({"iss": "https://elsewhere.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
    ],
)
def test_a_signed_token_that_does_not_count_is_told_why(oidc, issuer, changed, told):
    assert told in refused(oidc, issuer.token(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW_S - SKEW_S + 1},
        {"nbf": NOW_S + SKEW_S},
        {"iat": NOW_S + SKEW_S},
        {"aud": ["another", AUDIENCE]},
        {"iat": None},
    ],
)
def test_clocks_may_differ_and_a_token_may_be_for_several(oidc, issuer, changed):
    assert oidc.principal(issuer.token(**changed)).actor == "ann"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"tenant": None}, "claim 'tenant' names no tenant"),
        ({"tenant": ["acme"]}, "claim 'tenant'"),
        ({"tenant": "a/b"}, "tenant 'a/b' is not allowed"),
        ({"tenant": ""}, "not allowed"),
        ({"sub": None}, "claim 'sub' names no actor"),
        ({"sub": "x" * 300}, "of 300 characters"),
        ({"sub": "a\nb"}, "not allowed"),
    ],
)
def test_a_token_that_names_nobody_of_ours_is_forbidden(oidc, issuer, changed, told):
    assert told in refused(oidc, issuer.token(**changed), 403)


@pytest.mark.parametrize(
    ("claims", "provider", "roles"),
    [
        ({"roles": "approver user"}, {}, {May.SEE, May.ASK, May.DECIDE}),
        ({"roles": ["approver", 7, "stranger"]}, {}, {May.SEE, May.DECIDE}),
        ({"roles": None}, {}, set()),
        ({"roles": 7}, {}, set()),
        (
            {"realm_access": {"roles": ["viewer"]}},
            {"roles_claim": "realm_access.roles"},
            {May.SEE},
        ),
        (
            {"https://w.example/roles": ["viewer"]},
            {"roles_claim": "https://w.example/roles"},
            {May.SEE},
        ),
    ],
)
def test_roles_are_read_from_the_claim_that_is_named(issuer, clock, claims, provider, roles):
    oidc = made(issuer, clock, **provider)
    assert oidc.principal(issuer.token(**claims)).permissions == roles
    oidc.close()


def forged(issuer):
    """Tokens that nobody signed, or not with a key of the provider's."""
    claims = part(issuer.claims())
    public = issuer.keys["rsa"].as_pem(private=False)
    good = issuer.token()
    head, body, signature = good.split(".")

    def hmac_signed(secret, header):
        text = f"{part(header)}.{claims}"
        return f"{text}.{part(hmac.new(secret, text.encode(), sha256).digest())}"

    stranger = RSAKey.generate_key(2048, {"kid": "rsa"})
    kept, issuer.keys["rsa"] = issuer.keys["rsa"], stranger
    theirs = issuer.token()
    issuer.keys["rsa"] = kept
    yield "none", f"{part({'alg': 'none'})}.{claims}."
    yield "None", f"{part({'alg': 'None', 'kid': 'rsa'})}.{claims}."
    yield "no alg", f"{part({'kid': 'rsa'})}.{claims}.{signature}"
    yield "hmac with the public key", hmac_signed(public, {"alg": "HS256", "kid": "rsa"})
    yield "hmac with an empty key", hmac_signed(b"", {"alg": "HS256"})
    yield "another key", theirs
    yield "changed claims", f"{head}.{part(issuer.claims(tenant='other'))}.{signature}"
    yield "changed signature", f"{head}.{body}.{'A' * len(signature)}"
    yield "no signature", f"{head}.{body}."
    yield (
        "its own key",
        f"{part({'alg': 'RS256', 'jwk': stranger.as_dict(private=False)})}.{claims}.{theirs.split('.')[2]}",
    )
    yield (
        "critical",
        f"{part({'alg': 'RS256', 'kid': 'rsa', 'crit': ['x'], 'x': 1})}.{claims}.{signature}",
    )
    yield "not base64", "!!.!!.!!"
    yield "not json", f"{part(b'no')}.{part(b'no')}.{signature}"
    yield "list", f"{part([])}.{claims}.{signature}"
    yield "kid is a list", f"{part({'alg': 'RS256', 'kid': ['rsa']})}.{claims}.{signature}"
    yield "not ascii", f"{head}é.{body}.{signature}"
    yield "empty parts", ".."


def test_what_nobody_signed_is_refused_and_told_nothing_about(oidc, issuer):
    names = []
    for name, token in forged(issuer):
        told = refused(oidc, token)
        assert "not valid here" in told, name
        names.append(name)
    assert len(names) == 17


def test_another_kind_of_token_is_no_proof_of_who_asks(oidc, issuer):
    header = {"alg": "RS256", "kid": "rsa", "typ": "logout+jwt"}
    token = jwt.encode(header, issuer.claims(), issuer.keys["rsa"], algorithms=["RS256"])
    refused(oidc, token)
    header["typ"] = "at+jwt"
    token = jwt.encode(header, issuer.claims(), issuer.keys["rsa"], algorithms=["RS256"])
    assert oidc.principal(token).actor == "ann"


def test_a_key_that_is_too_small_or_for_encryption_counts_for_nothing(oidc, issuer):
    with pytest.warns(Warning, match="1024|2048|key size"):
        issuer.keys["small"] = RSAKey.generate_key(1024, {"kid": "small"})
    issuer.add("enc", RSAKey.generate_key(2048, {"kid": "enc", "use": "enc"}))
    refused(oidc, issuer.token("small"))


def test_claims_that_name_one_thing_twice_are_refused(oidc, issuer):
    said = json.dumps(issuer.claims())[:-1] + ', "tenant": "other"}'
    header = {"alg": "RS256", "kid": "rsa"}
    refused(oidc, jws.serialize_compact(header, said, issuer.keys["rsa"], ["RS256"]))


def test_a_token_of_a_megabyte_is_refused_unread(oidc, issuer):
    token = issuer.token(padding="x" * 1_000_000)
    assert "characters" in refused(oidc, token)
    assert issuer.asked == []


def test_keys_are_fetched_once_and_again_for_a_new_name(oidc, issuer, clock):
    for _ in range(5):
        oidc.principal(issuer.token())
    assert len(issuer.asked) == 2
    issuer.rotate("new")
    refused(oidc, issuer.token("new"))  # asked only just now
    clock.steady_s += REFETCH_S
    assert oidc.principal(issuer.token("new")).actor == "ann"
    assert len(issuer.asked) == 4


def test_a_flood_of_unknown_names_is_one_question(oidc, issuer, clock):
    oidc.principal(issuer.token())
    clock.steady_s += REFETCH_S
    stranger = RSAKey.generate_key(2048)
    for n in range(20):
        issuer.keys[f"made-up-{n}"] = stranger
        refused(oidc, issuer.token(f"made-up-{n}"))
    assert len(issuer.asked) == 4


def test_a_key_that_was_taken_back_counts_no_more_once_keys_are_old(oidc, issuer, clock):
    old = issuer.token()
    oidc.principal(old)
    issuer.rotate("new")
    assert oidc.principal(old).actor == "ann"
    clock.steady_s += REFRESH_S
    refused(oidc, old)


def test_a_silent_provider_changes_nothing_for_keys_that_are_known(oidc, issuer, clock):
    oidc.principal(issuer.token())
    issuer.down = True
    clock.steady_s += 10 * REFRESH_S
    assert oidc.principal(issuer.token()).actor == "ann"


def test_before_there_are_keys_nobody_can_be_judged(oidc, issuer, clock):
    issuer.down = True
    assert "does not answer now" in refused(oidc, issuer.token(), 503)
    asked = len(issuer.asked)
    refused(oidc, issuer.token(), 503)
    assert len(issuer.asked) == asked
    issuer.down = False
    clock.steady_s += REFETCH_S
    assert oidc.principal(issuer.token()).actor == "ann"


@pytest.mark.parametrize(
    "broken",
    [
        {"issuer": "https://elsewhere.example"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
        {"jwks_uri": 7},
        {"issuer": ["x"]},
    ],
)
def test_a_provider_that_contradicts_itself_is_not_believed(oidc, issuer, broken):
    issuer.publish(**broken)
    refused(oidc, issuer.token(), 503)


@pytest.mark.parametrize(
    "keys",
    [b"", b"[]", b'{"keys": 7}', b'{"keys": []}', b"x" * 300_000, b'{"keys": [{"kty": "x"}]}'],
)
def test_keys_that_are_none_are_not_believed(oidc, issuer, keys):
    issuer.answers["/realm/keys"] = keys
    refused(oidc, issuer.token(), 503)


def test_a_secret_among_the_keys_signs_nothing(oidc, issuer):
    issuer.answers["/realm/keys"]["keys"].append({"kty": "oct", "k": part(b"x" * 32), "kid": "oct"})
    claims = f"{part({'alg': 'HS256', 'kid': 'oct'})}.{part(issuer.claims())}"
    mac = hmac.new(b"x" * 32, claims.encode(), sha256).digest()
    refused(oidc, f"{claims}.{part(mac)}")
    assert oidc.principal(issuer.token()).actor == "ann"


def test_over_http_a_token_does_what_its_roles_may(tmp_path, oidc, issuer):
    gateway = Gateway(tmp_path, oidc=oidc)
    answer = gateway.post("/sessions", {"workflow": "desk"}, key=issuer.token(), Prefer="wait=5")
    assert (answer.status_code, answer.json()["state"]) == (200, "applied")
    viewer = issuer.token(roles=["viewer"])
    problem(gateway.post("/sessions", {"workflow": "desk"}, key=viewer), 403, "not_permitted")
    old = issuer.token(exp=NOW_S - 100)
    answer = gateway.post("/sessions", {"workflow": "desk"}, key=old)
    assert "expired" in problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert gateway.post("/sessions", {"workflow": "desk"}).status_code == 202  # an API key, too
    issuer.down = True
    gateway.close()
