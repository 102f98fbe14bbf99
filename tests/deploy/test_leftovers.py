"""`wakeful reset` leaves nothing of the log that it removes, and says what it has removed."""

import re
from pathlib import Path

import pytest

from wakeful.deploy import leftovers
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.gateway.console import one_time, signing

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which everything has run."""
    for name in leftovers.OF_A_LOG:
        path = tmp_path / name
        if path.suffix or name == signing.KEY_FILE:
            path.write_text("{}")
        else:
            (path / "deep").mkdir(parents=True)
            (path / "deep" / "one").write_text("x")
    (tmp_path / "run.json").unlink()
    (tmp_path / "mine.txt").write_text("not ours")
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    return tmp_path


def test_a_reset_removes_what_refers_to_the_log_and_nothing_else(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["reset", "--yes"]) == Exit.DONE
    assert {path.name for path in home.iterdir()} == {"mine.txt"}
    told = capsys.readouterr().err
    for name in ("blobs", "api_keys.json", "console_key", "console-links", "workers"):
        assert f"({name})" in told
    assert invoke(["reset", "--yes"]) == Exit.DONE
    assert capsys.readouterr().err == "the stack and its data are gone\n"


def test_it_knows_every_name_that_the_code_puts_into_a_home() -> None:
    """Whoever adds one decides whether it is of a log."""
    modules = sorted((ROOT / "deploy").rglob("*.py"))
    sources = [p.read_text("utf-8") for p in modules if "demo" not in p.parts]  # it has a folder
    named = set(re.findall(r'home(?:\.absolute\(\))? / "([\w.-]+)"', "".join(sources)))
    named |= {one_time.USED, one_time.ENDED, signing.KEY_FILE}
    assert named >= {"processors", "blobs", "workers", "watchers", "api_keys.json"}
    known = {*leftovers.OF_A_LOG, "stack.json", "lock", "logs"}  # those the stack removes itself
    assert named - known == set()
