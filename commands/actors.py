"""Names that the engine speaks in, which nobody else may."""

from __future__ import annotations

ENGINE = "engine"
"""The actor of facts that nobody asked for: expiries, parks, holds."""

WORKFLOW = "workflow:"
"""How the name of a workflow begins, where it asks for something."""

WORKER = "worker:"
"""How the name of a worker begins, where it reports a result."""


def is_reserved(actor: str) -> bool:
    """Whether this is how the engine calls itself, a workflow or a worker."""
    return actor == ENGINE or actor.startswith((WORKFLOW, WORKER))
