"""A position of the views as one word, to hand from who asks to who reads: `0:120,1:98`, everything below each offset."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..events.errors import InvalidKey
from ..events.log.protocol import Place

_TOKEN = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*")


def token_of(positions: Mapping[Place, int]) -> str:
    """The token; empty where there is no position, which every reader has reached."""
    return ",".join(f"{place.partition}:{at}" for place, at in sorted(positions.items()))


def positions_of(topic: str, token: str) -> dict[Place, int]:
    """The positions in a token, the highest where a partition is named twice; `InvalidKey` shows what is no token."""
    if not token:
        return {}
    if _TOKEN.fullmatch(token) is None:
        raise InvalidKey(
            f"position {token!r}: expected 'partition:offset', several joined by commas, as in the view 'lag'"
        )
    found: dict[Place, int] = {}
    for one in token.split(","):
        partition, _, offset = one.partition(":")
        place = Place(topic, int(partition))
        found[place] = max(int(offset), found.get(place, 0))
    return found
