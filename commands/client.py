"""The light client: asks for things, and knows when the log has them.

Every method checks what it was given before anything is sent, and returns a `Receipt` once the broker has
acknowledged the command. What then becomes of it is told by the session's outcomes (`outcomes.py`). A command that
was not acknowledged may still arrive; asking again under the same id is safe, since repeats change nothing.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from ..events.attributes import attributes_of
from ..events.blobs import Blobs
from ..events.errors import InvalidKey, Rejected
from ..events.headers import record_headers
from ..events.keys import check_id, session_key, session_of_job, why_unreachable
from ..events.log.protocol import Log
from ..events.records import Payload
from ..events.topics import Topics
from . import inputs
from .bodies import Bodies
from .identity import INSECURE, Identity
from .models import Command, CommandBody, CommandHeader, OpenSession
from .sending import CONFIRM_MS, Outlets, Pending, Receipt
from .wire import encode_command

_SESSIONS = uuid.uuid5(uuid.NAMESPACE_URL, "wakeful:session")
_OPENINGS = uuid.uuid5(uuid.NAMESPACE_URL, "wakeful:open")


def random_id() -> str:
    """An id that nobody can guess, in the form of a UUID."""
    return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))


def session_id_of(tenant: str, idempotency_key: str) -> str:
    """The id of the session that is opened with this key, the same each time."""
    name = f"{check_id('tenant', tenant)}/{inputs.name('idempotency key', idempotency_key)}"
    return str(uuid.uuid5(_SESSIONS, name))


class Client(Bodies):
    """Speaks for one actor of one tenant; safe to use from several threads.

    The end of a `with` block waits for commands that were handed over (`post`) and not asked about, and raises
    `Transient` where one of them did not arrive.
    """

    def __init__(
        self,
        log: Log,
        topics: Topics,
        *,
        tenant: str,
        actor: str,
        channel: str,
        digest_key: bytes,
        blobs: Blobs | None = None,
        identity: Identity = INSECURE,
        now_ms: Callable[[], int],
        new_id: Callable[[], str] = random_id,
        confirm_ms: int = CONFIRM_MS,
        monotonic: Callable[[], float] = time.monotonic,
        outlets: Outlets | None = None,
    ) -> None:
        """`blobs` is the store of what is too large for a record (`events/blob_patience.py` opens one).

        `identity` signs; without it nothing is signed, and processors that ask for signatures refuse every command.
        Those who speak for several actors give them one set of `outlets` to share, with its own `confirm_ms`, and close that.
        """
        super().__init__(tenant=tenant, digest_key=digest_key, blobs=blobs)
        self.actor = inputs.actor(actor)
        self.channel = inputs.name("channel", channel)
        self.topics = topics
        self._identity = identity
        self._now_ms = now_ms
        self._new_id = new_id
        self._outlets = outlets or Outlets(log, confirm_ms=confirm_ms, monotonic=monotonic)

    def open(
        self,
        workflow: str,
        session_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Opens a session; its id is in the receipt.

        The id is the one given, or follows from the tenant and the `idempotency_key`, or is random. A repeat by
        the same actor changes nothing. `attributes` is what it is to be found by, until its workflow says more.
        """
        opening = self.opening(workflow, session_id, idempotency_key, attributes)
        return self.post(*opening).receipt()

    def send(
        self,
        session_id: str,
        message: Any,
        message_id: str | None = None,
        *,
        expected_seq: int | None = None,
    ) -> Receipt:
        """Sends a message: text, or anything that is JSON. With a `message_id` a repeat changes nothing."""
        body = self.message(message)
        return self.post(session_id, body, message_id, expected_seq=expected_seq).receipt()

    def signal(
        self,
        session_id: str,
        name: str,
        data: Any = None,
        signal_id: str | None = None,
        *,
        expected_seq: int | None = None,
    ) -> Receipt:
        """Hands data (anything that is JSON) to the turn that asks for this name, now or later.

        With a `signal_id` a repeat changes nothing.
        """
        body = self.signal_body(name, data)
        return self.post(session_id, body, signal_id, expected_seq=expected_seq).receipt()

    def start_turn(
        self,
        session_id: str,
        trigger: str,
        reason: str = "",
        data: Any = None,
        trigger_id: str | None = None,
        *,
        expected_seq: int | None = None,
    ) -> Receipt:
        """Asks for a turn without a message: `trigger` is the kind of occasion (`schedule`), `reason` its words.

        It queues like a message. With a `trigger_id` a repeat changes nothing.
        """
        body = self.trigger_body(trigger, reason, data)
        return self.post(session_id, body, trigger_id, expected_seq=expected_seq).receipt()

    def resolve(
        self,
        session_id: str,
        activity_id: str,
        resolution: Literal["completed", "failed"],
        result: Any = None,
        comment: str = "",
        *,
        command_id: str | None = None,
        expected_seq: int | None = None,
    ) -> Receipt:
        """Says what became of an uncertain activity: `completed` or `failed`.

        The `result` is JSON, as the tool would have returned it. With a `command_id` a repeat changes nothing.
        """
        body = self.resolution_body(activity_id, resolution, result, comment)
        return self.post(session_id, body, command_id, expected_seq=expected_seq).receipt()

    def decide(
        self,
        session_id: str,
        proposal_id: str,
        digest: bytes | str,
        decision: Literal["approve", "reject", "edit", "respond"],
        comment: str = "",
        *,
        data: Any = None,
        command_id: str | None = None,
        expected_seq: int | None = None,
    ) -> Receipt:
        """Decides the proposal whose action has this digest (bytes, or hex as it is shown).

        With `edit`, `data` is an object with the arguments as they should be, which are approved by that; with
        `respond` it is what the workflow is told instead of a decision, a text or any JSON.
        """
        body = self.decision_body(proposal_id, digest, decision, comment, data)
        return self.post(session_id, body, command_id, expected_seq=expected_seq).receipt()

    def change_artifact(
        self,
        session_id: str,
        artifact_id: str,
        version: str,
        *,
        command_id: str | None = None,
    ) -> Receipt:
        """Says that a thing outside, which the session relies on, has another version now.

        What was proposed from the version before is void, and asked for anew.
        """
        return self.post(session_id, self.artifact_body(artifact_id, version), command_id).receipt()

    def complete_job(
        self, job_id: str, result: Any = None, *, command_id: str | None = None
    ) -> Receipt:
        """Says that an external job is done, with this result (anything that is JSON); the id names its session."""
        body = self.job_body(job_id, result)
        return self.post(session_of_job(job_id), body, command_id).receipt()

    def fail_job(
        self, job_id: str, message: str, kind: str = "", *, command_id: str | None = None
    ) -> Receipt:
        """Says that an external job will not be done, and why; `kind` is a word for it, such as an error's class."""
        body = self.failed_job_body(job_id, message, kind)
        return self.post(session_of_job(job_id), body, command_id).receipt()

    def cancel(
        self, session_id: str, reason: str = "", *, command_id: str | None = None
    ) -> Receipt:
        """Stops the session for good."""
        return self.post(session_id, self.cancel_body(reason), command_id).receipt()

    def release(
        self, session_id: str, reason: str = "", *, command_id: str | None = None
    ) -> Receipt:
        """Lets a held session go on from where it was held."""
        return self.post(session_id, self.release_body(reason), command_id).receipt()

    def reset(
        self,
        session_id: str,
        to_turn: int,
        state: Payload | None,
        *,
        answers_again: bool = True,
        reason: str = "",
        command_id: str | None = None,
    ) -> Receipt:
        """Takes the session back to where this turn had ended, with the `state` of its TurnCompleted (0: before the first).

        With `answers_again` the message of the turn that is open is answered again, from there.
        """
        body = self.reset_body(to_turn, state, answers_again=answers_again, reason=reason)
        return self.post(session_id, body, command_id).receipt()

    def pin(
        self,
        session_id: str,
        version: int | None,
        reason: str = "",
        *,
        command_id: str | None = None,
    ) -> Receipt:
        """Lets the session's turns begin on this version of its workflow; None: on what the rollout gives again."""
        return self.post(session_id, self.pin_body(version, reason), command_id).receipt()

    def recover(
        self,
        session_id: str,
        reason: str = "",
        *,
        activity_id: str = "",
        attempt: int = 0,
        command_id: str | None = None,
    ) -> Receipt:
        """Says that this attempt of an activity has stalled, and is given up; or, where none is named, the session.

        What follows for an attempt is what its contract says of one that was silent for too long. A session that waits
        for nothing, and does not go on, is driven again from its history.
        """
        body = self.recovery_body(reason, activity_id=activity_id, attempt=attempt)
        return self.post(session_id, body, command_id).receipt()

    def post(
        self,
        session_id: str,
        body: CommandBody,
        command_id: str | None = None,
        *,
        expected_seq: int | None = None,
    ) -> Pending:
        """Hands a command to the producer without waiting; `Pending.receipt` or `flush` waits for many at once.

        `NoKey` where no key that is there may sign it; nothing was sent then.
        """
        return self.hand_over(self.command(session_id, body, command_id, expected_seq=expected_seq))

    def command(
        self,
        session_id: str,
        body: CommandBody,
        command_id: str | None = None,
        *,
        expected_seq: int | None = None,
    ) -> Command:
        """What `post` would send: for `wire.command_hash`, by which a repeat is told, and for `hand_over`."""
        session_key(self.tenant, session_id)
        header = CommandHeader(
            tenant=self.tenant,
            session_id=session_id,
            command_id=inputs.name(
                "command id", self._new_id() if command_id is None else command_id
            ),
            issued_at_ms=self._now_ms(),
            actor=self.actor,
            on_behalf_of=None,
            channel=self.channel,
            expected_seq=inputs.seq(expected_seq),
        )
        return Command(header, body)

    def hand_over(self, command: Command) -> Pending:
        """Signs and sends what `command` gave; see `post`."""
        header, topic = command.header, self.topics.commands
        key = session_key(header.tenant, header.session_id)
        encoded = encode_command(command)
        headers = record_headers(encoded, f"{key.decode()}/{header.command_id}")
        headers.extend(self._identity.sign(command, topic, key, encoded.value))
        return self._outlets.send(header, topic, key, encoded.value, headers)

    def opening(
        self,
        workflow: str,
        session_id: str | None = None,
        idempotency_key: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> tuple[str, OpenSession, str]:
        """What `open` sends: the session's id, the body, and a command id that is the same for a repeat."""
        if session_id is not None and idempotency_key is not None:
            raise Rejected(
                "give a session id or an idempotency key, not both: the id follows from the key"
            )
        if idempotency_key is not None:
            session_id = session_id_of(self.tenant, idempotency_key)
        elif session_id is None:
            session_id = self._new_id()
        if told := why_unreachable(check_id("session id", session_id)):
            raise InvalidKey(told)
        given = attributes_of(attributes or {})
        body = OpenSession(inputs.name("workflow", workflow), given)
        said = f"{self.tenant}/{session_id}/{workflow}/{self.actor}/{self.channel}"
        said += "".join(f"/{one.name}={one.kind}:{one.value}" for one in given)
        return session_id, body, str(uuid.uuid5(_OPENINGS, said))

    def flush(self) -> None:
        """Waits until everything handed over is decided, at most `confirm_ms`; each `Pending` knows its own fate."""
        self._outlets.flush()

    def close(self) -> None:
        """Frees the producer, without waiting."""
        self._outlets.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._outlets.finish()
        finally:
            self.close()
