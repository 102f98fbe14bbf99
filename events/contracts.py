"""The words of the contracts as they are stored in requests and tasks, and what follows from them for topics and doubts."""

from __future__ import annotations

READ = "read"
"""It changes nothing."""

IDEMPOTENT = "write_idempotent"
"""It honours its key: it may be called again with the same one."""

LOOKUP = "write_lookup"
"""What an earlier call of it has done can be looked up."""

UNDO = "write_undo"
"""It is called once; where nobody knows what came of it, another activity undoes it."""

AT_MOST_ONCE = "write_once"
"""It is called once; where nobody knows what came of it, a workflow or a person decides."""

ONCE = frozenset({UNDO, AT_MOST_ONCE})
"""Those whose tasks go to the `.once` topic of their queue."""

WAIT = "wait"
"""Where nobody knows whether it was done, its session waits for a resolution."""

RAISE = "raise"
"""There, its workflow is told at once, and decides by itself."""
