"""How large one record may be, in bytes: payloads, values, and what the topics allow around them."""

from __future__ import annotations

KIB = 1024

PAYLOAD_MAX = 256 * KIB
"""User data in one record; more is stored elsewhere and referenced."""

BLOB_MAX = 64 * 1024 * KIB
"""User data behind a reference: it is read whole, into the memory of whoever reads it."""

COMMAND_MAX = 512 * KIB
"""A payload, a failure's texts, and what is around them."""

TASK_MAX = 512 * KIB
OUTCOME_MAX = 512 * KIB

EVENT_MAX = 1024 * KIB
"""Above a command's limit, since `CommandParked` holds a whole command."""

CONTROL_MAX = 1024 * KIB
"""A policy set with all its roles; processors hold it whole."""

WATCHED_MAX = 1024 * KIB
"""A row of a watcher: what it remembers of a session names the activities in flight."""

SNAPSHOT_MAX = 8 * 1024 * KIB
"""A state holds its queued messages and parked commands."""

OVERHEAD_MAX = 16 * KIB
"""Key, headers and batch framing, which brokers count too."""

RECORD_BYTES_MAX = SNAPSHOT_MAX + OVERHEAD_MAX
"""The client's limit, for the largest record of any topic. Codecs keep each kind below its own topic's."""

TEXT_MAX = 16 * KIB
"""Characters of a free text such as an error's message."""

TEXT_BYTES_MAX = 4 * TEXT_MAX
"""The same in a command, in bytes."""

NAME_BYTES_MAX = KIB
"""Any other text of a command (ids, actor, channel): copied into each event it leads to, and into dedupe."""

ITEMS_MAX = 10_000
"""Items in all arrays of one record: reading them stays below 50 ms. One of many values counts for several."""

VALUES_PER_ITEM = 4
"""Values, those of records inside it included, that are one item's worth."""


def item_weight(values: int) -> int:
    """For how many an item of so many values counts; writers and readers ask the same."""
    return max(1, values // VALUES_PER_ITEM)


INBOX_BYTES_MAX = EVENT_MAX // 2
"""Messages that one look into the inbox takes, in bytes: they lie in one event. More wait for the next look."""

KEPT_COMMANDS_MAX = 1_000
"""Messages in a session's queue and commands kept while it is held, together; more are refused."""

KEPT_BYTES_MAX = 4 * 1024 * KIB
"""The same in bytes: with it, a state stays below what a snapshot may hold."""

RESULTS_SPARE = 64
RESULTS_BYTES_SPARE = 1024 * KIB
"""Room beyond these for workers' results while a session is held, so that no flood of messages displaces one."""
