"""Webhooks: a service outside says that something has happened; a signed delivery becomes one signal, or completes one job, once.

| header | what |
|---|---|
| `Wakeful-Delivery` | the delivery's id, the same each time it is tried |
| `Wakeful-Timestamp` | seconds since 1970 when this try was signed |
| `Wakeful-Signature` | `v1=` and the HMAC-SHA-256 in hex, several joined by commas; or a detached JWS |

A hook may take the bearer of an API key instead, who signs nothing and gives the delivery's id alone. Otherwise signed
is `<timestamp>.<delivery>.<body>`, in these very bytes. The command's id follows from the delivery's, so a second
delivery changes nothing for as long as a session remembers, and one older than the hook's tolerance is refused.
"""

from __future__ import annotations

import hmac
import re
import uuid
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Body, Header, Request
from fastapi.responses import JSONResponse
from joserfc import jws
from joserfc.errors import JoseError
from pydantic import JsonValue

from ...commands.check import NAME_LENGTH_MAX
from ...commands.models import CommandBody
from ...events.keys import session_of_job
from .algorithms import ALGORITHMS, key_for
from .asking import Shared, principal_of
from .commands import ANSWERS
from .delivering import Asked, deliver
from .guarding import BODY
from .hooks import Hook
from .principals import May, Principal
from .problems import Problem
from .services import Services
from .terms import Terms, wait_s

CHANNEL = "webhook"

SIGNATURES_MAX = 5
"""In one header: a sender that replaces its secret signs with both."""

_DELIVERIES = uuid.uuid5(uuid.NAMESPACE_URL, "wakeful:delivery")
_STAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_DELIVERY = re.compile(r"[!-~]{1,200}", re.ASCII)

router = APIRouter(prefix="/v1", tags=["webhooks"], responses=ANSWERS)


@router.post("/hooks/{hook}", status_code=202, openapi_extra={"security": []})
def receive_delivery(
    hook: str,
    request: Request,
    said: Annotated[JsonValue, Body()],
    shared: Shared,
    wakeful_delivery: Annotated[str, Header()] = "",
    wakeful_timestamp: Annotated[str, Header()] = "",
    wakeful_signature: Annotated[str, Header()] = "",
) -> JSONResponse:
    """Takes a delivery that is signed by the hook's secret or key: a signal to a session, or the end of an external job."""
    found = shared.hooks.find(hook)
    raw: bytes = request.scope[BODY]
    signed = f"{wakeful_timestamp}.{wakeful_delivery}.".encode("utf-8", "replace") + raw
    if found is None:
        raise _unsigned()
    if found.bearer:
        actor, via = _bearer(request, found)
    elif _is_signed(found, wakeful_signature, signed):
        _check_age(found, wakeful_timestamp, shared.clock.now_ms())
        actor = via = f"hook:{hook}"
    else:
        raise _unsigned()
    if _DELIVERY.fullmatch(wakeful_delivery) is None:
        told = f"Wakeful-Delivery {wakeful_delivery[:NAME_LENGTH_MAX]!a}: give 1 to 200 ASCII characters without spaces"
        raise Problem(400, "invalid_header", told)
    who = Principal(found.tenant, actor, frozenset({May.DELIVER}), CHANNEL, via)
    return _delivered(shared, who, found, said, wakeful_delivery, request)


def _delivered(
    shared: Services,
    who: Principal,
    hook: Hook,
    said: JsonValue,
    delivery: str,
    request: Request,
) -> JSONResponse:
    client = shared.client(who)
    body: CommandBody
    if hook.job:
        job_id, failed = hook.job_of(said), hook.failure_of(said)
        session_id = session_of_job(job_id)
        body = (
            client.job_body(job_id, said)
            if failed is None
            else client.failed_job_body(job_id, failed)
        )
    else:
        session_id = hook.session_of(said)
        body = client.signal_body(hook.signal, said)
    name = f"{len(who.tenant)}:{who.tenant}{len(who.actor)}:{who.actor}{delivery}"
    terms = Terms(wait_s=wait_s(request.headers.getlist("prefer")))
    command_id = str(uuid.uuid5(_DELIVERIES, name))
    return deliver(shared, who, Asked(session_id, body, terms, command_id, _reused))


def _reused() -> Problem:
    return Problem(
        409,
        "delivery_reused",
        "this Wakeful-Delivery was another one's before: give each delivery its own id, and the same only to a repeat",
    )


def _unsigned() -> Problem:
    """The same whether there is no such hook or the signature is wrong: strangers learn no names."""
    return Problem(
        401,
        "unsigned",
        "no hook here vouches for this delivery: check the hook's name, its secret or key, and that exactly "
        "'<timestamp>.<delivery>.<body>' is signed",
        headers={"WWW-Authenticate": "Wakeful-Signature, Bearer"},
    )


def _check_age(hook: Hook, stamp: str, now_ms: int) -> None:
    if _STAMP.fullmatch(stamp) is None:
        told = f"Wakeful-Timestamp {stamp[:40]!a}: give seconds since 1970"
        raise Problem(400, "invalid_header", told)
    off_s = now_ms // 1000 - int(stamp)
    if abs(off_s) > hook.tolerance_s:
        how = "old" if off_s > 0 else "early"
        told = f"the delivery is {abs(off_s)} s {how}, and this hook takes {hook.tolerance_s} s: sign it anew when it is tried again"
        raise Problem(403, "delivery_out_of_time", told)


def _bearer(request: Request, hook: Hook) -> tuple[str, str]:
    """Who shows a key that may deliver for the hook's tenant: the actor, and the key's id."""
    try:
        who = principal_of(request)
    except Problem as problem:
        raise (_unsigned() if problem.status == 401 else problem) from None
    if who.tenant != hook.tenant:
        raise _unsigned()
    who.require(May.DELIVER)
    return who.actor, who.via


def _is_signed(hook: Hook, signature: str, signed: bytes) -> bool:
    if hook.jwks is not None:
        return _is_jws(hook, signature, signed)
    given = [one.strip() for one in signature.split(",")][:SIGNATURES_MAX]
    macs = [
        "v1=" + hmac.new(secret.get_secret_value().encode(), signed, sha256).hexdigest()
        for secret in hook.secret
    ]
    return any(hmac.compare_digest(mac.encode(), one.encode()) for mac in macs for one in given)


def _is_jws(hook: Hook, signature: str, signed: bytes) -> bool:
    """A compact JWS whose middle part is left out (RFC 7515, appendix F)."""
    if ".." not in signature:
        return False  # it brings a text of its own, and that would be judged in place of ours
    try:
        found = jws.extract_compact(signature.encode("ascii"), signed)
        key = None if hook.jwks is None else key_for(hook.jwks, found.headers())
        return key is not None and jws.validate_compact(found, key, ALGORITHMS)
    except (JoseError, ValueError, TypeError, KeyError):
        return False
