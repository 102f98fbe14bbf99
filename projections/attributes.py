"""What attributes mean for rows: one for each, and one for each pair, so that two of them are found by one look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..events import records as r
from ..events.attributes import plain, terms
from . import escaping
from .rows import ATTRIBUTES, Change
from .values import Values


def records(
    envelope: r.Envelope, attributes: Sequence[r.Attribute], changed: Iterable[str]
) -> list[Change]:
    """The changes of the rows in which one of the changed ones takes part; one that is gone leaves a row without a term."""
    by_name = {one.name: one for one in attributes}
    found = []
    for names, term in terms(attributes, changed):
        one = Values(envelope, names)
        known = by_name.get(names)
        one.row.update(kind=known.kind if known else None, since_ms=envelope.at_ms)
        one.text("value", known.value if known else None)
        one.text("term", term)
        found.append(one.change(ATTRIBUTES))
    return found


def told(session: Values, attributes: Sequence[r.Attribute]) -> None:
    """All of them, in the session's row."""
    session.put("attributes", escaping.value({one.name: plain(one) for one in attributes}))
