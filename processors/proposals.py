"""What the fifth check goes by, looked up by the shell: the proposal that a command decides, and its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..commands import models as m
from ..commands.authority import Authority
from ..commands.check import Facts
from ..events import records as r
from ..events.blobs import BLOB_FAULTS, fetch
from .session import Session


def authority_for(session: Session, command: m.Command, facts: Facts) -> Authority:
    """The policy in force, and what is proposed, where the command decides a proposal of the open stretch."""
    if not isinstance(command.body, m.DecideApproval):
        return Authority(facts.policy)
    wanted = command.body.proposal_id
    for event in reversed(session.journal):
        body = event.body
        if isinstance(body, r.ApprovalRequested) and body.proposal_id == wanted:
            return Authority(facts.policy, body, _arguments(body, session.tenant, facts))
    return Authority(facts.policy)


def _arguments(body: r.ApprovalRequested, tenant: str, facts: Facts) -> Mapping[str, Any] | None:
    """Null where the policy does not ask, and where they cannot be read: a policy that asks denies then."""
    if not facts.policy.wants_arguments(body.name):
        return None
    try:
        read = json.loads(fetch(body.arguments, tenant, facts.digest_key, facts.blobs))
    except (*BLOB_FAULTS, ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None
