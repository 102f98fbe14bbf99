"""Fixtures for the tests of the command line and what it is made of."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment that says nothing of this machine's installation, and a home of its own, which it gives."""
    for name in [name for name in os.environ if name.startswith("WAKEFUL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    return tmp_path
