"""What docs/schedules.md teaches is run; what its console shows is run on real Kafka in tests/deploy/test_schedules_live.py."""

import re

from wakeful.deploy.loading import RESERVED
from wakeful.processors.schedules.spec import CAUGHT_UP_MAX, schedule_id
from wakeful.processors.schedules.workflow import LATE_MS

from .readme import ROOT, blocks

PAGE = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")


def test_its_python_runs_from_top_to_bottom() -> None:
    names: dict[str, object] = {"__name__": "schedules_page"}
    for block in blocks("python", PAGE):
        exec(compile(block, "docs/schedules.md", "exec"), names)


def test_its_numbers_and_names_are_those_of_the_code() -> None:
    assert (CAUGHT_UP_MAX, LATE_MS) == (100, 60_000)
    ids = [schedule_id("NAME", generation) for generation in (1, 2)]
    assert ids == re.findall(r"`(schedule\.NAME[.\d]*)`", PAGE)
    assert f"begin with `{RESERVED}`" in PAGE
