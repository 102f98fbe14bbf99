"""Signing in through the OIDC provider: to it, and back.

What a sign-in began with is in a cookie of its own, sealed, for ten minutes and one answer. It is `SameSite=Lax`, since the
answer comes from the provider's site; the cookie of the sign-in stays strict, so the page behind is opened from here.
"""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from ..oidc_sign_in import WORD_MAX, SignIns, check_iss
from ..principals import May, permissions_of
from ..problems import Problem
from .entry import way_in_page
from .one_time import first_use
from .pages import render
from .visits import PATH, console_of, is_secure, ours, public_url, sign_in

router = APIRouter(prefix="/oidc")

COOKIE = "wakeful_oidc"

BEGUN_MS = 10 * 60_000
"""How long a sign-in at the provider may take."""

CODE_MAX = 3_000

NOT_BEGUN = "This sign-in did not begin here, took too long, or was answered before. Begin again."

NO_ROLE = (
    "The provider knows you, and gives you no role that may see sessions: "
    "viewer, user, approver or operator. Ask whoever looks after it."
)

Code = Annotated[str, Query(max_length=CODE_MAX)]
Word = Annotated[str, Query(max_length=2_000)]


@router.get("/sign-in")
def begin(request: Request, next: Word = "") -> Response:  # noqa: A002 as the query has it
    """Sends the browser to the provider; where that does not answer, the page says so."""
    sign_ins = _sign_ins(request)
    console = console_of(request)
    state, nonce, verifier = (secrets.token_hex(32) for _ in range(3))
    try:
        address = sign_ins.address(
            redirect_uri=_redirect_uri(request), state=state, nonce=nonce, verifier=verifier
        )
    except Problem as problem:
        return way_in_page(
            request, back=ours(next) or "", wrong=_words(problem), status=problem.status
        )
    body = {"state": state, "nonce": nonce, "verifier": verifier, "back": ours(next) or ""}
    response = RedirectResponse(address, 303)
    response.set_cookie(
        COOKIE,
        console.signer.seal("oidc", body, until_ms=console.now_ms + BEGUN_MS),
        max_age=BEGUN_MS // 1000,
        path=f"{PATH}/oidc",
        httponly=True,
        samesite="lax",
        secure=is_secure(request),
    )
    return response


@router.get("/back")
def end(
    request: Request, code: Code = "", state: Word = "", error: Word = "", iss: Word = ""
) -> Response:
    """The provider's answer: signs in, once, whoever began here; else the page says what was wrong."""
    sign_ins = _sign_ins(request)
    console = console_of(request)
    said = console.signer.open("oidc", request.cookies.get(COOKIE, ""), console.now_ms)
    home = console.services.settings.home
    if (
        said is None
        or not secrets.compare_digest(said["state"].encode(), state.encode())
        or not first_use(home, said["state"], console.now_ms)
    ):
        return _refused(request, NOT_BEGUN, 401)
    try:
        check_iss(sign_ins, iss)
        if error or not code:
            told = error[:WORD_MAX] or "it gave no code"
            raise Problem(401, "unauthenticated", f"the provider did not let you in ({told})")
        found = sign_ins.redeem(
            code,
            redirect_uri=_redirect_uri(request),
            verifier=said["verifier"],
            nonce=said["nonce"],
        )
    except Problem as problem:
        return _refused(request, _words(problem), problem.status)
    if May.SEE not in permissions_of(found.named.roles):
        return _refused(request, NO_ROLE, 403)
    response = render(request, None, "hop.html", again=said["back"] or PATH + "/")
    sign_in(request, response, found)
    _forget(request, response)
    return response


def _sign_ins(request: Request) -> SignIns:
    found = console_of(request).services.sign_ins
    if found is None:
        told = "no provider is set up for sign-ins here: sign in with an API key"
        raise Problem(404, "no_provider", told)
    return found


def _redirect_uri(request: Request) -> str:
    base = public_url(request)
    if not base:
        told = "WAKEFUL_HTTP_URL is not set, so the provider cannot be told the way back: ask an operator"
        raise Problem(503, "no_address", told)
    return f"{base}{PATH}/oidc/back"


def _refused(request: Request, wrong: str, status: int) -> Response:
    response = way_in_page(request, wrong=wrong, status=status)
    _forget(request, response)
    return response


def _forget(request: Request, response: Response) -> None:
    response.delete_cookie(
        COOKIE, path=f"{PATH}/oidc", httponly=True, samesite="lax", secure=is_secure(request)
    )


def _words(problem: Problem) -> str:
    return f"{problem.detail[:1].upper()}{problem.detail[1:]}."
