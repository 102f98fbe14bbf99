"""What lies in the control topic: policy sets, and which processor decides by which of them."""

from __future__ import annotations

from ..freezing import dataclass


@dataclass(frozen=True, slots=True)
class RoleMembers:
    """Who has a role, in one tenant."""

    tenant: str
    role: str
    actors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolArgument:
    """An argument of a tool that policies may look at. `kind` is its type in Cedar: Long, String or Bool."""

    tool: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class PolicyPublished:
    """A policy set, in force from this record on: Cedar policies, who has which role, and what policies may know of arguments."""

    version: int
    published_at_ms: int
    published_by: str
    comment: str
    policies: str
    roles: tuple[RoleMembers, ...]
    arguments: tuple[ToolArgument, ...]


@dataclass(frozen=True, slots=True)
class PolicySeen:
    """A session processor decides by the policy set at this offset of the control topic, or by a later one."""

    processor: str
    policy_offset: int
    policy_hash: bytes | None
    seen_at_ms: int
