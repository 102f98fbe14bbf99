"""A static member that is killed between the halves of a rebalance: what it gave up is not left without an owner."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from wakeful.events.log import kafka_orphans
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_orphans import LOOKS_MAX, Orphans
from wakeful.events.log.protocol import TopicSpec

PARTITIONS = 4
DEADLINE_S = 30.0


class Member:
    """One process of the group, and what it holds by its own words."""

    def __init__(self, kafka: str, group: str, topic: str, name: str, *, dies: bool) -> None:
        program = str(Path(__file__).with_name("static_member.py"))
        words = [kafka, group, topic, name, "dies" if dies else "lives"]
        self.process = subprocess.Popen(
            [sys.executable, program, *words], stdout=subprocess.PIPE, text=True
        )
        self.holds: set[int] = set()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            what, *numbers = line.split()
            if what == "assigned":
                self.holds |= {int(number) for number in numbers}
            elif what == "revoked":
                self.holds -= {int(number) for number in numbers}

    def stop(self) -> None:
        """Kills it, where it still runs."""
        self.process.kill()
        self._listener.join()
        self.process.communicate()


def until(what: str, members: list[Member], everything: set[int]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while sorted(n for one in members for n in one.holds) != sorted(everything):
        assert time.monotonic() < deadline, f"{what}: {[one.holds for one in members]}"
        time.sleep(0.02)


def test_what_a_killed_static_member_had_given_up_finds_an_owner(kafka: str, namespace: str):
    topic, group, everything = f"{namespace}.work", f"{namespace}.group", set(range(PARTITIONS))
    with KafkaLog(kafka, client_id="test") as log:
        log.create_topics([TopicSpec(topic, PARTITIONS, {})])
    members: list[Member] = []
    try:
        first = Member(kafka, group, topic, "first", dies=True)
        members.append(first)
        until("alone", [first], everything)
        second = Member(kafka, group, topic, "second", dies=False)
        members.append(second)
        assert first.process.wait(DEADLINE_S) == 9
        again = Member(kafka, group, topic, "first", dies=False)
        members.append(again)
        until("after the kill", [again, second], everything)
    finally:
        for one in members:
            one.stop()


class Group:
    """What each look finds, one after another, and then the last one for ever."""

    def __init__(self, *found: set[tuple[str, int]] | KafkaException | None) -> None:
        self._found = [*reversed(found)]
        self.moved = 0

    def look(self) -> set[tuple[str, int]] | None:
        found = self._found.pop() if len(self._found) > 1 else self._found[0]
        if isinstance(found, KafkaException):
            raise found
        return found

    def move(self) -> None:
        self.moved += 1

    def said(self) -> list[str]:
        """What the log says at the end of all looks, from `warning` on."""
        with capture_logs() as logs:
            Orphans("nowhere:1", "g", ["t"])._look_on(self.look, self.move)
        return [
            f"{one['log_level']}: {one['event']}" for one in logs if one["log_level"] != "debug"
        ]


DOWN = KafkaException(KafkaError(KafkaError._TRANSPORT))
A, B = {("t", 0)}, {("t", 1)}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_orphans, "LOOK_S", 0)


@pytest.mark.usefixtures("at_once")
def test_only_what_has_no_owner_at_two_looks_in_turn_moves_the_group() -> None:
    for passing in ((set(),), (A, set()), (A, B, set()), (A, None, A, set())):
        group = Group(*passing)
        assert (group.said(), group.moved) == ([], 0)
    lasting = Group(A, A | B, set())
    assert (len(lasting.said()), lasting.moved) == (1, 1)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("never", [None, DOWN], ids=["in a rebalance", "down"])
def test_of_a_group_that_nobody_could_look_at_it_is_not_said_that_partitions_have_no_owner(
    never: KafkaException | None,
) -> None:
    (told,) = Group(never).said()
    assert told.startswith("warning: nobody could say")


@pytest.mark.usefixtures("at_once")
def test_what_no_guest_could_mend_is_an_error() -> None:
    group = Group(A)
    assert group.said()[-1].startswith("error: partitions have no owner, whatever was done")
    assert group.moved == LOOKS_MAX - 1
