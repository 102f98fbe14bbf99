"""The application: routers, and the one place where errors become problems."""

from __future__ import annotations

from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from ...events.errors import Rejected, Transient
from ...events.log.protocol import LogFault
from ..faults import has_no_views, is_silent
from . import commands, downloads, letters, reads, reads_events, standing, streaming, webhooks
from .documenting import document, document_topics
from .guarding import Guard
from .problems import Problem, response_to
from .services import Services

ERRORS_MAX = 20
"""Faults of one request that are told."""

SHOWN_MAX = 300
"""Characters of each: names in it are a stranger's."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

HTTP_REASONS = {404: "unknown_address", 405: "unknown_method"}

logger = structlog.get_logger("wakeful.gateway")


def create_app(services: Services) -> FastAPI:
    """The application over these services; whoever made them closes them."""
    app = FastAPI(
        title="Wakeful", version="1", docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.services = services
    for queries in (reads, reads_events, downloads, standing, letters):
        app.include_router(queries.router)
    app.include_router(commands.router)
    app.include_router(commands.status)
    app.include_router(webhooks.router)
    app.include_router(streaming.router)
    for kind, answer in (
        (Problem, _problem),
        (Rejected, _rejected),
        (Transient, _transient),
        (LogFault, _transient),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
    ):
        app.add_exception_handler(kind, answer)
    app.add_middleware(Guard, body_max=services.body_max, unavailable=_unavailable)
    app.add_route("/livez", _lives, include_in_schema=False)
    document(app)
    document_topics(app, services.settings)
    return app


def _lives(_: Request) -> Response:
    """For whoever starts us again: it answers. What is behind it has answers of its own, 503 among them."""
    return Response("ok\n", media_type="text/plain")


def _problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return response_to(error, request)


def _rejected(request: Request, error: Exception) -> JSONResponse:
    return response_to(Problem(422, "rejected", str(error)), request)


def _transient(request: Request, error: Exception) -> JSONResponse:
    return response_to(_silent(error), request)


def _unavailable(error: Exception) -> Problem | None:
    """The problem of a fault that will pass, wherever it came up; null for one of our own."""
    if isinstance(error, Problem):
        return error
    known = isinstance(error, Transient | LogFault)
    return _silent(error) if known or is_silent(error) or has_no_views(error) else None


def _silent(error: Exception) -> Problem:
    """Addresses and logins stay in the log: what they say is for operators."""
    if isinstance(error, Transient):
        told = str(error)
    elif isinstance(error, LogFault):
        logger.warning("the log does not answer", why=str(error))
        told = "the log does not answer now: ask again in a moment, with the same Idempotency-Key"
    else:
        logger.warning("the views do not answer", why=" ".join(str(error).split()))
        told = "the views do not answer now: ask again in a moment"
    return Problem(503, "unavailable", told, headers={"Retry-After": "1"})


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [
        {"at": "/".join(map(str, one["loc"]))[:SHOWN_MAX], "what": one["msg"][:SHOWN_MAX]}
        for one in error.errors()[:ERRORS_MAX]
    ]
    told = "; ".join(f"{one['at']}: {one['what']}" for one in found[:3])
    return response_to(Problem(422, "invalid_request", told, errors=found), request)


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    address = f"{request.method[:SHOWN_MAX]} {request.url.path[:SHOWN_MAX]!a}"
    told = f"{address}: {error.detail}; see /openapi.json for what there is"
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    reason = HTTP_REASONS.get(error.status_code, "http")
    return response_to(Problem(error.status_code, reason, told, headers=headers), request)


def _methods(request: Request) -> list[str]:
    """What may be asked at this address, of all routes that it has."""
    found: set[str] = set()
    for method in METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            found |= {method, *(("HEAD",) if method == "GET" else ())}
    return sorted(found)
