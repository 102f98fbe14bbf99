"""A static member that is killed between the halves of a rebalance: what it gave up is not left without an owner."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from wakeful.events.log.kafka import KafkaLog
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
