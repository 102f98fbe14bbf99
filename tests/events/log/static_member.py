"""A static member of a group, as a process: says what it gets, and dies in the middle of a rebalance where it is told to."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Place


class Teller:
    """Prints, one line each, what it is told."""

    def __init__(self, *, dies: bool) -> None:
        self._dies = dies

    def assigned(self, places: Sequence[Place]) -> None:
        """More of them."""
        self._tell("assigned", places)

    def revoked(self, places: Sequence[Place]) -> None:
        """Fewer of them; the first half of a rebalance."""
        self._tell("revoked", places)
        if self._dies:
            os._exit(9)

    def lost(self, places: Sequence[Place]) -> None:
        """Fewer of them, too late."""
        self._tell("revoked", places)

    def _tell(self, what: str, places: Sequence[Place]) -> None:
        print(what, *(place.partition for place in places), flush=True)


def main(bootstrap: str, group: str, topic: str, instance_id: str, dies: str) -> None:
    """Polls until the process is killed."""
    with KafkaLog(bootstrap, client_id=instance_id) as log:
        teller = Teller(dies=dies == "dies")
        member = log.group(
            group, [topic], teller, instance_id=instance_id, session_timeout_ms=30_000
        )
        print("joining", flush=True)
        while True:
            member.poll(10, 100)


if __name__ == "__main__":
    main(*sys.argv[1:])
