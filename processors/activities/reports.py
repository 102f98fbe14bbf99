"""What a worker writes: commands to the sessions whose activities it runs, and letters about tasks that are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...commands.actors import WORKER
from ...commands.identity import INSECURE, Identity, signed_anew
from ...commands.models import Command, CommandBody, CommandHeader, CompleteActivity
from ...commands.wire import encode_command
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import dead_letter_headers, record_headers
from ...events.keys import session_key
from ...events.log.protocol import Record
from ...events.records import ActivityTask
from ...events.topics import Topics
from .sending import Send


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
        self._actor = f"{WORKER}{worker_id}"
        self._now_ms = now_ms

    def command(self, task: ActivityTask, command_id: str, body: CommandBody) -> Send:
        """To the session of this task; the same id, whichever worker says it. `NoKey` where no key signs it now."""
        header = CommandHeader(
            tenant=task.tenant,
            session_id=task.session_id,
            command_id=command_id,
            issued_at_ms=self._now_ms(),
            actor=self._actor,
            on_behalf_of=task.on_behalf_of,
            channel="worker",
            expected_seq=None,
        )
        command, topic = Command(header, body), self._topics.commands
        encoded = encode_command(command)
        key = session_key(task.tenant, task.session_id)
        headers = record_headers(encoded, command_id)
        headers.extend(self._identity.sign(command, topic, key, encoded.value))
        return Send(topic, key, encoded.value, headers)

    def again(self, send: Send) -> Send:
        """What `command` gave before, signed anew. `NoKey` where no key signs it now."""
        headers = signed_anew(self._identity, send.topic, send.key, send.value, send.headers)
        return replace(send, headers=headers)

    def is_believed(self, kid: str) -> bool:
        """Whether what this key signed counts, if it comes now."""
        return self._identity.is_believed(kid, self._now_ms())

    def may_speak(self, tenant: str | None = None) -> bool:
        """Whether a key that is there now signs results of this tenant; without one, be it for some tenants only."""
        kind = CompleteActivity.__name__
        return self._identity.may_sign(kind, self._actor, self._now_ms(), tenant)

    def dead_letter(self, record: Record, error: Undecodable | InvalidKey) -> Send:
        """The record as it is, with the reason why nobody can run it."""
        reason = error.reason if isinstance(error, Undecodable) else "invalid_key"
        headers = dead_letter_headers(record, reason, str(error))
        return Send(self._topics.dead_letters, record.key, record.value, headers)
