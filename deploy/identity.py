"""The keys of this process: whom it can vouch for, and, in a processor, whom it believes."""

from __future__ import annotations

import structlog

from ..commands.identity import INSECURE, Identity, Signed, Unchecked
from ..commands.keyring import FOR_ALL, ROLES, Keyring
from ..events.log.protocol import Log
from .exits import Exit, Stopped
from .keyfile import KeyFile
from .settings import Settings

logger = structlog.get_logger("wakeful.keys")

WITHOUT_KEYS = (
    "commands are signed here, and there are no keys: make some with 'wakeful keys new' ('wakeful up' does so for a "
    "local stack), name their file with WAKEFUL_KEYS, or set WAKEFUL_INSECURE=1 to believe everybody who can write to Kafka"
)


def identity_of(settings: Settings, log: Log, *, role: str | None = None) -> Identity:
    """What signs and judges in this process; `Stopped` where there are no keys and nobody said to do without.

    With a `role` also where no key there is would sign what that role says. `WAKEFUL_INSECURE=1` signs where it can,
    and believes everybody.
    """
    found = key_file(settings)
    if settings.insecure and role is not None:
        logger.warning("every command is believed: WAKEFUL_INSECURE=1 is set")
    if found is None:
        return INSECURE
    cluster_id = settings.cluster_id or log.cluster_id()
    if settings.insecure:
        return Unchecked(found.ring, cluster_id, newest=found.newest)
    if role is not None:
        _check_role(settings, found.ring(), role)
    return Signed(found.ring, cluster_id, newest=found.newest)


def key_file(settings: Settings) -> KeyFile | None:
    """The keyring; none where everybody is believed and there is none. `Stopped` as in `identity_of`."""
    if settings.keys is not None:
        return KeyFile(settings.keys)
    if not settings.insecure:
        raise Stopped(Exit.USAGE, WITHOUT_KEYS)
    return None


def judge_of(settings: Settings, log: Log) -> Identity:
    """What judges where somebody only looks: everybody is believed where there are no keys."""
    return INSECURE if settings.keys is None else identity_of(settings, log)


def _check_role(settings: Settings, ring: Keyring, role: str) -> None:
    kinds, for_all = ROLES[role], role in FOR_ALL
    if any(
        key.signs and kinds <= key.kinds and not (for_all and key.tenants is not None)
        for key in ring.keys
    ):
        return
    raise Stopped(
        Exit.USAGE,
        f"no key in {settings.keys} signs what a {role} says{' for all tenants' if for_all else ''}: make one with "
        f"'wakeful keys new --role {role}'",
    )
