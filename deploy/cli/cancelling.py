"""Stops several sessions at once: asks for all of them, then waits until Kafka has it, and tells which it has not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import typer

from ..exits import Exit, Stopped
from .context import client, kafka, settings

SESSIONS_MAX = 100_000
"""Named in one call: their commands are some tens of megabytes."""

AT_ONCE = 1_000
"""Handed over before the broker's word on them is awaited."""


def named_sessions(given: Sequence[str]) -> list[str]:
    """The ids, each once, in their order; `-` stands for those that stdin names, one on a line."""
    from ...events.keys import check_id

    ids = list(dict.fromkeys(_listed(given)))
    if not ids:
        raise Stopped(
            Exit.USAGE, "no session is named: give ids, or '-' and one on each line of stdin"
        )
    if len(ids) > SESSIONS_MAX:
        raise Stopped(Exit.USAGE, f"{len(ids)} sessions are named: give {SESSIONS_MAX} at most")
    return [check_id("session id", one) for one in ids]


def cancel_all(session_ids: Sequence[str], *, reason: str, actor: str | None, as_json: bool) -> int:
    """Asks each session to stop; what becomes of it is told by its status, since thousands take their time."""
    from ...events.errors import Transient
    from .output import write_json

    given = settings()
    lost: list[str] = []
    with kafka(given) as log, client(given, log, actor=actor) as asking:
        body = asking.cancel_body(reason)
        for first in range(0, len(session_ids), AT_ONCE):
            several = session_ids[first : first + AT_ONCE]
            for one, pending in [(one, asking.post(one, body)) for one in several]:
                try:
                    pending.receipt()
                except Transient:
                    lost.append(one)
    asked = len(session_ids) - len(lost)
    if as_json:
        write_json({"asked": asked, "not_acknowledged": lost})
    else:
        typer.echo(
            f"asked {asked} sessions to stop; next: 'wakeful session list --status Compensating'"
        )
    if lost:
        raise Stopped(
            Exit.UNAVAILABLE,
            f"kafka did not acknowledge {len(lost)}, such as {lost[0]!r}: ask again, a session that has stopped refuses it",
        )
    return 0


def _listed(given: Sequence[str]) -> Iterator[str]:
    for one in given:
        if one == "-":
            yield from filter(None, map(str.strip, sys.stdin))
        else:
            yield one
