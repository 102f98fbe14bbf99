"""What each role's keys are for, and which roles have none left that counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..commands.keyring import ACTIVE, ROLES, Key

WITHOUT = {
    "client": ("what people ask for", "every command is refused before it is sent"),
    "worker": ("results", "workers stop"),
    "processor": ("wake-ups", "processors stop"),
    "publisher": ("policies", "none is published"),
}
"""Per role what its keys sign, and what comes of it where none does. A gateway's key is as good as a client's."""


def roles_over(keys: Iterable[Key], at_ms: int) -> list[str]:
    """Roles that have keys here, none of which is active at this moment."""
    had = tuple(keys)
    return [role for role in roles_of(had) if role not in roles_of(_active(had, at_ms))]


def roles_never(keys: Iterable[Key]) -> list[str]:
    """Roles that have no key here, active or not."""
    return [role for role in WITHOUT if role not in roles_of(keys)]


def roles_of(keys: Iterable[Key]) -> list[str]:
    """Roles for which a key is here, in whatever state; half a role counts for nothing."""
    kinds = [key.kinds for key in keys]
    return [role for role in WITHOUT if any(ROLES[role] <= one for one in kinds)]


def roles_for_all(keys: Iterable[Key], at_ms: int) -> list[str]:
    """Roles of which an active key signs for every tenant and in every name."""
    return roles_of(
        key for key in _active(keys, at_ms) if key.tenants is None and key.actor is None
    )


def told_narrowed(role: str) -> str:
    """What it means that this role has keys left, and none for all tenants and names."""
    signed, _ = WITHOUT[role]
    return (
        f"the keys that are left sign {signed} of some tenants or in some names only: what is for others waits or is "
        f"refused until 'wakeful keys new --role {role}'; see 'wakeful keys list'"
    )


def told(role: str) -> str:
    """What it means that this role has no active key left, with the next step."""
    signed, then = WITHOUT[role]
    return f"no key is left that signs {signed}: {then} until 'wakeful keys new --role {role}'"


def _active(keys: Iterable[Key], at_ms: int) -> list[Key]:
    """Public halves as well: whoever has the other half signs."""
    return [
        key
        for key in keys
        if key.status == ACTIVE and (key.not_after_ms is None or at_ms <= key.not_after_ms)
    ]
