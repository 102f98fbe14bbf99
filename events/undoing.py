"""What a state knows of the effects that a session may have to take back, and of how far it has come with that."""

from __future__ import annotations

from .freezing import dataclass
from .records import ChildEnd, Compensation, Failure

COMPENSATIONS_MAX = 100
"""Effects that a session remembers how to take back; a workflow that needs more says now and then that they stand."""

COMPENSATIONS_BYTES_MAX = 256 * 1024
"""Their arguments together: they lie in each snapshot."""


OPEN, DONE, PERHAPS = "open", "done", "perhaps"
"""What is known of an effect: its activity runs, it happened, or it may have happened."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What takes an effect back, should the session fail or be cancelled.

    `effect` is what is known of it: `open` while its activity is, `done`, or `perhaps` where it may have happened. While
    `over_by_ms` is there, an attempt that nobody wants any more may still run: until its worker says that it ended, or
    until then.
    """

    activity_id: str
    name: str
    attempt: int
    effect: str
    compensation: Compensation
    over_by_ms: int | None = None
    on_behalf_of: str | None = None
    contract: str = ""


@dataclass(frozen=True, slots=True)
class Undoing:
    """How far a session has come that takes back what it did, and then ends.

    `current` is the activity whose effect is being taken back, by `activity_id`, of which there were `attempts`. `failed`
    says why that did not take it back, until the session is held for it. `children` are those that have ended since.
    """

    cause: str
    failure: Failure | None
    done: tuple[str, ...]
    undone: tuple[str, ...]
    uncertain: tuple[str, ...]
    compensated: tuple[str, ...] = ()
    current: str | None = None
    activity_id: str | None = None
    attempts: int = 0
    failed: str = ""
    children: tuple[ChildEnd, ...] = ()
