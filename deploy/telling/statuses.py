"""The statuses of a session as a type, for schemas of what is asked over HTTP and over MCP; `events.state.Status` says what they mean."""

from __future__ import annotations

from typing import Literal

StatusName = Literal[
    "Opened",
    "Running",
    "Waiting",
    "Suspended",
    "Recovering",
    "Compensating",
    "Completed",
    "Failed",
    "Cancelled",
]
