"""Whether a session may be opened: by whoever asks for one, or as a child of another."""

from __future__ import annotations

from ..events.attributes import why_not
from ..events.keys import why_unreachable
from ..events.records import Attribute
from . import children
from . import models as m
from .check import Refusal


def check_unknown(command: m.Command, workflows: frozenset[str], now_ms: int) -> Refusal | None:
    """The check for a session that does not exist: it can only be opened, with a workflow that is loaded."""
    header, body = command.header, command.body
    if isinstance(body, m.StartChild):
        refused = children.why_not_started(body, workflows, now_ms)
        return Refusal(*refused) if refused else _attributes(body.attributes)
    if not isinstance(body, m.OpenSession | m.StartRun):
        return Refusal(
            "scope",
            "unknown_session",
            f"there is no session {header.session_id!r} of tenant {header.tenant!r}: open it first",
        )
    if told := why_unreachable(header.session_id):
        return Refusal("scope", "invalid_session_id", told)
    if body.workflow not in workflows:
        told = f"no workflow {body.workflow!r} is loaded here (loaded: {children.named(workflows)}): open one of these, or load it"
        return Refusal("scope", "unknown_workflow", told)
    return _attributes(body.attributes)


def _attributes(given: tuple[Attribute, ...]) -> Refusal | None:
    told = why_not(given)
    return Refusal("scope", "invalid_attribute", told) if told else None
