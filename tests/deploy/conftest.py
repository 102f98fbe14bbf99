"""Fixtures for the tests of the command line and what it is made of."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wakeful.deploy.cli.context import kafka
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor

QUEUES = ["default", "payments"]
APP = str(Path(__file__).with_name("desk_app.py"))

Cli = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment that says nothing of this machine's installation, and a home of its own, which it gives."""
    for name in [name for name in os.environ if name.startswith("WAKEFUL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def desk(
    endpoints: Endpoints, postgres_url: str, tmp_path_factory: pytest.TempPathFactory, keys: Path
) -> Iterator[tuple[Settings, Supervisor]]:
    """The refund desk, running in a namespace of its own."""
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"cli{os.getpid()}",
        tenant="acme",
        actor="ann",
        home=tmp_path_factory.mktemp("run"),
        open_policy=True,
        keys=keys,
        always_replay=True,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, QUEUES)
    prepare_views(settings)
    with Supervisor(settings, APP, queues=QUEUES, spares_max=0) as supervisor:
        yield settings, supervisor


@pytest.fixture
def cli(
    desk: tuple[Settings, Supervisor],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Cli]:
    """Runs commands; gives its code, its output (decoded where it is JSON), and what it told people."""
    for name, value in desk[0].to_environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wakeful.deploy.cli.asking.DECIDED_MS", 30_000)  # machines may be busy

    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = invoke(arguments)
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments else out, err

    return run
