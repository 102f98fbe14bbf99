"""The application: routers, and the one place where errors become problems."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ...events.errors import Rejected, Transient
from . import commands, downloads, reads, reads_events, standing, streaming
from .problems import Problem, response_to
from .services import Services


def create_app(services: Services) -> FastAPI:
    """The application over these services; whoever made them closes them."""
    app = FastAPI(title="Wakeful", version="1", docs_url=None, redoc_url=None)
    app.state.services = services
    for queries in (reads, reads_events, downloads, standing):
        app.include_router(queries.router)
    app.include_router(commands.router)
    app.include_router(streaming.router)
    for kind, answer in (
        (Problem, _problem),
        (Rejected, _rejected),
        (Transient, _transient),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
    ):
        app.add_exception_handler(kind, answer)
    return app


def _problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return response_to(error, request)


def _rejected(request: Request, error: Exception) -> JSONResponse:
    return response_to(Problem(422, "rejected", str(error)), request)


def _transient(request: Request, error: Exception) -> JSONResponse:
    return response_to(
        Problem(503, "unavailable", str(error), headers={"Retry-After": "1"}), request
    )


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [
        {"at": "/".join(map(str, one["loc"])), "what": one["msg"]} for one in error.errors()[:20]
    ]
    told = "; ".join(f"{one['at']}: {one['what']}" for one in found[:3])
    return response_to(Problem(422, "invalid_request", told, errors=found), request)


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    told = f"{request.method} {request.url.path}: {error.detail}"
    headers = dict(error.headers or {})
    return response_to(Problem(error.status_code, "http", told, headers=headers), request)
