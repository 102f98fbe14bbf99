"""Wake-ups: commands from the owner of a partition to itself, for the sessions in it that the clock owes something."""

from __future__ import annotations

from ..commands.actors import ENGINE
from ..commands.identity import Identity
from ..commands.models import Command, CommandHeader, FireTimer
from ..commands.wire import encode_command
from ..events.headers import record_headers
from ..events.keys import split_key
from ..events.log.protocol import Producer
from .partition import Partition

AGAIN_MS = 2_000
"""A wake-up still undecided after this long is sent again; a repeat is harmless."""

WAKE_UPS_MAX = 500
"""Per partition and look: ten thousand sessions due at once drain over several looks."""


class WakeUps:
    """What is sent, and signed by `identity`; each partition notes what it was sent."""

    def __init__(self, commands_topic: str, identity: Identity) -> None:
        self._topic = commands_topic
        self._identity = identity

    def send(
        self, producer: Producer, partition: Partition, *, now_ms: int, steady_ms: int
    ) -> None:
        """Wakes what is due by `now_ms`: the wall's clock, or the log's newest record where ours is behind.

        Whether it is due by the log's is decided there. A partition that has not read all its commands is left alone:
        results and grants that came before the expiry are read first.
        """
        if not partition.ready or partition.next_offset < partition.commands_end:
            return
        sent, partition.nudged = partition.nudged, {}
        for key, due_ms, due_id in partition.due(now_ms, WAKE_UPS_MAX):
            sent_for, sent_ms = sent.get(key, (-1, 0))
            if sent_for != due_ms or steady_ms - sent_ms >= AGAIN_MS:
                sent_ms = steady_ms
                self._send(producer, partition.number, key, FireTimer(due_id, due_ms), now_ms)
            partition.nudged[key] = (due_ms, sent_ms)

    def _send(
        self, producer: Producer, number: int, key: bytes, timer: FireTimer, now_ms: int
    ) -> None:
        tenant, session_id = split_key(key)
        command_id = f"wake:{timer.timer_id}:{timer.due_ms}"
        header = CommandHeader(tenant, session_id, command_id, now_ms, ENGINE, None, "timer", None)
        command = Command(header, timer)
        encoded = encode_command(command)
        headers = record_headers(encoded, f"{key.decode()}/{command_id}")
        headers.extend(self._identity.sign(command, self._topic, key, encoded.value))
        producer.produce(
            self._topic, key=key, value=encoded.value, headers=headers, partition=number
        )
