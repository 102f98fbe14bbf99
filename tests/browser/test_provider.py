"""Signing in through a provider of another site, in a browser: its cookies are what decides there."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.deploy.gateway.code_issuer import CLIENT_ID, CLIENT_SECRET, CodeIssuer
from tests.deploy.gateway.issuer import AUDIENCE

from .conftest import LIMIT_MS, whole
from .running import Running, served


@pytest.fixture(scope="module")
def issuer() -> Iterator[CodeIssuer]:
    with CodeIssuer(time.time(), host="localhost") as found:  # another site than 127.0.0.1
        yield found


@pytest.fixture(scope="module")
def url(desk: Running, issuer: CodeIssuer) -> Iterator[str]:
    """A gateway of the same desk that knows the provider."""
    settings = {
        "WAKEFUL_OIDC_ISSUER": issuer.url,
        "WAKEFUL_OIDC_AUDIENCE": AUDIENCE,
        "WAKEFUL_OIDC_CLIENT_ID": CLIENT_ID,
        "WAKEFUL_OIDC_CLIENT_SECRET": CLIENT_SECRET,
    }
    with served(desk.settings, desk.log, **settings) as gateway:
        yield gateway.url


@whole
def test_a_person_signs_in_through_the_provider_is_led_back_and_signs_out(
    chromium: Browser, url: str, issuer: CodeIssuer
) -> None:
    window = chromium.new_context(base_url=url)
    window.set_default_timeout(LIMIT_MS)
    page = window.new_page()
    page.goto("/console/ledger?session=browser-1")
    page.get_by_role("link", name="Sign in with localhost").click()
    expect(page.get_by_role("heading", name="Ledger")).to_be_visible()
    assert page.url == f"{url}/console/ledger?session=browser-1"
    expect(page.locator(".who-name")).to_have_text("sue")
    with page.expect_request("**/console/stream/approvals**"):
        page.goto("/console/approvals")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("You are signed out here.")
    way_out = page.get_by_role("link", name="Sign out at localhost, too")
    assert (way_out.get_attribute("href") or "").startswith(f"{issuer.url}/logout?")
    page.goto("/console/ledger")
    expect(page.get_by_role("heading", name="Wakeful")).to_be_visible()
    window.close()
