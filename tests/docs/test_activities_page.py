"""What docs/activities.md teaches is run, and its numbers and words are those of the code."""

import re

from wakeful.events.blob_patience import TRANSACTION_LIMIT_MS
from wakeful.events.blobs import BLOB_FAULTS
from wakeful.events.failures import KINDS
from wakeful.events.limits import BLOB_MAX, PAYLOAD_MAX
from wakeful.events.retries import JITTER, RETRIED_KINDS
from wakeful.processors.activities import (
    beats,
    contracts,
    declaring,
    definitions,
    hung,
    lane,
    superseded,
    worker,
)
from wakeful.processors.workflow.claims import held_by
from wakeful.processors.workflow.definitions import Workflow

from .readme import ROOT

PAGE = (ROOT / "docs" / "activities.md").read_text(encoding="utf-8")


def test_its_python_runs_from_top_to_bottom() -> None:
    names: dict[str, object] = {"__name__": "activities_page"}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/activities.md", "exec"), names)
    assert isinstance(names["look_up"], Workflow)
    declared = {n for n, one in names.items() if isinstance(one, definitions.Activity)}
    assert {n: names[n].is_sync for n in declared} == {
        "find_order": False,
        "refund": True,
        "read_balance": False,
        "transfer": True,
        "fetch": True,
        "send_parcel": False,
        "cancel_booking": False,
        "book": False,
        "print_cheque": True,
        "forecast": False,
        "count_orders": True,
        "reads_aloud": False,
        "watch": True,
    }


def test_its_kinds_of_failure_are_those_of_workers_and_of_the_engine() -> None:
    section = PAGE.split("| `failure.kind` | when |")[1].split("\n\n")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    of_the_engine = {
        "returned",
        "unapproved",
        "forbidden",
        "unapproved_action",
        "uncertain",
        "undone",
        "not_done",
    }
    assert told == {*KINDS} | of_the_engine


def test_its_kinds_that_are_tried_again_are_those_of_the_engine() -> None:
    section = PAGE.split("| kind | another attempt |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \| (yes|no)\b", section, re.MULTILINE)
    told = {kind: again for kinds, again in rows for kind in re.findall(r"`(\w+)`", kinds)}
    assert {kind for kind, again in told.items() if again == "yes"} == RETRIED_KINDS
    assert {*KINDS, "returned", "unapproved", "forbidden"} == set(told)


def test_its_options_of_a_retry_and_their_defaults_are_those_of_the_code() -> None:
    section = PAGE.split("| `Retry(…)` | means | default |")[1].split("\n\n")[0]
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", section, re.MULTILINE))
    assert told == {
        "attempts": "5",
        "initial": "1 s",
        "factor": "2",
        "cap": "1 m",
        "never": "none",
    }
    assert contracts.Retry() == contracts.Retry(5, "1s", 2, "1m", ())
    assert (contracts.ATTEMPTS_MAX, contracts.FACTOR_MAX, JITTER) == (1_000, 1_000.0, 4)


def test_its_numbers_are_those_of_the_code() -> None:
    assert (worker.CONCURRENCY_DEFAULT, worker.SYNC_CONCURRENCY_DEFAULT) == (100, 8)
    assert (worker.DRAIN_MS_DEFAULT, lane.BLOCKED_MS, hung.EXIT_CODE) == (10_000, 2_000, 70)
    assert declaring.TIMEOUT_DEFAULT == "60s"
    assert declaring.SCHEDULE_TO_CLOSE_DEFAULT == "24h"
    assert declaring.SCHEDULE_TO_CLOSE_ONCE_DEFAULT == "1h"
    assert contracts.SETTLE_DEFAULT == "10s"
    assert PAYLOAD_MAX == 256 * 1024
    assert (beats.SHARE, beats.PROGRESS_MS, superseded.LOOK_MS) == (3, 1_000, 100)
    assert BLOB_MAX == 64 * 1024 * 1024
    assert TRANSACTION_LIMIT_MS == 1_500


def test_its_reasons_of_a_hold_are_those_of_the_engine() -> None:
    told = set(re.findall(r"^\| `(payload_\w+)` \|", PAGE, re.MULTILINE))
    assert {held_by(kind("told")).reason for kind in BLOB_FAULTS} == told
