"""What a session made of a command, for the page that asked: waited for a moment, then shown as it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from ....commands.outcomes import outcomes
from ....commands.sending import Receipt
from .visits import Visit

WAIT_MS = 8_000
"""How long a form waits for the verdict; a page that has none shows it as soon as it is there."""

LOOK_AGAIN_S = 0.1

LISTEN_EVERY = 10
"""Looks at the views for one at the outcomes, where also those stand that were turned away at the door."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`undecided` until somebody has it; `kept` while its session is held."""

    kind: Literal["undecided", "accepted", "refused", "kept"]
    reason: str = ""
    words: str = ""
    command: str = ""


KINDS: dict[str, Literal["accepted", "refused", "kept"]] = {
    "accepted": "accepted",
    "refused": "refused",
    "parked": "kept",
}


def verdict_of(visit: Visit, session_id: str, command_id: str) -> Verdict:
    """As the views have it now."""
    with visit.services.queries(visit.principal) as views:
        rows = views.outcomes(session_id=session_id, command_id=command_id, limit=10)
    if not rows:
        return Verdict("undecided")
    row = rows[-1]
    return Verdict(
        KINDS[row["disposition"]], row["reason"] or "", row["detail"] or "", row["command"] or ""
    )


def await_verdict(visit: Visit, receipt: Receipt) -> Verdict:
    """The verdict, or that there is none yet."""
    limit = time.monotonic() + WAIT_MS / 1000
    looks = 0
    while True:
        found = verdict_of(visit, receipt.session_id, receipt.command_id)
        looks += 1
        if found.kind == "undecided" and looks % LISTEN_EVERY == 0:
            found = _turned_away(visit, receipt)
        if found.kind != "undecided" or time.monotonic() >= limit:
            return found
        time.sleep(LOOK_AGAIN_S)


def _turned_away(visit: Visit, receipt: Receipt) -> Verdict:
    """The refusal of a command that left no event: of a session that is not there, say."""
    services, tenant = visit.services, visit.principal.tenant
    since_ms = max(0, receipt.issued_at_ms - 1_000)
    for seen in outcomes(
        services.log, services.topics, tenant, receipt.session_id, since_ms=since_ms
    ):
        said = seen.outcome
        if said.kind == "refused" and said.command_id == receipt.command_id:
            return Verdict("refused", said.reason or "", said.detail or "")
    return Verdict("undecided")
