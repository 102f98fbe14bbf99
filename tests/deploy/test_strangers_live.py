"""Strangers, thieves and another tenant's people, on real Kafka, Postgres and the command line: nothing is done for them."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.supervised import until

from wakeful.commands.identity import Signed
from wakeful.commands.keyring import ACTIVE, KINDS, REVOKED, Key, Keyring
from wakeful.commands.models import Command, CommandHeader, DecideApproval
from wakeful.commands.wire import decode_command, encode_command
from wakeful.deploy.cli.context import kafka
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.keyfile import ensure_local_keys, new_key, read_keys, write_keys
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.deploy.telling.reading import to_the_end
from wakeful.events.headers import dead_letter_in, record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.protocol import Log, Place

QUEUES = ["default", "payments"]
APP = str(Path(__file__).with_name("desk_app.py"))
DAY_MS = 86_400_000

_WHEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")

Cli = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module")
def desk(
    endpoints: Endpoints, postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """The refund desk, with keys for one tenant, for one actor, and one that was stolen."""
    home = tmp_path_factory.mktemp("run")
    path = home / "keys.json"
    ensure_local_keys(path)
    more = [
        replace(new_key("client", tenants=["beta"]), kid="betas"),
        replace(new_key("client", tenants=["acme"], actor="carol"), kid="carols"),
        replace(new_key("client"), kid="stolen", status=REVOKED),
    ]
    write_keys(path, [*read_keys(path).keys, *more])
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"str{os.getpid()}",
        tenant="acme",
        actor="ann",
        home=home,
        open_policy=True,
        keys=path,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, QUEUES)
    prepare_views(settings)
    with Supervisor(settings, APP, queues=QUEUES, spares_max=0):
        yield settings


@pytest.fixture
def cli(desk: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs commands as somebody of acme, or of another tenant."""
    for name, value in desk.to_environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wakeful.deploy.cli.asking.DECIDED_MS", 30_000)  # machines may be busy

    def run(*arguments: str, tenant: str = "acme") -> tuple[int, Any, str]:
        monkeypatch.setenv("WAKEFUL_TENANT", tenant)
        capsys.readouterr()
        code = invoke(arguments)
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments and out else out, err

    return run


def asked(cli: Cli, session: str) -> dict[str, Any]:
    """A session that waits for an approval, and the proposal as the views show it."""
    assert cli("session", "open", "refund-desk", "--session", session)[0] == Exit.DONE
    code, _, err = cli("session", "send", session, "order-7", "--wait", "--timeout", "30")
    assert code == Exit.DONE, err
    found: list[dict[str, Any]] = []

    def is_shown() -> bool:
        found[:] = cli("approval", "list", "--session", session, "--json")[1]
        return bool(found)

    until(is_shown, "the views come a moment later")
    return found[0]


class Forger:
    """Writes to the commands topic whatever it likes, under keys that it has taken from their owners."""

    def __init__(self, desk: Settings, log: Log, proposal: dict[str, Any], session: str) -> None:
        self.topic, self.cluster = desk.topics.commands, str(desk.cluster_id)
        self.body = DecideApproval(
            proposal["proposal_id"], bytes.fromhex(proposal["digest"]), "approve", "I am admin"
        )
        self._dead = desk.topics.dead_letters
        self._session = session
        self._keys = read_keys(desk.keys or Path()).keys
        self._log, self._producer = log, log.producer()

    def key(self, name: str) -> Key:
        """A key of the file, by its id or role, as its thief uses it: for everything."""
        found = next(one for one in self._keys if name in (one.kid, one.role))
        every = {"kinds": frozenset(KINDS), "tenants": None, "actor": None}
        return replace(found, status=ACTIVE, not_after_ms=None, **every)

    def send(
        self,
        command_id: str,
        by: Key | None,
        *,
        topic: str = "",
        cluster: str = "",
        age_ms: int = 0,
        says: str = "approve",
    ) -> None:
        """An approval in sue's name; signed was one that says so, for that place."""
        at_ms = int(time.time() * 1000) - age_ms
        header = CommandHeader("acme", self._session, command_id, at_ms, "sue", None, "evil", None)
        place = session_key("acme", self._session)
        encoded = encode_command(Command(header, self.body))
        headers = record_headers(encoded, command_id)
        if by is not None:
            signed = Command(header, replace(self.body, decision=says))
            identity = Signed(lambda: Keyring([by]), cluster or self.cluster)
            value = encode_command(signed).value
            headers += identity.sign(signed, topic or self.topic, place, value)
        self._producer.produce(self.topic, key=place, value=encoded.value, headers=headers)
        self._producer.flush(10_000)

    def dead(self) -> dict[str, str]:
        """Reasons by the ids of commands that were laid aside."""
        places = [Place(self._dead, number) for number in range(self._log.partitions(self._dead))]
        found = {}
        for record in to_the_end(self._log, dict.fromkeys(places, 0)):
            letter = dead_letter_in(record.headers)
            command = decode_command(record.value, record.headers)
            if command.header.channel == "evil":
                found[command.header.command_id] = letter.reason if letter else ""
        return found


def forge_all(forger: Forger) -> None:
    """Each way that there is, and each is told by its reason."""
    own = forger.key("client")
    ways: dict[str, tuple[Key | None, dict[str, Any], str]] = {
        "nobody": (None, {}, "unsigned"),
        "worker": (forger.key("worker"), {}, "wrong_kind"),
        "other-tenant": (forger.key("betas"), {}, "wrong_tenant"),
        "other-actor": (forger.key("carols"), {}, "forged_actor"),
        "stolen": (forger.key("stolen"), {}, "revoked_key"),
        "made-up": (replace(own, kid="made-up"), {}, "unknown_key"),
        "other-topic": (own, {"topic": "prod.commands.v1"}, "bad_signature"),
        "other-cluster": (own, {"cluster": "staging"}, "bad_signature"),
        "other-words": (own, {"says": "reject"}, "bad_signature"),
    }
    for name, (by, where, _) in ways.items():
        forger.send(name, by, **where)
    forger.send("replayed", own, age_ms=8 * DAY_MS)
    until(lambda: len(forger.dead()) >= len(ways), "the dead letters")
    assert forger.dead() == {name: reason for name, (_, _, reason) in ways.items()}


def test_an_approval_that_is_forged_copied_or_stolen_moves_no_money_and_is_told_why(
    desk: Settings, cli: Cli
) -> None:
    proposal = asked(cli, "r1")
    with kafka(desk) as log:
        forge_all(Forger(desk, log, proposal, "r1"))
    # What was vouched for, and is older than anybody remembers, is refused by the session itself.
    _, story, _ = cli("session", "show", "r1", "--events", "50", "--json")
    kinds = [event["kind"] for event in story["events"]]
    assert "ApprovalGranted" not in kinds
    refused = [event for event in story["events"] if event["kind"] == "CommandRefused"]
    assert len(refused) == 1
    assert "too_old" in json.dumps(refused)

    code, out, err = cli(
        *("approval", "approve", proposal["proposal_id"], "--session", "r1"),
        *("--actor", "sue", "--wait", "--timeout", "30"),
    )
    assert (code, "Refunded 250.00." in out) == (Exit.DONE, True), err

    def paid_by() -> list[str]:
        _, rows, _ = cli("ledger", "r1", "--json")
        return [row["approved_by"] for row in rows if row["action"] == "refund"]

    until(paid_by, "the views come a moment later")
    assert paid_by() == ["sue"]


def of_another(session: str, proposal: str) -> list[tuple[str, ...]]:
    """What can be asked of a session on the command line."""
    return [
        ("session", "show", session, "--json"),
        ("session", "send", session, "hello"),
        ("session", "cancel", session),
        ("signal", session, "paid", "7"),
        ("approval", "approve", proposal, "--session", session),
        ("approval", "reject", proposal),
        ("activity", "resolve", session, "1.1", "--failed"),
        ("explain", session),
        ("ledger", session),
        ("tail", "--session", session, "--from-start", "--no-follow"),
        ("tail", "outcomes", "--session", session, "--from-start", "--no-follow"),
        ("sql", f"SELECT count(*) FROM sessions WHERE session_id = '{session}'"),
    ]


def test_another_tenants_people_meet_a_session_as_if_there_were_none(
    desk: Settings, cli: Cli
) -> None:
    del desk
    proposal = asked(cli, "r2")["proposal_id"]
    _, before, _ = cli("session", "show", "r2", "--events", "50", "--json")
    nothing = f"{proposal[:-4]}0000"
    there, nowhere = of_another("r2", proposal), of_another("z9", nothing)
    for mine, theirs in zip(there, nowhere, strict=True):
        found, none = (cli(*one, tenant="beta") for one in (mine, theirs))
        assert found[0] != Exit.USAGE, found[2]
        told = json.dumps(found).replace("r2", "z9").replace(proposal, nothing)
        assert _WHEN.sub("", told) == _WHEN.sub("", json.dumps(none)), mine
    for listing in (("session", "list"), ("ledger",), ("approval", "list"), ("dlq", "list")):
        _, rows, _ = cli(*listing, "--json", tenant="beta")
        assert not any("acme" in json.dumps(row) for row in rows), listing
    assert cli("tail", "--from-start", "--no-follow", tenant="beta")[1] == ""

    # The same id is theirs to take, and tells nothing.
    code, out, _ = cli("session", "open", "refund-desk", "--session", "r2", tenant="beta")
    assert (code, out) == (Exit.DONE, "r2\n")
    _, after, _ = cli("session", "show", "r2", "--events", "50", "--json")
    assert after["events"] == before["events"]
