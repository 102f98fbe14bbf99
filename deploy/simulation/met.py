"""What many schedules together must have met, so that a pass says something: facts, and the rows of the contracts."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from ...events import contracts as words
from ...events import records as r

KINDS = ("fact: ", "row: ", "gate: ")

FACTS = frozenset(fact.__name__ for fact in get_args(r.EventBody))

ROWS = frozenset(
    {
        *(
            f"{contract} {how}"
            for contract in (words.READ, words.IDEMPOTENT, words.LOOKUP)
            for how in ("fresh", "redelivered", "retried", "run raised ConnectionError")
        ),
        f"{words.LOOKUP} run timed out",
        f"{words.LOOKUP} run raised NothingDone",
        f"{words.LOOKUP} lookup raised ConnectionError",
        *(
            f"{contract} {how}"
            for contract in (words.UNDO, words.AT_MOST_ONCE)
            for how in (
                "fresh",
                "run raised ConnectionError",
                "run timed out",
                "run raised NothingDone",
            )
        ),
    }
)
"""How an attempt began and how its call ended, by contract; a call whose reply is lost raised a ConnectionError."""

GATES = frozenset(
    {
        *(
            f"withheld by {fact}"
            for fact in ("ActivityRequested", "ActivityRetried", "ActivityReturned")
        ),
        *(f"void by {why}" for why in ("authority", "policy_changed", "artifact_changed")),
        "dispatched once approved",
        "withheld once more",
        "not approved",
        "forbidden whoever approves",
        "withheld without a rule of its own",
        "cancelled while withheld",
        "given back as authority_stale",
    }
)
"""What became of attempts at which authority was looked."""

SIGNS = frozenset(
    {
        "queued for longer than a heartbeat",
        "attempts stopped",
        "beats",
        "fault: copied ahead",
        "fault: copied",
        "fault: copied long after",
        "fault: command elsewhere",
        "fault: policy among commands",
        "fault: only the copy arrived",
        "fault: control not read",
    }
)


MEETABLE = FACTS | ROWS | GATES | SIGNS


def unmet(counts: Counter[str]) -> set[str]:
    """What no schedule of these has met."""
    met = {name.partition(": ")[2] for name in counts if name.startswith(KINDS)}
    return {*((FACTS | ROWS | GATES) - met), *(sign for sign in SIGNS if not counts[sign])}
