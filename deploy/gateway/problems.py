"""What is wrong with a request, as RFC 9457 says it: `application/problem+json` with a type, a title and a sentence.

`type` is `urn:wakeful:problem:<reason>` and never changes its meaning; `detail` names the value and the next step.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"

TYPE = "urn:wakeful:problem:"


class Problem(Exception):
    """Ends a request with this answer. `more` are further members of the object, such as `positions`."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more


def response_to(problem: Problem, request: Request) -> JSONResponse:
    """The problem as it goes out."""
    told = {
        "type": TYPE + problem.reason,
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "instance": request.url.path,
        **problem.more,
    }
    return JSONResponse(told, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)
