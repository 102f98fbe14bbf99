"""Schedules on real Kafka: what docs/schedules.md shows is what the commands print, and what is set to work runs once."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.supervised import until
from tests.docs.readme import ROOT, blocks

from wakeful.deploy.cli.context import kafka, queries
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor

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
        yield settings


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
    def comes_to_be(command: list[str], shown: str) -> bool:
        code = invoke(command)
        printed = capsys.readouterr()
        return code == Exit.DONE and looks_like(shown, printed.out + printed.err)

    for command, shown in asked():
        until(
            lambda command=command, shown=shown: comes_to_be(command, shown),
            f"{' '.join(command)}:\n{shown}",
        )
    with queries(desk) as views:
        (row,) = views.session("schedule.daily", tenant="acme")
        runs = views.ask(_RUNS, tenant="acme", limit=10)
    assert row["status"] == "Cancelled"
    assert [(one["opened_by"], one["trigger"]) for one in runs] == [("ann", "schedule")]
    assert runs[0]["last_reply"]["text"].endswith(", triggered: the best 3")


@pytest.mark.slow
def test_what_cannot_be_is_refused_before_there_is_a_schedule(
    desk: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(code: Exit, told: str, *words: str) -> None:
        assert invoke(("schedule", *words)) == code
        assert told in capsys.readouterr().err

    daily = ("create", "daily", "--cron", "0 9 * * *", "--workflow")
    until(lambda: invoke(("schedule", *daily, "report")) == Exit.DONE, "a schedule")
    refused(Exit.REFUSED, "there is a schedule 'daily' (active)", *daily, "report")
    refused(Exit.REFUSED, "no processor has loaded workflow 'repot'", *daily, "repot")
    refused(Exit.NOT_FOUND, "no schedule 'weekly'", "pause", "weekly")


_RUNS = "SELECT * FROM {views}.sessions WHERE tenant = %(tenant)s AND workflow = 'report' LIMIT %(limit)s"
