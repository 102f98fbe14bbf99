"""Exit codes: what each ending of a command means to scripts and supervisors. They never change their meaning.

| code | name | meaning |
|---|---|---|
| 0 | DONE | it is done |
| 1 | REFUSED | the answer is no: a command was refused, a session failed, an audit found violations |
| 2 | USAGE | arguments or settings that cannot work; nothing was sent |
| 3 | NOT_FOUND | no such session, approval, key or topic |
| 4 | NOT_IN_TIME | no answer within the time given; what was sent may still be applied |
| 5 | UNAVAILABLE | no stack, or a broker or database that does not answer |
| 6 | APP | the app cannot be loaded |
| 7 | BUSY | somebody else does this already: a second supervisor in a home, a second run of a namespace, a second projector |
| 70 | FAULT | a fault of the engine or its client, or an activity that hangs; under a supervisor the process is started again |
| 130 | INTERRUPTED | Ctrl-C |
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """See the module."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_IN_TIME = 4
    UNAVAILABLE = 5
    APP = 6
    BUSY = 7
    FAULT = 70
    INTERRUPTED = 130


class Stopped(Exception):
    """A command ends here: the message is for stderr, in lower case, and names the next step."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
