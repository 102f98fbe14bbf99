"""The console as an application of its own below `/console`: its errors are pages, and its headers are strict."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....events.errors import Rejected, Transient
from ....events.log.protocol import LogFault
from ....projections.pages import Cursors
from ...faults import has_no_views, is_silent
from ..api_keys import ApiKeys
from ..asking import check_query
from ..problems import Problem
from ..services import Services
from . import (
    approvals,
    assets,
    deciding,
    entry,
    ledger,
    letters,
    overview,
    provider,
    session,
    sessions,
    streams,
)
from .pages import render
from .signing import Signer, signer_in
from .visits import PATH, Console, SignInFirst, Visit, visit_of, way_in

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

HOP = "hop"
"""Of a page that was opened from another site, whose browser left the cookie out: it is opened once more, from here."""

logger = structlog.get_logger("wakeful.console")


def console_app(services: Services, api_keys: ApiKeys, signer: Signer) -> ASGIApp:
    """The console over these services; mounted at `/console`."""
    app = FastAPI(title="Wakeful console", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.console = Console(services, api_keys, signer, Cursors(services.settings.digest_key))
    for module in (entry, provider, assets):  # a provider's answer has whatever it likes
        app.include_router(module.router)
    for module in (
        *(overview, approvals, deciding, sessions, session),
        *(ledger, letters, streams),
    ):
        app.include_router(module.router, dependencies=[Depends(_asked_for)])
    for kind, answer in (
        (SignInFirst, _sign_in_first),
        (Problem, _problem),
        (Rejected, _rejected),
        (Transient, _transient),
        (LogFault, _log_fault),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
        (Exception, _fault),
    ):
        app.add_exception_handler(kind, answer)
    return _Headers(app)


def _asked_for(request: Request) -> None:
    """`Problem` 422 for a word in the address that its page does not know, or that stands there twice."""
    check_query(request, (*_query_of(request.scope["route"].dependant), HOP))


def _query_of(dependant: Any) -> list[str]:
    """The parameters of an endpoint and of what it depends on."""
    own = [one.alias for one in dependant.query_params]
    return own + [name for one in dependant.dependencies for name in _query_of(one)]


class _Headers:
    """Adds the headers that every page and file has, those about faults of ours among them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        whole = False

        async def with_headers(message: Message) -> None:
            nonlocal whole
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)
            whole = message["type"] == "http.response.body" and not message.get("more_body")

        try:
            await self._app(scope, receive, with_headers)
        except Exception:
            if not whole:
                raise  # a file that breaks off must not look like a whole one; a page says what happened


def _sign_in_first(request: Request, _: Exception) -> Response:
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"HX-Redirect": way_in(request)})
    foreign = request.headers.get("sec-fetch-site") == "cross-site"
    if foreign and request.method == "GET" and HOP not in request.query_params:
        asked = f"{request.url.path}?{request.url.query + '&' if request.url.query else ''}{HOP}=1"
        return render(request, None, "hop.html", again=quote(asked, safe="/?&=%@:+"))
    return RedirectResponse(way_in(request), 303)


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _page(request, error.status, error.detail)


def _rejected(request: Request, error: Exception) -> Response:
    return _page(request, 422, str(error))


def _transient(request: Request, error: Exception) -> Response:
    return _page(request, 503, f"{error}. Try again in a moment.")


def _log_fault(request: Request, error: Exception) -> Response:
    logger.warning("the log does not answer", why=str(error))
    told = "The log does not answer now. Try again in a moment; a form may be sent again as it is."
    return _page(request, 503, told)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = "; ".join(
        f"{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3]
    )
    return _page(request, 422, found)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _page(request, error.status_code, str(error.detail))


def _fault(request: Request, error: Exception) -> Response:
    if is_silent(error) or has_no_views(error):
        logger.warning("the views do not answer", why=" ".join(str(error).split()))
        return _page(request, 503, "The views do not answer now. Try again in a moment.")
    fault = secrets.token_hex(6)
    logger.error("console fault", fault=fault, path=request.url.path, exc_info=error)
    return _page(request, 500, f"This is a fault of ours; the gateway's log has it as {fault}.")


TITLES = {
    401: "Sign in first",
    403: "Not permitted",
    404: "Not found",
    405: "Not here",
    409: "This page is out of date",
    422: "That cannot be done",
    429: "Too much waits already",
    500: "Something broke",
    503: "Not now",
}


def _page(request: Request, status: int, told: str, **more: Any) -> HTMLResponse:
    visit: Visit | None = None
    with suppress(SignInFirst, Problem):
        visit = visit_of(request)
    title = TITLES.get(status, "That did not work")
    return render(
        request, visit, "problem.html", title=title, told=told, status_code=status, **more
    )


def mount(app: FastAPI, services: Services, api_keys: ApiKeys) -> None:
    """Puts the console into the gateway's application; whoever asks for no page at all is led to it."""

    def to_console(_: Request) -> Response:
        return RedirectResponse(f"{PATH}/", 307)

    for path in ("/", PATH):
        app.add_route(path, to_console, include_in_schema=False)
    app.mount(PATH, console_app(services, api_keys, signer_in(services.settings.home)))
