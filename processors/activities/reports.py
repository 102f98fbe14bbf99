"""What a worker writes: commands to the sessions whose activities it runs, and letters about tasks that are none."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ...commands.identity import INSECURE, Identity
from ...commands.keyring import NoKey
from ...commands.models import Command, CommandBody, CommandHeader
from ...commands.wire import encode_command
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import dead_letter_headers, record_headers
from ...events.keys import session_key
from ...events.log.protocol import Record
from ...events.records import ActivityTask
from ...events.topics import Topics
from .sending import Send

logger = structlog.get_logger("wakeful.worker")


class Reports:
    """On behalf of one worker, in its name."""

    def __init__(
        self,
        topics: Topics,
        worker_id: str,
        now_ms: Callable[[], int],
        identity: Identity = INSECURE,
    ) -> None:
        self._topics = topics
        self._identity = identity
        self._worker_id = worker_id
        self._now_ms = now_ms

    def command(self, task: ActivityTask, command_id: str, body: CommandBody) -> Send:
        """To the session of this task; the same id, whichever worker says it.

        A worker without a key for this tenant says it all the same: what was done is then found among the dead letters.
        """
        header = CommandHeader(
            tenant=task.tenant,
            session_id=task.session_id,
            command_id=command_id,
            issued_at_ms=self._now_ms(),
            actor=f"worker:{self._worker_id}",
            on_behalf_of=task.on_behalf_of,
            channel="worker",
            expected_seq=None,
        )
        command, topic = Command(header, body), self._topics.commands
        encoded = encode_command(command)
        key = session_key(task.tenant, task.session_id)
        headers = record_headers(encoded, command_id)
        try:
            headers.extend(self._identity.sign(command, topic, key, encoded.value))
        except NoKey as error:
            logger.error("a report goes out unsigned and will be refused", why=error.message)  # noqa: TRY400
        return Send(topic, key, encoded.value, headers)

    def dead_letter(self, record: Record, error: Undecodable | InvalidKey) -> Send:
        """The record as it is, with the reason why nobody can run it."""
        reason = error.reason if isinstance(error, Undecodable) else "invalid_key"
        headers = dead_letter_headers(record, reason, str(error))
        return Send(self._topics.dead_letters, record.key, record.value, headers)
