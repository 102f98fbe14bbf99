"""Schemas come with the package: no registry is asked, so none that fails can cost a record or change their order."""

import json
import socket
from pathlib import Path

import pytest
from tests.processors.loops import Cluster, play
from tests.processors.test_loop import WHOLE_STORY

from wakeful.commands.wire import COMMANDS
from wakeful.events.avro import Codec
from wakeful.events.codec import ATTEMPTS, CONTROL, EVENTS, OUTCOMES, SNAPSHOTS, STATES, TASKS
from wakeful.schemas import bundled

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
CODECS = (COMMANDS, EVENTS, TASKS, ATTEMPTS, OUTCOMES, SNAPSHOTS, STATES, CONTROL)
SOURCE = ("commands", "deploy", "events", "processors", "projections", "schemas")


@pytest.mark.case("L10")
def test_given_no_network_at_all_then_every_released_version_is_read_by_fingerprint_and_by_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ConnectionResetError("there is no network")

    fresh = [
        Codec(
            tuple(codec._classes.values()),
            wrapper=codec._wrapper,
            canonical=codec._canonical,
            value_max=codec._value_max,
        )
        for codec in CODECS
    ]
    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    read = 0
    for version in bundled().lock.versions:
        (codec,) = (one for one in fresh if version.record in one._classes)
        name = f"{version.id}.{version.record.rpartition('.')[2]}.json"
        for kind in ("full", "bare"):
            stored = bytes.fromhex(json.loads((GOLDEN / name).read_text("utf-8"))[kind]["value"])
            for fingerprint in (version.fingerprint, None):
                codec.decode(stored, fingerprint)
                read += 1
    assert read == 4 * len(bundled().lock.versions)


@pytest.mark.case("L10")
def test_given_no_network_at_all_then_a_story_is_decided_in_order_and_nothing_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise ConnectionResetError("there is no network")

    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    cluster = Cluster()
    cluster.start()
    play(cluster, cluster.run)
    assert cluster.facts() == WHOLE_STORY
    assert cluster.dead() == []


@pytest.mark.case("L10")
def test_no_module_speaks_to_a_registry() -> None:
    named = {
        str(path.relative_to(ROOT))
        for folder in SOURCE
        for path in (ROOT / folder).rglob("*.py")
        for word in ("schema_registry", "SchemaRegistryClient", "schema.registry")
        if word in path.read_text("utf-8")
    }
    assert named == set()
