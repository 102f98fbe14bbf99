"""The gateway's settings are those of the page, and API keys are read as they are now."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.gateway import settings as code
from wakeful.deploy.gateway.api_keys import ApiKeys, changing, new_key, read_keys
from wakeful.deploy.gateway.settings import NAMES, PREFIX, load_gateway_settings

PAGE = (Path(__file__).parents[3] / "docs" / "settings.md").read_text(encoding="utf-8")


def test_the_page_lists_them_all_with_their_defaults(tmp_path):
    section = PAGE.partition("### The gateway")[2].partition("\n## ")[0]
    told = set(re.findall(r"`WAKEFUL_(\w+)`", section))
    assert told >= set(NAMES.values())
    assert set(re.findall(r"^\| `WAKEFUL_(\w+)` \|", code.__doc__ or "", re.MULTILINE)) == set(
        NAMES.values()
    )
    found = load_gateway_settings({}, tmp_path)
    rows = dict(re.findall(r"^\| `WAKEFUL_(\w+)` \|.*\| `?([\w.]+)`? \|$", section, re.MULTILINE))
    for field, name in NAMES.items():
        default = getattr(found, field)
        if name in rows and rows[name] != "none" and field != "api_keys":
            assert str(default).removesuffix(".0") == rows[name], name


@pytest.mark.parametrize(
    "issuer",
    ["https://login.example.com", "https://a.example/realms/x", "http://127.0.0.1:9000/realm"],
)
def test_an_issuer_is_an_https_address_or_on_this_machine(tmp_path, issuer):
    environ = {f"{PREFIX}OIDC_ISSUER": issuer, f"{PREFIX}OIDC_AUDIENCE": "wakeful"}
    assert load_gateway_settings(environ, tmp_path).oidc_issuer == issuer


@pytest.mark.parametrize(
    "issuer",
    [
        "http://login.example.com",
        "http://127.0.0.1.example.com",
        "http://localhost@example.com",
        "https://a.example?x=1",
        "https://a.example#x",
        "ftp://a.example",
        "login",
    ],
)
def test_any_other_is_refused(tmp_path, issuer):
    environ = {f"{PREFIX}OIDC_ISSUER": issuer, f"{PREFIX}OIDC_AUDIENCE": "wakeful"}
    with pytest.raises(Stopped, match="WAKEFUL_OIDC_ISSUER") as caught:
        load_gateway_settings(environ, tmp_path)
    assert caught.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"OIDC_CLIENT_ID": "console"}, "name the provider"),
        ({"OIDC_SCOPES": "profile"}, "the word openid"),
        ({"HTTP_URL": "http://wakeful.example"}, "https address without a path"),
        ({"HTTP_URL": "https://wakeful.example/deep"}, "https address without a path"),
        ({"HTTP_URL": "https://me@wakeful.example"}, "https address without a path"),
        (
            {
                "OIDC_ISSUER": "https://a.example",
                "OIDC_AUDIENCE": "wakeful",
                "OIDC_CLIENT_ID": "console",
                "HTTP_HOST": "0.0.0.0",
            },
            "WAKEFUL_HTTP_URL is not: say where browsers reach",
        ),
    ],
)
def test_sign_ins_that_cannot_work_are_refused_at_the_start(tmp_path, environ, told):
    with pytest.raises(Stopped, match=told) as caught:
        load_gateway_settings({PREFIX + name: value for name, value in environ.items()}, tmp_path)
    assert caught.value.code == Exit.USAGE


def test_the_clients_secret_is_shown_by_nothing(tmp_path):
    found = load_gateway_settings({f"{PREFIX}OIDC_CLIENT_SECRET": "hush-hush"}, tmp_path)
    assert "hush" not in f"{found!r} {found}"
    assert found.oidc_client_secret.get_secret_value() == "hush-hush"


def test_a_file_of_keys_that_is_damaged_later_takes_nobody_out_and_lets_nobody_in(tmp_path):
    path = tmp_path / "api_keys.json"
    text, kept = new_key("acme", "ann", ("user",))
    with changing(path) as keys:
        keys.append(kept)
    found = ApiKeys(path)
    assert found.find(text, 0) == kept
    path.write_text("{")
    assert found.find(text, 0) == kept
    path.unlink()
    assert found.find(text, 0) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant": "a/b"},
        {"actor": ""},
        {"roles": []},
        {"roles": ["king"]},
        {"status": "maybe"},
        {"more": 1},
    ],
)
def test_a_file_with_a_key_that_cannot_be_one_is_refused(tmp_path, changed):
    path = tmp_path / "api_keys.json"
    row = {
        "id": "a1b2c3d4",
        "sha256": "0" * 64,
        "tenant": "acme",
        "actor": "ann",
        "roles": ["user"],
    }
    path.write_text(json.dumps({"keys": [{**row, **changed}]}))
    with pytest.raises(Stopped, match="api_keys") as caught:
        read_keys(path)
    assert caught.value.code == Exit.USAGE


def test_a_key_counts_until_its_last_moment_and_with_its_own_secret_alone(tmp_path):
    path = tmp_path / "api_keys.json"
    text, kept = new_key("acme", "ann", ("user",), not_after_ms=1_000)
    other, _ = new_key("acme", "ann", ("user",))
    with changing(path) as keys:
        keys.append(kept)
    found = ApiKeys(path)
    assert found.find(text, 1_000) == kept
    assert found.find(text, 1_001) is None
    mixed = f"wk_{kept.id}_{other.rpartition('wk_')[2][9:]}"
    assert found.find(mixed, 0) is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert text.split("_", 2)[2] not in path.read_text()
