"""The measure of signatures measures what processors do: every command is judged, and none is refused."""

import json

import pytest
from bench import vouching

from wakeful.commands.identity import INSECURE, Signed
from wakeful.commands.keyring import Keyring


def test_it_tells_what_signing_verifying_and_folding_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vouching, "ROUNDS", 1)
    monkeypatch.setattr(vouching, "RESULTS", 20)
    said: list[str] = []
    vouching.main(said.append)
    found = json.loads(said[0])
    assert list(found) == ["bare", "hmac-sha256", "ed25519"]
    assert all(set(took) == {"sign_us", "verify_us", "fold_us"} for took in found.values())
    assert found["ed25519"]["verify_us"] > found["bare"]["verify_us"]


def test_it_measures_nothing_where_commands_are_refused() -> None:
    records, _ = vouching.signed(vouching.said(), INSECURE)
    nobody = Signed(Keyring, "bench")
    with pytest.raises(RuntimeError, match="302 of 302 commands are refused"):
        vouching.verified(records, nobody)
