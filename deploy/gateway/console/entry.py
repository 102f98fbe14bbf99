"""The way in and out: an API key, or a link that signs in once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from ..principals import May, permissions_of
from .one_time import first_use
from .pages import render
from .visits import PATH, Posting, console_of, from_here, ours, sign_in, sign_out

router = APIRouter()

NOT_A_KEY = "That key is not valid here. Ask an operator for a new one: wakeful apikeys new."

NOT_FOR_PEOPLE = "That key may not see sessions: it is for webhooks. Ask an operator for another."

SPENT = (
    "This link was used before, is too old, or is not from here. Ask for a new one: "
    "wakeful serve --console-link."
)


@router.get("/sign-in")
def ask(request: Request, next: str = "") -> Response:  # noqa: A002 as the query has it
    """The form."""
    return render(request, None, "sign_in.html", back=ours(next) or "", wrong="")


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
        page = {"back": ours(back) or "", "wrong": wrong, "status_code": 401}
        return render(request, None, "sign_in.html", **page)
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
        return render(request, None, "sign_in.html", back="", wrong=SPENT, status_code=401)
    response = RedirectResponse(PATH + "/", 303)
    sign_in(request, response, key)
    return response


@router.post("/sign-out")
def leave(request: Request, _: Posting) -> Response:
    """Takes the cookie back."""
    response = RedirectResponse(f"{PATH}/sign-in", 303)
    sign_out(request, response)
    return response
