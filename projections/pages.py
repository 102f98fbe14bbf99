"""Pages of a list: the rows behind the last one seen, whatever came or went meanwhile, and a cursor to the next page.

A cursor says behind which row to go on, so a page costs what it returns, however far down it is. A row that does not
move is on exactly one page; one that moves (a session with a new event, in a list by time) comes to the front. It is
signed for its tenant, list and filters: with any other it is not taken.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from dataclasses import dataclass
from hashlib import sha256

from ..events.errors import Rejected
from .listings import SINCE, TIME_MAX_MS, UNTIL, Listing, Route, Wanted
from .queries import Answer, Queries

LIMIT_MAX = 200
"""Rows of one page."""

CURSOR_LENGTH_MAX = 2_048

MAC_BYTES = 16

_KEY = "key_"
"""Before the names of the columns by which a row is found again."""


class WrongCursor(Rejected):
    """This is no cursor of this list with these filters."""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the order of their list, and the cursor of the next page; null on the last one."""

    rows: list[Answer]
    next_cursor: str | None


class Cursors:
    """Makes and reads cursors. All who share the secret take each other's."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"wakeful/cursor/1", sha256)

    def cursor(self, behind: list[str | int], *of: object) -> str:
        """Behind the row of this key, of this list."""
        told = json.dumps(behind, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._mac(told, of) + told).rstrip(b"=").decode()

    def behind(self, cursor: str, *of: object) -> list[str | int]:
        """The key of the row to go on behind; `WrongCursor` where it is not of this list."""
        try:
            if len(cursor) > CURSOR_LENGTH_MAX or not cursor.isascii():
                raise ValueError("no cursor is like this")
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raw = b""
        mac, told = raw[:MAC_BYTES], raw[MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(told, of)):
            raise WrongCursor(
                f"cursor {cursor[:40]!a} is not of this list with these filters: take it as it came, with the filters it "
                "came with, or begin without one"
            )
        key: list[str | int] = json.loads(told)
        return key

    def _mac(self, told: bytes, of: tuple[object, ...]) -> bytes:
        bound = json.dumps(of, sort_keys=True, separators=(",", ":")).encode()
        return hmac.digest(self._key, bound + b"\0" + told, sha256)[:MAC_BYTES]


def page(
    queries: Queries,
    cursors: Cursors,
    listing: Listing,
    wanted: Wanted,
    *,
    limit: int = 50,
    cursor: str | None = None,
) -> Page:
    """One page of the list for the tenant of these queries.

    `NotOffered` where no index serves the filters, `WrongCursor` where the cursor is another's.
    """
    if queries.tenant is None or not 1 <= limit <= LIMIT_MAX:
        raise ValueError(
            f"limit {limit!r}, tenant {queries.tenant!r}: expected 1 to {LIMIT_MAX}, and one tenant"
        )
    route = listing.route(wanted)
    bound = (queries.tenant, listing.name, dict(wanted))
    behind = None if cursor is None else cursors.behind(cursor, *bound)
    rows = read(queries, listing, route, wanted, limit=limit + 1, behind=behind)
    more = len(rows) > limit
    rows = rows[:limit]
    keys = [[row.pop(_KEY + column) for column in route.order] for row in rows]
    return Page(rows, cursors.cursor(keys[-1], *bound) if more else None)


def read(
    queries: Queries,
    listing: Listing,
    route: Route,
    wanted: Wanted,
    *,
    limit: int,
    behind: list[str | int] | None = None,
) -> list[Answer]:
    """Rows behind this key, each with its own key."""
    statement, values = statement_of(listing, route, wanted, behind)
    return queries.walk(statement, tenant=queries.tenant, limit=limit, **values)


def statement_of(
    listing: Listing, route: Route, wanted: Wanted, behind: list[str | int] | None
) -> tuple[str, dict[str, object]]:
    """The question, and its values but for the tenant and the limit."""
    values: dict[str, object] = {name: wanted[name] for name in route.filters if name in wanted}
    asked = ["tenant = %(tenant)s::text", route.where]
    if route.ranged is not None:
        column = listing.times[route.ranged]
        values["since"] = wanted.get(route.ranged + SINCE, 0)
        values["until"] = wanted.get(route.ranged + UNTIL, TIME_MAX_MS)
        asked.append(f"{column} >= %(since)s::bigint AND {column} < %(until)s::bigint")
    if behind is not None:
        values |= {f"k{n}": value for n, value in enumerate(behind)}
        kinds = ["bigint" if column in listing.numbers else "text" for column in route.order]
        keys = ", ".join(f"%(k{n})s::{kind}" for n, kind in enumerate(kinds))
        asked.append(f"({', '.join(route.order)}) {'<' if route.descending else '>'} ({keys})")
    joined = f"JOIN {{views}}.{route.joined} USING (tenant, session_id) " if route.joined else ""
    way = " DESC" if route.descending else ""
    statement = (
        f"SELECT {listing.columns}, {', '.join(f'{c} AS {_KEY}{c}' for c in route.order)} "  # noqa: S608 - our texts
        f"FROM {{views}}.{listing.view} {joined}WHERE {' AND '.join(asked)} "
        f"ORDER BY {', '.join(c + way for c in route.order)} LIMIT %(limit)s"
    )
    return statement, values
