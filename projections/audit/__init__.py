"""The audit: what must hold of a history, checked from the topics and the views alone."""

from .checks import CHECKS, audit
from .evidence import Asked, Evidence, Violation, asked_by, evidence_from_log
from .rebuild import differences, rebuild_rows

__all__ = [
    "CHECKS",
    "Asked",
    "Evidence",
    "Violation",
    "asked_by",
    "audit",
    "differences",
    "evidence_from_log",
    "rebuild_rows",
]
