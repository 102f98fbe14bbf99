"""A policy published on real Kafka, and two processors that decide by it from then on."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wakeful.commands.identity import INSECURE
from wakeful.deploy.cli.context import kafka
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.policies import publish
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.events import records as r
from wakeful.processors.policies.sets import default_policies

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]

APP = str(Path(__file__).with_name("desk_app.py"))
QUEUES = ["default", "payments"]
LIMIT_S = 20.0

Cli = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def desk(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Settings]:
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"pol{os.getpid()}",
        actor="ann",
        home=tmp_path / "run",
        keys=keys,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, QUEUES)
    prepare_views(settings)
    for name, value in settings.to_environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wakeful.deploy.cli.asking.DECIDED_MS", 30_000)  # machines may be busy
    with Supervisor(settings, APP, queues=QUEUES, processors=2):
        yield settings


@pytest.fixture
def cli(desk: Settings, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = invoke(arguments)
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments and out else out, err

    return run


def test_nobody_may_approve_until_a_policy_is_published_and_then_who_it_says(
    desk: Settings, cli: Cli, tmp_path: Path
) -> None:
    assert cli("session", "open", "refund-desk", "--session", "r1")[0] == Exit.DONE
    code, _, err = cli("session", "send", "r1", "order-7", "--wait", "--timeout", "30")
    assert code == Exit.DONE, err
    limit, listed = time.monotonic() + LIMIT_S, []
    while not listed and time.monotonic() < limit:  # the views come a moment later
        _, listed, _ = cli("approval", "list", "--session", "r1", "--json")
    (asked,) = listed
    approve = ("approval", "approve", asked["proposal_id"], "--session", "r1")

    code, _, err = cli(*approve, "--actor", "sue")
    assert code == Exit.REFUSED
    assert "'wakeful policy publish FILE'" in err

    wanted = tmp_path / "policy.toml"
    wanted.write_text(
        f'policies = ["default"]\n[roles.local]\n{asked["approver"]} = ["sue", "ann"]\n', "utf-8"
    )
    code, told, err = cli("policy", "publish", str(wanted), "--json")
    assert code == Exit.DONE, err
    assert told["processors"] == [f"{desk.namespace}.processors.{n}" for n in (0, 1)]

    usurping = r.RoleMembers("local", asked["approver"], ("eve",))
    forged = r.PolicyPublished(2, 0, "root", "", default_policies(), (usurping,), ())
    with kafka(desk) as log:
        ignored = publish(log, desk, forged, INSECURE)
    for actor, word in (("eve", "no policy permits it"), ("ann", "not-ones-own-request")):
        code, _, err = cli(*approve, "--actor", actor)
        assert (code, word in err) == (Exit.REFUSED, True), err
    code, _, err = cli(*approve, "--actor", "sue", "--wait", "--timeout", "30")
    assert code == Exit.DONE, err

    code, shown, _ = cli("policy", "show", "--json")
    assert (code, shown["version"], shown["hash"]) == (Exit.DONE, 1, told["hash"])
    (why,) = shown["ignored"]
    assert f"at offset {ignored} is ignored: unsigned" in why
    assert set(shown["processors"].values()) == {shown["offset"]} == {told["offset"]}
