"""Who looks at a page: the cookie of a sign-in, checked each time.

Behind it is an API key: the cookie says which, never what it may do, so a key that is revoked, over, or has other roles by
now counts as it is. Or the OIDC provider: then the cookie says whom its token named, and lasts as long as that.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import Depends, Form, Request
from fastapi.responses import Response

from ....events.records import Event
from ....projections.pages import Cursors
from ..api_keys import ApiKey, ApiKeys
from ..oidc_sign_in import SignedIn
from ..principals import ROLES, May, Principal, permissions_of
from ..problems import Problem
from ..services import Services
from .history import Histories
from .one_time import end_sign_in, has_ended
from .signing import Signer

CHANNEL = "console"

COOKIE = "wakeful_console"

PATH = "/console"

SIGNED_IN_MS = 8 * 3_600_000
"""How long a sign-in lasts."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_OURS = re.compile(r"/console(?:/[\w.~%@:=+-]+)*/?(?:\?[\w.~%@:=&+-]*)?", re.ASCII)


class SignInFirst(Exception):
    """Nobody is signed in: the answer is the way in, and back here."""


@dataclass(frozen=True, slots=True)
class Console:
    """What all pages share."""

    services: Services
    api_keys: ApiKeys
    signer: Signer
    cursors: Cursors
    histories: Histories = field(default_factory=Histories)
    numbers: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    """What the overview last showed of each tenant, and when; losing it costs one more look."""

    @property
    def now_ms(self) -> int:
        """By this machine's clock."""
        return self.services.clock.now_ms()


@dataclass(frozen=True, slots=True)
class Visit:
    """One signed-in person on one page."""

    console: Console
    principal: Principal
    form_token: str
    base_url: str
    """Where this browser reaches us, as far as the request says."""

    def may(self, permission: str) -> bool:
        """Whether a page shows what needs this permission."""
        return May(permission) in self.principal.permissions

    @property
    def services(self) -> Services:
        """The gateway's."""
        return self.console.services

    def events(self, session_id: str, seq: int) -> list[Event]:
        """The session's events up to this number or further, the oldest first."""
        return self.console.histories.events(self.services, self.principal, session_id, seq)


def from_here(request: Request) -> None:
    """`Problem` 403 for a form that another site sent; browsers say so, and what is no browser says nothing."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Problem(403, "foreign_form", "this form was sent by another site: use the page here")


def console_of(request: Request) -> Console:
    """Of the application that answers."""
    return cast("Console", request.app.state.console)


def visit_of(request: Request) -> Visit:
    """The visit; `SignInFirst` where the cookie is none, over, or its key counts no more."""
    console = console_of(request)
    word = request.cookies.get(COOKIE, "")
    said = console.signer.open("session", word, console.now_ms)
    principal = None if said is None else _principal_of(console, said)
    home = console.services.settings.home
    if said is None or principal is None or has_ended(home, said["id"]):
        raise SignInFirst
    principal.require(May.SEE)
    base_url = public_url(request) or f"{request.url.scheme}://{request.url.netloc}"
    return Visit(console, principal, console.signer.form_token(said["id"]), base_url)


def _principal_of(console: Console, said: dict[str, Any]) -> Principal | None:
    """For whom this cookie speaks now; null where what it rests on counts no more."""
    if "oidc" in said:
        sign_ins = console.services.sign_ins
        if sign_ins is None or said["oidc"] != sign_ins.issuer:
            return None
        permissions, via = permissions_of(said["roles"]), f"oidc:{said['actor']}"
        return Principal(said["tenant"], said["actor"], permissions, CHANNEL, via)
    key = console.api_keys.named(said["key"], console.now_ms)
    if key is None:
        return None
    return Principal(key.tenant, key.actor, permissions_of(key.roles), CHANNEL, f"key:{key.id}")


def posted(request: Request, form_token: Annotated[str, Form()] = "") -> Visit:
    """The visit behind a form; `Problem` 403 where the form is not from a page of this sign-in."""
    from_here(request)
    visit = visit_of(request)
    if not secrets.compare_digest(visit.form_token.encode(), form_token.encode()):
        raise Problem(
            403,
            "foreign_form",
            "this form is not from a page of this sign-in: open the page again, and send it from there",
        )
    return visit


Looking = Annotated[Visit, Depends(visit_of)]
Posting = Annotated[Visit, Depends(posted)]


def sign_in(request: Request, response: Response, who: ApiKey | SignedIn) -> None:
    """Sets the cookie; never one that outlives the key or the token that it rests on."""
    console = console_of(request)
    until_ms = console.now_ms + SIGNED_IN_MS
    body: dict[str, Any] = {"id": secrets.token_hex(16)}
    match who:
        case ApiKey():
            body["key"] = who.id
            until_ms = min(until_ms, until_ms if who.not_after_ms is None else who.not_after_ms)
        case SignedIn():
            named = who.named
            roles = [role for role in ROLES if role in named.roles]
            body |= {"oidc": _issuer_of(console), "tenant": named.tenant, "actor": named.actor}
            body |= {"roles": roles}
            until_ms = min(until_ms, who.until_ms)
    response.set_cookie(
        COOKIE,
        console.signer.seal("session", body, until_ms=until_ms),
        max_age=max(0, until_ms - console.now_ms) // 1000,
        path=PATH,
        httponly=True,
        samesite="strict",
        secure=is_secure(request),
    )


def sign_out(request: Request, response: Response) -> None:
    """Takes the cookie back, and ends the sign-in for whoever else has it."""
    console = console_of(request)
    said = console.signer.open("session", request.cookies.get(COOKIE, ""), console.now_ms)
    if said is not None:
        end_sign_in(console.services.settings.home, said["id"], console.now_ms)
    response.delete_cookie(
        COOKIE, path=PATH, httponly=True, samesite="strict", secure=is_secure(request)
    )


def way_in(request: Request) -> str:
    """The sign-in page, which leads back to what was asked for."""
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = ours(asked) if request.method == "GET" else None
    return f"{PATH}/sign-in" + (f"?next={quote(back, safe='')}" if back else "")


def ours(path: str) -> str | None:
    """The path, where it is a page of the console; null where it leads anywhere else."""
    return path if _OURS.fullmatch(path) and "/.." not in path else None


def public_url(request: Request) -> str:
    """Where browsers reach us: as it is set, else, on this machine alone, as the request says; empty where nobody knows."""
    sign_ins = console_of(request).services.sign_ins
    if sign_ins is not None and sign_ins.base_url:
        return sign_ins.base_url
    is_here = request.url.hostname in LOOPBACK
    return f"{request.url.scheme}://{request.url.netloc}" if is_here else ""


def is_secure(request: Request) -> bool:
    """Always, but for plain HTTP on this machine, where a browser would not send it back."""
    return not (request.url.scheme == "http" and request.url.hostname in LOOPBACK)


def _issuer_of(console: Console) -> str:
    """The provider that people sign in through; empty where there is none."""
    return "" if console.services.sign_ins is None else console.services.sign_ins.issuer
