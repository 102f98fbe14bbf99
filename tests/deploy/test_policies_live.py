"""A policy published on real Kafka, and two processors that decide by it from then on."""

import json
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.supervised import until

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

Cli = Callable[..., tuple[int, Any, str]]

NUMBERS = count()
"""Each desk has a control topic of its own."""


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
        namespace=f"pol{os.getpid()}.{next(NUMBERS)}",
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
    with Supervisor(settings, APP, queues=QUEUES, processors=2, spares_max=0):
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
    _, (asked,), _ = cli("approval", "list", "--session", "r1", "--json")
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


STOP = '@id("stopped") forbid (principal, action == Action::"execute", resource == Tool::"refund")'
BY_EVE = f'{STOP} unless {{ context.approved_by.contains(Actor::"local/eve") }}'


def test_an_approval_that_policy_makes_void_exits_with_1_and_says_what_is_next(
    cli: Cli, tmp_path: Path
) -> None:
    wanted = tmp_path / "policy.toml"

    def publish_also(policy: str) -> None:
        (tmp_path / "also.cedar").write_text(f"{policy};", "utf-8")
        roles = '[roles.local]\nsupervisor = ["sue", "eve"]\n'
        wanted.write_text(f'policies = ["default", "also.cedar"]\n{roles}', "utf-8")
        assert cli("policy", "publish", str(wanted))[0] == Exit.DONE

    def open_proposals() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []

        def any_listed() -> bool:
            listed[:] = cli("approval", "list", "--session", "v1", "--json")[1]
            return bool(listed)

        until(any_listed, "the views to show what is asked for")
        return listed

    def approve(by: str) -> tuple[int, str]:
        (asked,) = open_proposals()
        done = ("--session", "v1", "--actor", by, "--wait", "--timeout", "30")
        code, _, err = cli("approval", "approve", asked["proposal_id"], *done)
        return code, err

    publish_also(BY_EVE)
    assert cli("session", "open", "refund-desk", "--session", "v1")[0] == Exit.DONE
    assert cli("session", "send", "v1", "order-7", "--wait", "--timeout", "30")[0] == Exit.DONE
    code, err = approve("sue")
    assert (code, "void, since refund may not be carried out: forbidden by stopped" in err) == (
        Exit.REFUSED,
        True,
    )
    assert "people are asked again: look at 1.2.2-" in err
    _, out, _ = cli("approval", "list", "--session", "v1")
    assert "refund (1.3) is withheld, since refund may not be carried out: forbidden" in out
    assert "asked again, as 1.2-" in out
    assert "refund (1.3) is withheld" in cli("session", "show", "v1")[1]
    assert "withheld by stopped, until it is approved" in cli("explain", "v1")[1]

    publish_also(STOP)
    code, err = approve("eve")
    assert code == Exit.REFUSED
    assert "nobody is asked again: refund was not carried out: forbidden by stopped" in err
    assert cli("approval", "list", "--session", "v1", "--json")[1] == []
    assert "withheld by stopped, for good: it failed (forbidden: " in cli("explain", "v1")[1]
