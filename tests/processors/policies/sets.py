"""Sets and questions for the tests of policies."""

from typing import Any

from wakeful.commands.policy import Deciding, Executing, Question
from wakeful.events import records as r
from wakeful.processors.policies.sets import default_policies

SUPERVISORS = (r.RoleMembers("acme", "supervisor", ("sue", "ann")),)
CENTS = (r.ToolArgument("refund", "cents", "Long"),)


def published(
    policies: str = "",
    *,
    default: bool = True,
    roles: tuple[r.RoleMembers, ...] = SUPERVISORS,
    arguments: tuple[r.ToolArgument, ...] = (),
) -> r.PolicyPublished:
    """A set: the default policies, and these."""
    text = (default_policies() if default else "") + policies
    return r.PolicyPublished(1, 0, "root", "", text, roles, arguments)


def deciding(
    actor: str, *, on_behalf_of: str | None = None, tenant: str = "acme", **said: Any
) -> Question:
    """May this actor decide? Asked for by ann, of a supervisor, unless said otherwise."""
    act = {
        "decision": "approve",
        "tool": "refund",
        "contract": "write_idempotent",
        "workflow": "desk",
        "arguments": None,
        "approver": "supervisor",
        "requester": "ann",
        **said,
    }
    return Question(tenant, actor, on_behalf_of, "cli", Deciding(**act))


def executing(**said: Any) -> Question:
    """May a refund be carried out for ann?"""
    act = {
        "tool": "refund",
        "contract": "write_idempotent",
        "workflow": "desk",
        "arguments": None,
        "requester": "ann",
        **said,
    }
    return Question("acme", "ann", None, "engine", Executing(**act))
