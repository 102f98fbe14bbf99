"""Schedules on real Kafka: what docs/schedules.md shows is what the commands print, and what is set to work runs once."""

import os
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.deploy.supervised import until
from tests.docs.readme import ROOT, blocks

from wakeful.deploy.cli.context import kafka, queries
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.identity import judge_of
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.rollouts import show
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.processors.schedules.spec import WORKFLOW

READS = ("list", "show")
"""Commands that may be asked until the views have caught up."""

HALF = ("--attribute", "schedule=half", "--attribute", "paused=false")
"""With what a schedule is opened that its maker was interrupted in making."""

PAGE = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")


@pytest.fixture
def desk(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Settings]:
    """The app of the page, running."""
    app = tmp_path / "report.py"
    app.write_text(blocks("python", PAGE)[0].partition("session = rehearse")[0])
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"tick{os.getpid()}",
        tenant="acme",
        actor="ann",
        home=tmp_path / "run",
        open_policy=True,
        keys=keys,
    )
    settings.home.mkdir()
    for name, value in settings.to_environ().items():
        monkeypatch.setenv(name, value)
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, [])
    prepare_views(settings)
    with Supervisor(settings, str(app), queues=[]):
        until(lambda: loaded(settings), "a processor that has told what it has loaded")
        until(decides, "a processor that decides")
        yield settings


def loaded(settings: Settings) -> bool:
    with kafka(settings) as log:
        shown = show(log, settings, judge_of(settings, log))
    return any("report" in {v.name for v in seen.loaded} for seen in shown.seen.values())


def decides() -> bool:
    return invoke(("session", "open", "report", "--session", "another")) == Exit.DONE


def asked() -> Iterator[tuple[list[str], str]]:
    """Each command of the page, and what it prints."""
    (console,) = blocks("console", PAGE)
    for one in re.findall(r"^\$ wakeful (.*(?:\n(?!\$ ).*)*)", console, re.MULTILINE):
        command, _, output = one.partition("\n")
        yield shlex.split(command), output.strip()


def looks_like(shown: str, printed: str) -> bool:
    """Whether it is that, where `…` stands for anything and spaces for any number of them."""
    words = [re.escape(" ".join(part.split())) for part in shown.split("…")]
    return re.fullmatch(" ?.*? ?".join(words), " ".join(printed.split())) is not None


@pytest.mark.slow
def test_the_page_shows_what_the_commands_print(
    desk: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(command: list[str]) -> tuple[int, str]:
        code = invoke(command)
        return code, "".join(capsys.readouterr())

    def comes_to_be(command: list[str], shown: str) -> bool:
        code, printed = said(command)
        return code == Exit.DONE and looks_like(shown, printed)

    for command, shown in asked():
        if command[1] in READS:
            until(partial(comes_to_be, command, shown), f"{' '.join(command)}:\n{shown}")
            continue
        code, printed = said(command)
        assert (code, looks_like(shown, printed)) == (Exit.DONE, True), printed
    with queries(desk) as views:
        (row,) = views.session("schedule.daily", tenant="acme")
        runs = views.ask(_RUNS, tenant="acme", limit=10)
    assert row["status"] == "Cancelled"
    assert [(one["opened_by"], one["trigger"]) for one in runs] == [("ann", "schedule")]
    assert runs[0]["last_reply"]["text"].endswith(", triggered: the best 3")

    def ends(code: Exit, told: str, *words: str) -> None:
        assert (invoke(("schedule", *words)), told in capsys.readouterr().err) == (code, True), told

    daily = ("--cron", "0 9 * * *", "--workflow", "report")
    ends(Exit.REFUSED, "schedule 'daily' has ended (deleted)", "pause", "daily")
    ends(Exit.DONE, "daily: due at", "create", "daily", *daily)
    ends(Exit.REFUSED, "there is a schedule 'daily' (active)", "create", "daily", *daily)
    ends(
        Exit.REFUSED,
        "no processor has loaded workflow 'repot'",
        "create",
        "x",
        *daily[:-1],
        "repot",
    )
    ends(Exit.NOT_FOUND, "no schedule 'weekly'", "pause", "weekly")
    half = ("session", "open", WORKFLOW, "--session", "schedule.half", *HALF)
    assert invoke((*half, "--actor", "bob")) == Exit.DONE
    ends(Exit.REFUSED, "'half' has been made meanwhile", "create", "half", *daily)
    ends(Exit.DONE, "half: due at", "create", "half", *daily, "--actor", "bob")


_RUNS = """
SELECT * FROM {views}.sessions
WHERE tenant = %(tenant)s AND attributes ->> 'scheduled_by' = 'daily' LIMIT %(limit)s
"""
