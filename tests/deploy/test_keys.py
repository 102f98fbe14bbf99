"""`wakeful keys`: made, listed without secrets, handed on, and ended."""

import json

import pytest

from wakeful.commands.keyring import ALL_TENANTS, ROLES
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.keyfile import read_keys


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    monkeypatch.delenv("WAKEFUL_KEYS", raising=False)

    def run(*arguments):
        code = invoke(["keys", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def kids(cli):
    return [row["kid"] for row in json.loads(cli("list", "--json")[1])["keys"]]


def test_new_alone_makes_what_one_machine_needs_and_list_shows_no_secret(cli, tmp_path) -> None:
    assert cli("new")[0] == 0
    code, shown, _ = cli("list")
    told = shown + cli("list", "--json")[1]
    assert code == 0
    assert [row["role"] for row in json.loads(cli("list", "--json")[1])["keys"]] == [
        "client",
        "worker",
        "processor",
        "publisher",
    ]
    for key in read_keys(tmp_path / "keys.json").keys:
        assert key.kid in told
        assert key.secret.hex() not in told


def test_a_key_is_made_for_what_it_is_told(cli, tmp_path) -> None:
    code, out, _ = cli(
        *("new", "--role", "worker", "--tenant", "a", "--tenant", "b", "--days", "1"),
        *("--algorithm", "ed25519", "--actor", "worker:w1", "--json"),
    )
    (row,) = json.loads(out)["keys"]
    (key,) = read_keys(tmp_path / "keys.json").keys
    assert code == 0
    assert (row["tenants"], row["actor"], row["algorithm"]) == (["a", "b"], "worker:w1", "ed25519")
    assert row["public"] == key.public.hex()
    assert key.not_after_ms is not None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            ("--role", "king"),
            "--role king is not one of client, gateway, worker, processor, publisher",
        ),
        (("--algorithm", "none"), "algorithm 'none' is not one of hmac-sha256, ed25519"),
        (("--tenant", "a/b"), "tenant 'a/b' is not allowed"),
        (("--days", "99999999999"), "--days': it should be less than or equal to 36500"),
        (("--days", "nan"), "--days': it should be less than or equal to 36500"),
        (("--role", "publisher", "--tenant", "acme"), "a policy set speaks of all"),
        (("--role", "processor", "--tenant", "acme"), "it wakes the sessions of all"),
        (("--role", "worker", "--actor", "sue"), "a worker speaks as worker:ITS-NAME alone"),
        (("--role", "processor", "--actor", "sue"), "a processor speaks for nobody"),
        (("--actor", "sue"), "give --role client or gateway or publisher"),
    ],
)
def test_what_cannot_be_a_key_changes_nothing(cli, tmp_path, wrong, told) -> None:
    code, _, err = cli("new", *wrong)
    assert (code, told in err) == (2, True)
    assert not (tmp_path / "keys.json").exists()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("algorithm", ["hmac-sha256", "ed25519"])
@pytest.mark.parametrize("tenant", [None, "acme"])
@pytest.mark.parametrize("actor", [None, "sue", "worker:w1"])
def test_each_key_that_is_made_signs_something_that_its_role_says(
    cli, tmp_path, role, algorithm, tenant, actor
) -> None:
    options = {"--role": role, "--algorithm": algorithm, "--tenant": tenant, "--actor": actor}
    code, _, err = cli("new", *(x for o in options.items() if o[1] is not None for x in o))
    if code:
        assert (code, "leave --" in err or "take another" in err) == (2, True)
        assert tenant or actor, "a key without limits was refused"
        return
    (key,) = read_keys(tmp_path / "keys.json").keys
    speaker = {"worker": "worker:w1", "processor": "engine"}.get(role, actor or "ann")
    on = ALL_TENANTS if role == "publisher" else tenant or "beta"
    assert all(key.vouches_for(on, kind, speaker) for kind in ROLES[role])
    if role == "processor":
        assert key.tenants is None


def test_what_one_tenant_needs_has_no_key_for_policies_which_speak_of_all(cli, tmp_path) -> None:
    assert cli("new", "--tenant", "acme")[0] == 0
    roles = [key.role for key in read_keys(tmp_path / "keys.json").keys]
    assert roles == ["client", "worker"]


def test_retired_and_revoked_are_shown_and_revoked_is_for_good(cli) -> None:
    cli("new")
    client, worker, *_ = kids(cli)
    assert cli("retire", client)[0] == 0
    assert cli("revoke", worker)[0] == 0
    code, _, err = cli("retire", worker)
    assert (code, "for good" in err) == (1, True)
    assert cli("revoke", worker)[0] == 0
    rows = json.loads(cli("list", "--json")[1])["keys"]
    assert [(row["status"], row["signs"]) for row in rows] == [
        ("retired", False),
        ("revoked", False),
        ("active", True),
        ("active", True),
    ]
    assert cli("revoke", "nobody")[0] == 3


def test_the_end_of_the_last_key_for_all_warns_of_those_for_some(cli) -> None:
    cli("new", "--role", "worker")
    cli("new", "--role", "worker")
    cli("new", "--role", "worker", "--tenant", "beta")
    one, other, _ = kids(cli)
    assert "warning" not in cli("retire", one)[2]
    told = cli("revoke", other)[2]
    assert (
        "warning: the keys that are left sign results of some tenants or in some names only" in told
    )
    assert "wakeful keys new --role worker" in told


def test_the_end_of_a_publishers_key_warns_of_the_sets_that_it_signed(cli) -> None:
    cli("new", "--role", "publisher")
    cli("new", "--role", "publisher")
    one, *_ = kids(cli)
    assert "policy set" not in cli("retire", one)[2]
    assert (
        "warning: policy sets and rollouts that it signed count for nothing"
        in cli("revoke", one)[2]
    )


@pytest.mark.parametrize("how", ["retire", "revoke"])
def test_the_end_of_a_role_s_last_key_is_warned_of_and_done(cli, how) -> None:
    cli("new")
    cli("new", "--role", "worker")
    _, first, processor, _, last = kids(cli)
    assert "warning" not in cli(how, first)[2]
    code, _, err = cli(how, last)
    assert code == 0
    assert (
        "warning: no key is left that signs results: workers stop until 'wakeful keys new --role worker'"
        in err
    )
    assert "warning" not in cli(how, last)[2]
    assert "processors stop until 'wakeful keys new --role processor'" in cli(how, processor)[2]


def test_a_service_gets_its_own_key_and_others_get_what_verifies(cli, tmp_path) -> None:
    cli("new", "--role", "worker", "--algorithm", "ed25519")
    cli("new", "--role", "client")
    worker, client = kids(cli)
    assert cli("export", worker, "--to", tmp_path / "half.json")[0] == 0
    assert cli("export", worker, "--secret", "--to", tmp_path / "own.json")[0] == 0
    code, _, err = cli("export", client, "--to", tmp_path / "no.json")
    assert (code, "no public half" in err) == (2, True)
    (half,), (own,) = (read_keys(tmp_path / f"{name}.json").keys for name in ("half", "own"))
    assert (half.signs, own.signs, half.public) == (False, True, own.public)
    assert cli("export", worker, "--to", tmp_path / "half.json")[0] == 2


def test_keys_are_added_once_and_never_in_anothers_place(cli, tmp_path, monkeypatch) -> None:
    cli("new", "--role", "worker", "--algorithm", "ed25519")
    (worker,) = kids(cli)
    half = tmp_path / "half.json"
    cli("export", worker, "--to", half)
    monkeypatch.setenv("WAKEFUL_KEYS", str(tmp_path / "theirs.json"))
    assert "1 of 1 keys added" in cli("add", half)[2]
    assert "0 of 1 keys added" in cli("add", half)[2]
    rows = json.loads(half.read_text())
    rows["keys"][0] |= {"algorithm": "hmac-sha256", "public": None, "secret": "00" * 32}
    half.write_text(json.dumps(rows))
    code, _, err = cli("add", half)
    assert (code, "nothing was added" in err) == (1, True)
    assert [key.secret for key in read_keys(tmp_path / "theirs.json").keys] == [None]
