"""The signs of life of the attempts that a worker of the simulation runs: in steps of virtual time, with progress."""

from __future__ import annotations

from dataclasses import dataclass

from ...commands.models import Command, CommandHeader, HeartbeatActivity
from ...commands.wire import encode_command
from ...events.headers import record_headers
from ...events.keys import session_key
from ...events.log.protocol import Log, LogFault
from ...events.payloads import json_payload, load_json
from ...events.records import ActivityTask
from ...events.topics import Topics
from .actors import DIGEST_KEY

BEATS_PER_INTERVAL = 3


@dataclass(slots=True)
class Beats:
    """Those of one attempt, from its start until `until_ms`; a silent one sends its first only."""

    task: ActivityTask
    start: int
    due_ms: int
    until_ms: int
    silent: bool
    sent: int = 0


def begun(task: ActivityTask, *, now_ms: int, until_ms: int, silent: bool) -> Beats:
    """The beats of an attempt that begins now, which goes on from what the one before it has told."""
    return Beats(task, progress_of(task), now_ms, until_ms, silent)


def progress_of(task: ActivityTask) -> int:
    """How far an earlier attempt came."""
    return 0 if task.progress is None else int(load_json(task.progress))


class Heart:
    """Sends what is due; what the broker does not take is lost, as a beat may be."""

    def __init__(self, log: Log, topics: Topics, worker_id: str) -> None:
        self._producer = log.producer()
        self._topics = topics
        self._worker_id = worker_id

    def send(self, beats: Beats, now_ms: int) -> bool:
        """One beat where one is due, with news of progress in each second one; whether it was sent."""
        if now_ms < beats.due_ms or now_ms >= beats.until_ms or (beats.silent and beats.sent):
            return False
        task = beats.task
        beats.sent += 1
        beats.due_ms = now_ms + (task.heartbeat_ms or 0) // BEATS_PER_INTERVAL
        told = None
        if beats.sent % 2 == 0:
            told = json_payload(beats.start + beats.sent // 2, DIGEST_KEY)
        body = HeartbeatActivity(task.activity_id, task.attempt, told, self._worker_id)
        command_id = f"{task.idempotency_key}#{task.attempt}/beat/{beats.sent}"
        header = CommandHeader(
            tenant=task.tenant,
            session_id=task.session_id,
            command_id=command_id,
            issued_at_ms=now_ms,
            actor=f"worker:{self._worker_id}",
            on_behalf_of=task.on_behalf_of,
            channel="worker",
            expected_seq=None,
        )
        encoded = encode_command(Command(header, body))
        try:
            self._producer.produce(
                self._topics.commands,
                key=session_key(task.tenant, task.session_id),
                value=encoded.value,
                headers=tuple(record_headers(encoded, command_id)),
                delivered=_lost,
            )
            self._producer.poll()
        except LogFault:
            return False
        return True


def _lost(_place: object, _offset: int, _fault: LogFault | None) -> None:
    """A beat that was not delivered is not sent again: the next one says the same."""
