"""What lies in the control topic: policy sets and rollouts, and which processor goes by which of them."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Version


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


@dataclass(frozen=True, slots=True)
class RolloutSet:
    """On which version of a workflow turns begin, from this record on: `percent` of sessions on `version`, others on `rest`.

    Without a `version` it is the highest that is loaded, as where nothing was ever set.
    """

    number: int
    set_at_ms: int
    set_by: str
    comment: str
    workflow: str
    version: int | None
    percent: int
    rest: int | None


@dataclass(frozen=True, slots=True)
class RolloutSeen:
    """A session processor begins turns by the rollouts up to this offset, on the versions that it has loaded."""

    processor: str
    rollout_offset: int
    loaded: tuple[Version, ...]
    seen_at_ms: int
