"""The requirement files: everything pinned by content, and in step with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {"base": [], "service": ["service"], "dev": ["service", "local", "models", "dev"]}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", FILES)
def test_each_pin_has_its_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text


@pytest.mark.parametrize("name", FILES)
def test_each_direct_requirement_is_pinned(name: str) -> None:
    wanted = list(project()["dependencies"])
    for extra in FILES[name]:
        wanted += project()["optional-dependencies"][extra]
    names = {re.split(r"[\[<>=; ]", each)[0].lower() for each in wanted}
    assert names <= set(pins(name)), "run `make lock`"


def test_the_files_agree() -> None:
    everything = pins("dev").items()
    assert pins("base").items() <= everything
    assert pins("service").items() <= everything
