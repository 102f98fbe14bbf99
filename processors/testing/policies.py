"""A policy set for a rehearsal: the default set and what a test adds to it, checked as `wakeful policy publish` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...commands.policy import Policy
from ...events import records as r
from ..policies.cedar import load
from ..policies.sets import default_policies, problems
from .engine import TENANT
from .errors import Misuse
from .given import shown, text

Roles = Mapping[str, Sequence[str]]
Arguments = Mapping[str, Mapping[str, str]]


def policy_of(policies: str, roles: Roles, arguments: Arguments) -> Policy:
    """The set to decide by; `Misuse` says all that is wrong with it."""
    for what, given in (("roles", roles), ("arguments", arguments)):
        if not isinstance(given, Mapping):
            raise Misuse(f"{what}= is a mapping, such as {_SUCH_AS[what]}, got {shown(given)}")
    for role, actors in roles.items():
        if isinstance(actors, str):
            raise Misuse(f"role {role!r} is had by several: give [{actors!r}], a list of names")
    published = r.PolicyPublished(
        version=1,
        published_at_ms=0,
        published_by="",
        comment="",
        policies=f"{default_policies()}\n{text('policies', policies)}",
        roles=tuple(r.RoleMembers(TENANT, role, tuple(actors)) for role, actors in roles.items()),
        arguments=tuple(
            r.ToolArgument(tool, name, kind)
            for tool, kinds in arguments.items()
            for name, kind in kinds.items()
        ),
    )
    wrong = [" ".join(filter(None, (one.policy_id, one.told))) for one in problems(published)]
    if wrong:
        raise Misuse(f"these policies cannot be published: {'; '.join(wrong)}")
    return load(published)


_SUCH_AS = {
    "roles": "{'supervisor': ['sue']}",
    "arguments": "{'refund': {'cents': 'Long'}}",
}
