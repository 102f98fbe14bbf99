"""Who asks, and what it may: an authenticated actor of one tenant, with the permissions of its roles.

Roles are coarse, and about this interface alone: who may decide which approval, policy says, at the decision and again
when the action is carried out.

| role | may |
|---|---|
| `viewer` | see sessions, approvals, ledger, refusals, lag |
| `user` | see; open sessions, send messages, signals, triggers |
| `approver` | see; decide approvals |
| `operator` | all of it, and cancel, release, recover, resolve, and deal with dead letters |
| `hook` | deliver webhooks and complete external jobs, and nothing else |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .problems import Problem


class May(StrEnum):
    """One permission."""

    SEE = "see"
    ASK = "ask"
    DECIDE = "decide"
    OPERATE = "operate"
    DELIVER = "deliver"


ROLES: dict[str, frozenset[May]] = {
    "viewer": frozenset({May.SEE}),
    "user": frozenset({May.SEE, May.ASK}),
    "approver": frozenset({May.SEE, May.DECIDE}),
    "operator": frozenset(May),
    "hook": frozenset({May.DELIVER}),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated actor. `channel` is how it came in, as events record it; `via` is the credential's id, for the log."""

    tenant: str
    actor: str
    permissions: frozenset[May]
    channel: str
    via: str

    def require(self, permission: May) -> None:
        """`Problem` 403 where it may not."""
        if permission not in self.permissions:
            roles = ", ".join(name for name, granted in ROLES.items() if permission in granted)
            raise Problem(
                403,
                "not_permitted",
                f"{self.actor} may not {permission.value} here: that needs one of the roles {roles}",
            )


def permissions_of(roles: Iterable[str]) -> frozenset[May]:
    """All that these roles may together; a role that is none of ours grants nothing."""
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))
