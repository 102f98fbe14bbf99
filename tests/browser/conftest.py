"""One running desk for all tests of the console, and the distribution's own Chromium; where it is missing these are skipped."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from wakeful.deploy.cli.context import kafka
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor

from .running import APP, Running, served

LIMIT_MS = 20_000
"""How long a page may take to show what is expected of it; machines may be busy."""

expect.set_options(timeout=LIMIT_MS)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="package")
def desk(
    endpoints: Endpoints, tmp_path_factory: pytest.TempPathFactory, keys: Path
) -> Iterator[Running]:
    """The desk, in a namespace of its own."""
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=endpoints.postgres,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"console{os.getpid()}",
        tenant="acme",
        actor="ann",
        home=tmp_path_factory.mktemp("console"),
        open_policy=True,
        keys=keys,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, ["default"])
        prepare_views(settings)
        with (
            Supervisor(settings, APP, queues=["default"], spares_max=0),
            served(settings, log) as it,
        ):
            yield it


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """
    A browser that the machine has; none is ever fetched. It ends with its module: as long as Playwright is
    there, an event loop runs in this thread, and whatever else is tested in it could run none of its own.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(
            f"no browser here: install one of {', '.join(NAMES)}, such as by apt-get install chromium"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser, desk: Running) -> Iterator[BrowserContext]:
    """A browser's window of its own, which knows nobody; what goes wrong in its pages fails the test."""
    one = chromium.new_context(base_url=desk.url, viewport={"width": 1280, "height": 860})
    one.set_default_timeout(LIMIT_MS)
    faults: list[str] = []
    one.on("weberror", lambda error: faults.append(str(error.error)))
    one.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    yield one
    one.close()
    assert [fault for fault in faults if "status of" not in fault] == []


@pytest.fixture
def page(context: BrowserContext, desk: Running) -> Page:
    """A page, signed in as an operator."""
    one = context.new_page()
    enter(one, desk.key("sue", "operator"))
    return one


def enter(page: Page, key: str) -> None:
    page.goto("/console/")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview").wait_for()


whole = pytest.mark.skipif(
    os.environ.get("WAKEFUL_BROWSER") != "whole", reason="a part of the long form: 'make browser'"
)
"""Tests that `make test` leaves out."""
