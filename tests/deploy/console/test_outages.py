"""What the console shows while what it asks does not answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.gateway.posting import Gateway

from wakeful.deploy.gateway.api_keys import ApiKeys
from wakeful.deploy.gateway.console.app import console_app
from wakeful.deploy.gateway.console.signing import Signer


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """One whose database does not answer, with a console and somebody signed in."""
    one = Gateway(tmp_path)
    keys = ApiKeys(tmp_path / "api_keys.json")
    one.client.app.mount("/console", console_app(one.services, keys, Signer(b"k" * 32)))
    form = {"api_key": one.key("operator")}
    assert one.client.post("/console/sign-in", data=form, follow_redirects=False).status_code == 303
    yield one
    one.services.close()


@pytest.mark.parametrize(
    "path", ["", "sessions", "sessions/s1", "approvals", "ledger", "ledger.csv"]
)
def test_pages_say_that_the_views_do_not_answer_and_no_more(gateway: Gateway, path: str) -> None:
    answer = gateway.client.get(f"/console/{path}")
    assert answer.status_code == 503
    assert "The views do not answer now." in answer.text
    assert "127.0.0.1:1" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_way_in_and_out_needs_no_views(gateway: Gateway) -> None:
    assert gateway.client.get("/console/sign-in").status_code == 200
    assert gateway.client.get("/console/nothing").status_code == 404
