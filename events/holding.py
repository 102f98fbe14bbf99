"""What a state knows of the resources that a session holds, or held last."""

from __future__ import annotations

from .freezing import dataclass
from .records import Compensation, Payload

RESOURCES_MAX = 16
"""Kinds that a session holds at once. Of those that are gone it remembers as many handles as there is room beside these."""

HANDLE_BYTES_MAX = 16 * 1024
"""Of a handle, and of the arguments that give it back: they lie in each snapshot. A handle is an address, and no data."""

LOST = "lost"
"""A tool has found it gone."""

SESSION_ENDED = "the session ended"
"""Nobody is there to hold it."""

RESOURCE = "resource"
"""The kind of the obligation: it expires, and nobody waits for it."""


@dataclass(frozen=True, slots=True)
class HeldResource:
    """One kind of resource: what is held of it, or, where it is `gone`, what was held last.

    `release` gives it back, on behalf of whoever it was set up for.
    """

    resource_id: str
    kind: str
    turn: int
    step: int
    handle: Payload
    expires_at_ms: int
    release: Compensation | None = None
    on_behalf_of: str | None = None
    gone: bool = False
