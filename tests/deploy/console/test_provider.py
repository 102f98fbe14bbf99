"""Signing in through a provider: who gets in, as whom and for how long, and all that does not let anybody in."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.deploy.gateway.code_issuer import CLIENT_ID, CLIENT_SECRET, CodeIssuer
from tests.deploy.gateway.issuer import AUDIENCE
from tests.deploy.gateway.posting import Gateway

from wakeful.deploy.gateway.api_keys import ApiKeys
from wakeful.deploy.gateway.console.app import console_app
from wakeful.deploy.gateway.console.signing import Signer
from wakeful.deploy.gateway.console.visits import COOKIE, SIGNED_IN_MS
from wakeful.deploy.gateway.oidc import Oidc, Provider
from wakeful.deploy.gateway.oidc_sign_in import OidcClient, SignIns

NOW_S = int(time.time())
"""Words that were used are known by the times of files."""

BEGIN = "/console/oidc/sign-in"


@pytest.fixture
def issuer() -> Iterator[CodeIssuer]:
    with CodeIssuer(NOW_S) as found:
        yield found


@pytest.fixture
def desk(tmp_path: Path, issuer: CodeIssuer) -> Iterator[Gateway]:
    """A gateway whose console people sign in to through the provider."""
    yield from opened(tmp_path, issuer)


def opened(folder: Path, issuer: CodeIssuer, base_url: str | None = None) -> Iterator[Gateway]:
    oidc = Oidc(Provider(issuer.url, AUDIENCE), lambda: one.cluster.clock.now_ms(), lambda: 0.0)
    client = OidcClient(CLIENT_ID, CLIENT_SECRET)
    sign_ins = SignIns(oidc, client, lambda: one.cluster.clock.now_ms(), base_url=base_url)
    one = Gateway(folder, oidc=oidc, sign_ins=sign_ins)
    one.cluster.clock.ms = NOW_S * 1000
    one.services.settings = one.settings.model_copy(update={"home": folder})
    keys = ApiKeys(folder / "api_keys.json")
    one.client.app.mount("/console", console_app(one.services, keys, Signer(b"k" * 32)))
    yield one
    one.close()
    oidc.close()


def begun(desk: Gateway, back: str = "") -> str:
    """Where the provider sends the browser back to."""
    away = desk.client.get(BEGIN, params={"next": back}, follow_redirects=False)
    assert away.status_code == 303, away.text
    return httpx.get(away.headers["location"]).headers["location"]


def ended(desk: Gateway, answer: str) -> Any:
    place = urlsplit(answer)
    return desk.client.get(f"{place.path}?{place.query}", follow_redirects=False)


def who(desk: Gateway) -> str | None:
    """Who is signed in, as a page says."""
    page = desk.client.get("/console/nothing").text
    return page.partition('class="who-name">')[2].partition("<")[0] or None


def cookie_of(answer: Any) -> str:
    return next(c for c in answer.headers.get_list("set-cookie") if c.startswith(f"{COOKIE}="))


def test_whoever_the_provider_names_is_signed_in_with_its_roles_and_led_back(
    desk: Gateway, issuer: CodeIssuer
) -> None:
    assert "Sign in with 127.0.0.1" in desk.client.get("/console/sign-in").text
    answer = ended(desk, begun(desk, "/console/sessions?show=held"))
    assert answer.status_code == 200
    assert 'content="0;url=/console/sessions?show=held"' in answer.text
    cookie = cookie_of(answer)
    assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= set(cookie.split("; "))
    assert who(desk) == "sue"
    assert "Dead letters" in desk.client.get("/console/nothing").text
    assert issuer.url not in desk.client.get("/console/nothing").text


def test_a_sign_in_lasts_no_longer_than_its_token(desk: Gateway, issuer: CodeIssuer) -> None:
    answer = ended(desk, begun(desk))
    assert "Max-Age=300" in cookie_of(answer)
    desk.cluster.clock.ms += 299_000
    assert who(desk) == "sue"
    desk.cluster.clock.ms += 2_000
    assert who(desk) is None
    assert desk.client.get("/console/", follow_redirects=False).status_code == 303


def test_a_sign_in_lasts_no_longer_than_any_other(desk: Gateway, issuer: CodeIssuer) -> None:
    issuer.person["exp"] = NOW_S + 30 * 86_400
    assert f"Max-Age={SIGNED_IN_MS // 1000}" in cookie_of(ended(desk, begun(desk)))


def test_signing_out_ends_it_for_whoever_has_the_cookie_and_tells_the_way_out_of_the_provider(
    desk: Gateway, issuer: CodeIssuer
) -> None:
    ended(desk, begun(desk))
    kept = desk.client.cookies[COOKIE]
    page = desk.client.get("/console/nothing").text
    word = page.partition('name="form_token" value="')[2].partition('"')[0]
    left = desk.client.post("/console/sign-out", data={"form_token": word})
    assert "You are signed out here." in left.text
    assert f"{issuer.url}/logout?client_id=wakeful%20console" in left.text
    desk.client.cookies.set(COOKIE, kept, path="/console")
    assert who(desk) is None


@pytest.mark.parametrize("back", ["https://evil.example", "//evil.example", "/v1/sessions", "/\\e"])
def test_it_never_leads_away_from_the_console(desk: Gateway, back: str) -> None:
    assert 'content="0;url=/console/"' in ended(desk, begun(desk, back)).text


def test_an_answer_counts_once_and_only_for_whoever_began(desk: Gateway, tmp_path: Path) -> None:
    answer = begun(desk)
    kept = desk.client.cookies["wakeful_oidc"]
    ended(desk, answer)
    desk.client.cookies.clear()
    assert refused(ended(desk, answer), desk) == 401  # without what it began with
    desk.client.cookies.set("wakeful_oidc", kept, path="/console/oidc")
    again = ended(desk, answer)  # with it, a second time
    assert refused(again, desk) == 401
    assert "answered before" in again.text


def refused(answer: Any, desk: Gateway) -> int:
    assert not any(c.startswith(f"{COOKIE}=") for c in answer.headers.get_list("set-cookie"))
    assert who(desk) is None
    assert 'role="alert"' in answer.text
    return answer.status_code


def changed(answer: str, **other: str) -> str:
    place = urlsplit(answer)
    asked = {name: found[0] for name, found in parse_qs(place.query).items()} | other
    return place._replace(query=str(httpx.QueryParams(asked))).geturl()


def test_another_state_or_another_providers_answer_lets_nobody_in(desk: Gateway) -> None:
    assert refused(ended(desk, changed(begun(desk), state="0" * 64)), desk) == 401
    assert refused(ended(desk, changed(begun(desk), state="é")), desk) == 401
    assert refused(ended(desk, changed(begun(desk), iss="https://evil.example")), desk) == 401


def test_a_code_that_was_used_is_of_another_sign_in_or_made_up_lets_nobody_in(
    desk: Gateway, issuer: CodeIssuer
) -> None:
    first = parse_qs(urlsplit(begun(desk)).query)["code"][0]
    stolen = ended(desk, changed(begun(desk), code=first))  # its verifier is another browser's
    assert refused(stolen, desk) == 401
    assert "invalid_grant" in stolen.text
    assert refused(ended(desk, changed(begun(desk), code="made-up")), desk) == 401
    assert refused(ended(desk, changed(begun(desk), code="")), desk) == 401


def test_what_the_provider_says_of_a_refusal_is_text(desk: Gateway) -> None:
    page = ended(desk, changed(begun(desk), error="<script>alert(1)</script>"))
    assert refused(page, desk) == 401
    assert "<script>alert" not in page.text
    assert "alert(1)" in page.text


@pytest.mark.parametrize(
    ("person", "status", "told"),
    [
        ({"nonce": "another"}, 401, "not of this sign-in"),
        ({"nonce": None}, 401, "not of this sign-in"),
        ({"exp": NOW_S - 100}, 401, "expired"),
        ({"exp": NOW_S - 5}, 401, "expired"),
        ({"exp": None}, 401, "never expires"),
        ({"aud": AUDIENCE}, 401, "not for"),
        ({"aud": [CLIENT_ID, "x"], "azp": "x"}, 401, "another client"),
        ({"iss": "https://evil.example"}, 401, "another issuer"),
        ({"tenant": None}, 403, "names no tenant"),
        ({"sub": "a\nb"}, 403, "not allowed"),
        ({"roles": ["king"]}, 403, "gives you no role"),
        ({"roles": ["hook"]}, 403, "gives you no role"),
    ],
)
def test_a_token_that_does_not_count_lets_nobody_in(
    desk: Gateway, issuer: CodeIssuer, person: dict[str, Any], status: int, told: str
) -> None:
    issuer.person |= person
    page = ended(desk, begun(desk))
    assert refused(page, desk) == status
    assert told in page.text


def test_a_token_that_nobody_signed_lets_nobody_in(desk: Gateway, issuer: CodeIssuer) -> None:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    def unsigned(nonce: str) -> str:
        claims = issuer.claims(aud=CLIENT_ID, nonce=nonce, **issuer.person)
        return f"{part({'alg': 'none'})}.{part(claims)}."

    issuer.token_of = unsigned  # type: ignore[method-assign]
    assert refused(ended(desk, begun(desk)), desk) == 401


def test_a_provider_that_is_down_is_said_on_the_page_and_keys_still_let_in(
    desk: Gateway, issuer: CodeIssuer
) -> None:
    issuer.down = True
    page = desk.client.get(BEGIN, follow_redirects=False)
    assert refused(page, desk) == 503
    assert "does not answer now" in page.text
    entered = desk.client.post("/console/sign-in", data={"api_key": desk.key("viewer")})
    assert "sign-in" not in str(entered.url)
    assert who(desk) == "ann"


def test_a_provider_that_goes_down_in_the_middle_is_said_too(
    desk: Gateway, issuer: CodeIssuer
) -> None:
    answer = begun(desk)
    issuer.down = True
    assert refused(ended(desk, answer), desk) == 503


def test_a_sign_in_of_a_provider_that_is_not_ours_any_more_is_over(
    desk: Gateway, issuer: CodeIssuer
) -> None:
    ended(desk, begun(desk))
    assert who(desk) == "sue"
    desk.services.sign_ins = None
    assert who(desk) is None
    assert desk.client.get(BEGIN).status_code == 404


def test_the_way_back_is_where_people_reach_us_and_never_what_a_stranger_names(
    desk: Gateway, issuer: CodeIssuer, tmp_path: Path
) -> None:
    away = desk.client.get(BEGIN, follow_redirects=False, headers={"Host": "evil.example"})
    assert away.status_code == 503
    assert "WAKEFUL_HTTP_URL" in away.text
    folder = tmp_path / "public"
    folder.mkdir()
    for public in opened(folder, issuer, "https://wakeful.example"):
        away = public.client.get(BEGIN, follow_redirects=False, headers={"Host": "evil.example"})
        asked = parse_qs(urlsplit(away.headers["location"]).query)
        assert asked["redirect_uri"] == ["https://wakeful.example/console/oidc/back"]
        assert "Secure" in away.headers["set-cookie"]
