"""The words in which people decide and resolve, and those for how a proposal or an activity ended, as they are stored."""

from __future__ import annotations

APPROVE = "approve"
REJECT = "reject"

EDIT = "edit"
RESPOND = "respond"

DECISIONS = (APPROVE, REJECT, EDIT, RESPOND)
"""What a command says of a proposal."""

APPROVED = "approved"
REJECTED = "rejected"
EXPIRED = "expired"
ANSWERED = "answered"
VOIDED = "voided"
WITHDRAWN = "withdrawn"
"""How a proposal ended: expired by nobody's doing, answered without a verdict, voided since it was no longer the one
that was shown, withdrawn since nobody asks any more."""

GRANTED = "granted"
EXEMPT = "exempt"
UNGATED = "none"
"""What a request says of its approval: it had one, its rule asked nobody for these arguments, it has no rule."""

COMPLETED = "completed"
FAILED = "failed"

RESOLUTIONS = (COMPLETED, FAILED)
"""What somebody says of an activity of which nobody knew whether it was done; ends of activities, too."""

CANCELLED = "cancelled"
UNCERTAIN = "uncertain"
"""The other two ends: not wanted any more, and nobody knows."""

REFUSE = "refuse"
SKIP = "skip"
QUEUE = "queue"

WHERE_OPEN = (REFUSE, SKIP, QUEUE)
"""What becomes of a run where its session is there: it was to have one of its own; it is skipped while a turn of that one is
open or queued; it queues like a message."""
