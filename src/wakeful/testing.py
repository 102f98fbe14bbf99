"""`wakeful.testing`: rehearse your workflows in milliseconds, without Kafka; see docs/testing.md."""

from .events.failures import KINDS
from .events.state import Hold
from .processors.testing.attempts import attempt
from .processors.testing.engine import StepAt
from .processors.testing.errors import Diverged, Held, Misuse, Refused
from .processors.testing.rehearsal import Rehearsal, rehearse
from .processors.testing.stage import NO_ANSWER, Called

__all__ = [
    "KINDS",
    "NO_ANSWER",
    "Called",
    "Diverged",
    "Held",
    "Hold",
    "Misuse",
    "Refused",
    "Rehearsal",
    "StepAt",
    "attempt",
    "rehearse",
]
