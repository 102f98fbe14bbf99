"""From what somebody asks to a command in the log: once, however often it is asked, and with the verdict where it is awaited.

| header | what it does |
|---|---|
| `Idempotency-Key` | the command's id follows from it, so Kafka and the session tell a repeat without any memory here |
| `If-Match` | the session decides it only where nothing has happened since; otherwise 412 |
| `Prefer: wait=10` | answers 200 with the verdict, if it comes in time |
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from fastapi.responses import JSONResponse

from ...commands.keyring import NoKey
from ...commands.models import REPAIRS, Command, CommandBody, ResolveActivity
from ...commands.sending import Receipt, Unconfirmed
from ...commands.wire import command_hash, encode_command
from ...events.keys import partition_of, session_key
from ..telling.watching import Watch, awaited
from .bodies import Accepted, Fate
from .fates import NEXT_STEPS, STALE, accepted, earlier, fate, fate_of, known_seq, told
from .principals import Principal
from .problems import Problem
from .recent import Found
from .services import Services
from .terms import Terms

LET_IN = (*REPAIRS, ResolveActivity)
"""What ends or mends things is let in however far the processors are behind."""

DECIDED_S = 10
"""How long a command with `If-Match` waits for its verdict, where nothing else was said."""

LOOK_AGAIN_S = 0.2

_KEYED = uuid.uuid5(uuid.NAMESPACE_URL, "wakeful:http")

logger = structlog.get_logger("wakeful.audit")


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asks of a session. `id` is the command's, null for a random one; `reused` is said where that is taken."""

    session_id: str
    body: CommandBody
    terms: Terms
    id: str | None
    reused: Callable[[], Problem]


def keyed_id(who: Principal, address: str, key: str) -> str:
    """The id of the command that this actor asks for at this address (`POST /v1/…`) with this key, the same each time."""
    parts = (who.tenant, who.actor, address, key)
    return str(uuid.uuid5(_KEYED, "".join(f"{len(part)}:{part}" for part in parts)))


def deliver(shared: Services, who: Principal, asked: Asked) -> JSONResponse:
    """Hands it to the log, or answers as the first time. `Problem` says why not: 412, 422, 429, 503.

    After a crash of this process a repeat with the same key does it, or finds it done.
    """
    client = shared.client(who)
    command = client.command(
        asked.session_id, asked.body, asked.id, expected_seq=asked.terms.expected_seq
    )
    try:
        if asked.id is not None:
            before = earlier(shared, who, asked.session_id, asked.id)
            if before is not None:
                return _again(shared, who, asked, command, before)
        key = session_key(who.tenant, asked.session_id)
        if not isinstance(asked.body, LET_IN):
            number = partition_of(key, shared.log.partitions(shared.topics.commands))
            shared.backlog.check(number)
        _check_version(shared, who, asked)
        about, verdict = _send(shared, who, asked, command)
    except Problem as problem:
        _note(who, command, verdict=problem.reason, status=problem.status)
        raise
    return _answered(who, asked, command, about, verdict)


def _send(
    shared: Services, who: Principal, asked: Asked, command: Command
) -> tuple[Accepted, Fate | None]:
    """Where the log has it, and what became of it where that is awaited and somebody may still wait here."""
    wait_s = _patience_s(asked.terms)
    if not wait_s or not shared.waits.acquire(blocking=False):
        return told(_confirmed(shared, who, command)), None
    try:
        with Watch(shared.log, shared.topics, who.tenant, asked.session_id) as watch:
            receipt = _confirmed(shared, who, command)
            verdict = awaited(
                watch,
                receipt,
                timeout_ms=wait_s * 1000,
                next_offset=shared.backlog.next_offset,
            )
            about = told(receipt)
            return about, fate(about, verdict, watch.position)
    finally:
        shared.waits.release()


def _confirmed(shared: Services, who: Principal, command: Command) -> Receipt:
    header = command.header
    try:
        return shared.client(who).hand_over(command).receipt()
    except NoKey as error:
        logger.exception("a command cannot be signed")
        raise Problem(503, "cannot_sign", f"the gateway has no key for this: {error}") from None
    except Unconfirmed:
        raise Problem(
            503,
            "unconfirmed",
            "the log did not confirm the command in time, and it may arrive all the same: ask again under the same "
            "Idempotency-Key; without one, look at the session first",
            headers={"Retry-After": "2"},
            session_id=header.session_id,
            command_id=header.command_id,
        ) from None


def _again(
    shared: Services, who: Principal, asked: Asked, command: Command, before: Found
) -> JSONResponse:
    """What the first one was answered; `asked.reused` where this is another command under its id."""
    if before.hash is not None and before.hash != command_hash(encode_command(command)):
        raise asked.reused()
    about = accepted(
        asked.session_id, command.header.command_id, before.place.partition, before.offset
    )
    limit = time.monotonic() + _patience_s(asked.terms)
    found: Fate | None = None
    while _patience_s(asked.terms):
        found = fate_of(shared, who, about.session_id, about.command_id, about.command_position)
        if found.state != "undecided" or time.monotonic() >= limit:
            break
        time.sleep(LOOK_AGAIN_S)
    answer = _answered(who, asked, command, about, found)
    answer.headers["Idempotency-Replayed"] = "true"
    return answer


def _answered(
    who: Principal, asked: Asked, command: Command, about: Accepted, found: Fate | None
) -> JSONResponse:
    state = "undecided" if found is None else found.state
    stale = found is not None and found.reason == STALE and asked.terms.expected_seq is not None
    decided = state != "undecided"
    _note(who, command, verdict=state, status=412 if stale else 200 if decided else 202)
    if found is not None and stale:
        raise _stale(found.detail or "", found.position)
    headers = {"Location": about.status_url}
    if asked.terms.wait_s is not None:
        headers["Preference-Applied"] = f"wait={asked.terms.wait_s}"
    if found is not None and decided:
        if found.position:
            headers["Wakeful-Position"] = found.position
        return JSONResponse(found.model_dump(exclude_none=True), 200, headers=headers)
    return JSONResponse(about.model_dump(), 202, headers=headers)


def _patience_s(terms: Terms) -> int:
    if terms.wait_s is not None:
        return terms.wait_s
    return DECIDED_S if terms.expected_seq is not None else 0


def _check_version(shared: Services, who: Principal, asked: Asked) -> None:
    """Refuses at once what the views know to be stale; where they do not answer or lag, the session says so itself."""
    expected = asked.terms.expected_seq
    if expected is None:
        return
    seq = known_seq(shared, who, asked.session_id)
    if seq is not None and seq > expected:
        raise _stale(f"expected state version {expected}, the session is at {seq}", None)


def _stale(detail: str, position: str | None) -> Problem:
    told = f"{detail}: {NEXT_STEPS[STALE]}"
    headers = {"Wakeful-Position": position} if position else None
    return Problem(412, "stale", told, headers=headers)


def _note(who: Principal, command: Command, *, verdict: str, status: int) -> None:
    header = command.header
    logger.info(
        "command",
        kind=type(command.body).__name__,
        tenant=who.tenant,
        actor=who.actor,
        via=who.via,
        session_id=header.session_id,
        command_id=header.command_id,
        verdict=verdict,
        status=status,
    )
