"""The tour of the contracts tells what docs/activities.md shows, and leaves nothing behind."""

import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from wakeful.events.log.kafka_survey import topic_names

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "contracts_tour.py"
LIMIT_S = 60.0


def shown() -> str:
    """The output on the page."""
    page = (ROOT / "docs" / "activities.md").read_text(encoding="utf-8")
    return re.search(r"^```text\n(Read\(\).*?)^```$", page, re.MULTILINE | re.DOTALL).group(1)


def in_words(story: list[dict]) -> str:
    """As the tour prints it without --json."""
    spec = spec_from_file_location("contracts_tour", TOUR)
    tour = module_from_spec(spec)
    spec.loader.exec_module(tour)
    return "".join(f"{line}\n" for stop in story for line in tour.lines(stop))


@pytest.mark.slow
def test_the_tour_tells_what_the_page_shows(endpoints, postgres_url) -> None:
    environ = {
        **os.environ,
        "WAKEFUL_KAFKA": endpoints.kafka,
        "WAKEFUL_POSTGRES": postgres_url,
        "WAKEFUL_REDIS": endpoints.redis,
    }
    done = subprocess.run(
        [sys.executable, str(TOUR), "--json"],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert {stop["contract"]: stop["charges"] for stop in story} == {
        "Read()": 0,
        "Write(idempotent=True)": 1,
        "Write(lookup=find)": 1,
        "Write(undo=take_back)": 1,
        "Write()": 1,
    }
    assert in_words(story) == shown()
    assert topic_names(endpoints.kafka, "tour-") == []
