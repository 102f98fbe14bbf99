"""What one event changes in the rows of a watcher: the whole of its work, without Faust. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...events import records as r
from . import rows
from .prices import Prices
from .sessions import after, counted, new_row
from .windows import WindowKey, added, minute_of


def changes(
    event: r.Event,
    partition: int,
    offset: int,
    kept: Mapping[rows.RowKey, dict[str, Any]],
    *,
    prices: Prices,
    oldest_ms: int,
) -> Iterator[tuple[rows.RowKey, dict[str, Any]]]:
    """The rows to write, in this order; none where the event was counted before. Windows before `oldest_ms` are left out.

    The session's row comes last. So if it is in the topic, its window is as well, and a crash between the two, after
    which the event comes again, finds what is missing.
    """
    envelope = event.envelope
    key = rows.session_row_key(partition, envelope.tenant, envelope.session_id)
    row = kept.get(key) or new_row(event)
    if row["position"] >= offset:
        return
    found = counted(row, event, prices)
    if found is not None and found.at_ms >= oldest_ms:
        named = (row["tenant"], row["workflow"], row["version"], found.tool)
        window_key = rows.window_key(WindowKey(partition, minute_of(found.at_ms), *named))
        window = added(kept.get(window_key), found.counts, offset)
        if window is not None:
            yield window_key, window
    yield key, after(row, event, offset)
