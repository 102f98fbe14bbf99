"""What a caller says about a command besides the command: its key for repeats, the version it saw, and patience.

`Idempotency-Key` is one of the caller's own (quoted or not); `If-Match` is the ETag of a session, `"17"`; `Prefer` is
that of RFC 7240, with `wait` in seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request

from ...commands.check import NAME_LENGTH_MAX
from .problems import Problem

WAIT_MAX_S = 30
"""The longest that an answer waits for a verdict; a longer wish is granted in part."""

_WAIT = re.compile(r"\s*wait\s*=\s*\"?([0-9]{1,9})\"?\s*", re.ASCII | re.IGNORECASE)
_ETAG = re.compile(r'"(0|[1-9][0-9]{0,17})"', re.ASCII)
_QUOTED = re.compile(r'"([^"\\]*)"')


@dataclass(frozen=True, slots=True)
class Terms:
    """See the module. `key` and `expected_seq` are null where nothing was said."""

    key: str | None = None
    expected_seq: int | None = None
    wait_s: int | None = None


def terms_of(
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(description="Yours: a repeat with it answers what the first did.")
    ] = None,
    if_match: Annotated[
        str | None, Header(description="A session's ETag: refuse where it has moved on.")
    ] = None,
    prefer: Annotated[
        str | None, Header(description="wait=10: answer with the verdict, in so many seconds.")
    ] = None,
) -> Terms:
    """The terms in a request's headers; `Problem` 400 names the header that cannot be one."""
    del prefer  # in OpenAPI it is one; a request may have several
    for name in ("idempotency-key", "if-match"):
        if len(request.headers.getlist(name)) > 1:
            raise Problem(400, "invalid_header", f"the header {name} is given twice: give it once")
    return Terms(
        None if idempotency_key is None else _key(idempotency_key),
        None if if_match is None else _seq(if_match),
        wait_s(request.headers.getlist("prefer")),
    )


def _key(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    key = quoted[1] if quoted else text
    if not 1 <= len(key) <= NAME_LENGTH_MAX or not key.isprintable():
        shown = ascii(text) if len(text) <= NAME_LENGTH_MAX else f"of {len(text)} characters"
        told = f"Idempotency-Key {shown}: use 1 to {NAME_LENGTH_MAX} printable characters"
        raise Problem(400, "invalid_header", told)
    return key


def _seq(text: str) -> int:
    match = _ETAG.fullmatch(text.strip())
    if match is None:
        told = f'If-Match {text[:NAME_LENGTH_MAX]!a}: give one ETag of a session as it was shown, such as "17" with its quotes'
        raise Problem(400, "invalid_header", told)
    return int(match[1])


def wait_s(headers: list[str]) -> int | None:
    """What is none of ours is passed over, as RFC 7240 has it; of several the first counts."""
    for preference in ",".join(headers).split(","):
        match = _WAIT.fullmatch(preference.partition(";")[0])
        if match is not None:
            return min(int(match[1]), WAIT_MAX_S)
    return None


Said = Annotated[Terms, Depends(terms_of)]
