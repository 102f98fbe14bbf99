"""The tour of approvals finds no way round them, tells what docs/approvals.md shows, and leaves nothing behind."""

import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from wakeful.events.log.kafka_survey import topic_names

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "approvals_tour.py"
LIMIT_S = 90.0


def shown() -> str:
    """The output on the page."""
    page = (ROOT / "docs" / "approvals.md").read_text(encoding="utf-8")
    return re.search(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL).group(1)


@pytest.mark.slow
def test_the_tour_tells_what_the_page_shows(endpoints, postgres_url) -> None:
    environ = {
        **os.environ,
        "WAKEFUL_KAFKA": endpoints.kafka,
        "WAKEFUL_POSTGRES": postgres_url,
        "WAKEFUL_REDIS": endpoints.redis,
    }
    done = subprocess.run(
        [sys.executable, str(TOUR)],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == shown()
    assert topic_names(endpoints.kafka, "tour-") == []


def test_what_comes_out_otherwise_is_counted(monkeypatch, capsys) -> None:
    monkeypatch.syspath_prepend(str(TOUR.parent))
    spec = spec_from_file_location("approvals_tour", TOUR)
    tour = module_from_spec(spec)
    spec.loader.exec_module(tour)

    def stop(_tour):
        """Two things."""
        yield "one", "as it should be", "as it should be"
        yield "two", "approved", "refused: unsigned"

    assert tour.shown(stop, None) == 1
    assert "WRONG, it had to be: refused: unsigned" in capsys.readouterr().out
