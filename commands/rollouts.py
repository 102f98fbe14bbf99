"""Rollouts: on which version of its workflow a session's next turn begins. Pure.

Canaries are a share of sessions, by a hash of workflow, tenant and session: whichever version is rolled out, a session lies
in the same place, so that a higher percentage only adds sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType

from ..events.records import RolloutSet

PERCENT = 100

SET = "'wakeful rollout set NAME --version N'"

_DOMAIN = b"wakeful/rollout/1\0"


@dataclass(frozen=True, slots=True)
class Rollout:
    """What is in force for one workflow: the record that says so, and where it lies in the control topic."""

    said: RolloutSet
    offset: int

    def version_for(self, tenant: str, session_id: str) -> int | None:
        """The version for this session; null for the highest that is loaded."""
        said = self.said
        if said.version is None or place_of(said.workflow, tenant, session_id) < said.percent:
            return said.version
        return said.rest


Rollouts = Mapping[str, Rollout]
"""Those in force, by workflow."""

NO_ROLLOUTS: Rollouts = MappingProxyType({})


def place_of(workflow: str, tenant: str, session_id: str) -> int:
    """Where the session lies among all, from 0 to 99: for ever the same."""
    told = f"{workflow}\0{tenant}\0{session_id}".encode()
    return int.from_bytes(sha256(_DOMAIN + told).digest()[:8], "big") % PERCENT


def why_unusable(said: RolloutSet) -> str:
    """Why nobody can go by it; empty where one can."""
    if not said.workflow:
        return "it names no workflow"
    if said.version is None:
        return ""
    if said.version < 1 or (said.rest is not None and said.rest < 1):
        return f"it names version {said.version} and {said.rest}: versions count from 1"
    if not 0 <= said.percent <= PERCENT:
        return f"it is for {said.percent} per cent: from 0 to {PERCENT}"
    if said.percent < PERCENT and said.rest is None:
        return f"it is for {said.percent} per cent, and names no version for the rest"
    return ""
