"""What OpenAPI says beyond the endpoints themselves: how one signs in, and that every operation may answer with a problem.

Beside it stands what AsyncAPI says of the topics.
"""

from __future__ import annotations

import json
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response

from ..settings import Settings
from ..telling.asyncapi import asyncapi
from .guarding import PREFIX
from .problems import MEDIA_TYPE, TYPE

ALWAYS = (400, 401, 403, 404, 408, 413, 414, 422, 431, 500, 503)
"""What any request may meet."""

OF_WRITES = (409, 412, 415, 429)

OF_READS = (410,)

PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "description": "What is wrong, as RFC 9457 says it. `type` never changes its meaning; `detail` has the next step.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "pattern": f"^{TYPE}[a-z_]+$"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
}

METHODS = ("get", "put", "post", "delete", "patch")


def document(app: FastAPI) -> None:
    """Makes `/openapi.json` say it; made once, when somebody asks."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, routes=app.routes)
            app.openapi_schema = _completed(made)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the documented way to extend it


def document_topics(app: FastAPI, settings: Settings) -> None:
    """Makes `/asyncapi.json` say how to speak to the same sessions through Kafka; it names no broker."""

    @cache
    def made() -> bytes:
        replicas = settings.min_insync_replicas
        found = asyncapi(settings.topics, settings.partitions, min_insync_replicas=replicas)
        return json.dumps(found).encode()

    def answer(_request: Request) -> Response:
        return Response(made(), media_type="application/json")

    app.add_route("/asyncapi.json", answer, include_in_schema=False)


def _completed(made: dict[str, Any]) -> dict[str, Any]:
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, or a token of the OIDC provider.",
        }
    }
    for path, operations in made["paths"].items():
        if not path.startswith(PREFIX):
            continue
        for method in METHODS:
            if method in operations:
                _complete(operations[method], writes=method != "get")
    return made


def _complete(operation: dict[str, Any], *, writes: bool) -> None:
    operation.setdefault("security", [{"bearer": []}])
    for status in (*ALWAYS, *(OF_WRITES if writes else OF_READS)):
        operation["responses"][str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
