"""The way in and out: an API key, a link that signs in once, or the OIDC provider (`provider.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from ..principals import May, permissions_of
from ..problems import Problem
from .one_time import first_use
from .pages import render
from .visits import (
    PATH,
    Posting,
    SignInFirst,
    console_of,
    from_here,
    ours,
    public_url,
    sign_in,
    sign_out,
    visit_of,
)

router = APIRouter()

NOT_A_KEY = "That key is not valid here. Ask an operator for a new one: wakeful apikeys new."

NOT_FOR_PEOPLE = "That key may not see sessions: it is for webhooks. Ask an operator for another."

SPENT = (
    "This link was used before, is too old, or is not from here. Sign in with an API key, or ask for a new link from "
    "whoever runs this gateway: it prints one when it is started, by 'wakeful serve --console-link' or by the demo."
)


@router.get("/sign-in")
def ask(request: Request, next: str = "", out: str = "") -> Response:  # noqa: A002 as the query has it
    """The form; with `out` for whoever has just left."""
    return way_in_page(request, back=ours(next) or "", out=bool(out))


def way_in_page(
    request: Request, *, back: str = "", wrong: str = "", out: bool = False, status: int = 200
) -> Response:
    """The ways in that there are, and what was wrong with the one that was tried."""
    sign_ins = console_of(request).services.sign_ins
    elsewhere = None
    if out and sign_ins is not None and (base := public_url(request)):
        elsewhere = sign_ins.way_out(f"{base}{PATH}/sign-in")
    told = {"back": back, "wrong": wrong, "out": out, "elsewhere": elsewhere}
    provider = None if sign_ins is None else sign_ins.name
    return render(request, None, "sign_in.html", provider=provider, status_code=status, **told)


@router.post("/sign-in")
def enter(
    request: Request,
    api_key: Annotated[str, Form(max_length=200)],
    back: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """Signs in with an API key; what is wrong with it is not said."""
    from_here(request)
    console = console_of(request)
    key = console.api_keys.find(api_key.strip(), console.now_ms)
    wrong = "" if key is not None else NOT_A_KEY
    if key is not None and May.SEE not in permissions_of(key.roles):
        key, wrong = None, NOT_FOR_PEOPLE
    if key is None:
        return way_in_page(request, back=ours(back) or "", wrong=wrong, status=401)
    response = RedirectResponse(ours(back) or PATH + "/", 303)
    sign_in(request, response, key)
    return response


@router.get("/enter/{word}")
def follow(request: Request, word: str) -> Response:
    """Signs in by a link, once."""
    console = console_of(request)
    said = console.signer.open("sign_in", word, console.now_ms)
    key = None if said is None else console.api_keys.named(said["key"], console.now_ms)
    home = console.services.settings.home
    if said is None or key is None or not first_use(home, said["once"], console.now_ms):
        with suppress(SignInFirst, Problem):  # who followed it before is in already
            visit_of(request)
            return RedirectResponse(PATH + "/", 303)
        return way_in_page(request, wrong=SPENT, status=401)
    response = RedirectResponse(PATH + "/", 303)
    sign_in(request, response, key)
    return response


@router.post("/sign-out")
def leave(request: Request, _: Posting) -> Response:
    """Takes the cookie back, and ends the sign-in."""
    response = RedirectResponse(f"{PATH}/sign-in?out=1", 303)
    sign_out(request, response)
    return response
