"""The words of the five contracts, as requests and tasks hold them, and which of them go where."""

from __future__ import annotations

READ = "read"
IDEMPOTENT = "write_idempotent"
LOOKUP = "write_lookup"
UNDO = "write_undo"
AT_MOST_ONCE = "write_once"

ONCE = frozenset({UNDO, AT_MOST_ONCE})
"""Their tasks go to the queue's `.once` topic, where a worker commits before it runs."""
