"""What a rehearsal raises, by whose fault it is.

```
WakefulError
├── Rejected
│   ├── Misuse    the test asks for what cannot be: nothing is open, no such activity, a fake that does not fit
│   └── Refused   the engine refused the command, as it would in production
├── Held          the session was held: its workflow raised, did what no workflow may, or took another path
└── Diverged      a command that was handled again after a crash led to other facts
```
"""

from __future__ import annotations

from ...events.errors import Rejected, WakefulError


class Misuse(Rejected):
    """The test asks for what cannot be; says what is there, and what may come next."""


class Refused(Rejected):
    """The engine refused the command; `reason` is its one word, as in `CommandRefused`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"refused ({reason}): {detail}")
        self.reason = reason
        self.detail = detail


class Held(WakefulError):
    """The session cannot go on; `reason` and `detail` are those of the hold. The rehearsal itself can."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"the session is held ({reason}): {detail}")
        self.reason = reason
        self.detail = detail


class Diverged(WakefulError):
    """The workflow is not a function of its history: done again after a crash, it asked for something else."""
