"""Which version of its workflow a session's next turn begins on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...commands.rollouts import Rollouts
from ...events import freezing
from ...events import records as r
from ...events.state import State
from .definitions import Workflow

MISSING = "workflow_missing"


class Workflows(Protocol):
    """The workflows that are loaded, by name and version."""

    def versions(self, workflow: str) -> list[int]: ...
    def version(self, workflow: str, version: int) -> Workflow[Any] | None: ...


@freezing.dataclass(frozen=True, slots=True)
class Position:
    """One session as `advance` sees it: after `journal[-1]` was folded in; `journal` begins with what started the stretch."""

    tenant: str
    session_id: str
    state: State
    journal: Sequence[r.Event]


Chosen = tuple[Workflow[Any], int | None]
"""The workflow in its version, and where the rollout lies that gave it."""


def choose(workflows: Workflows, position: Position, rollouts: Rollouts) -> Chosen | r.SessionHeld:
    """That of the pin, else that of the rollout, else the highest that is loaded; a hold where it is not loaded.

    A turn that has begun never asks again: its TurnStarted holds the answer.
    """
    name, pinned = position.state.workflow, position.state.pinned
    loaded = workflows.versions(name)
    if not loaded:
        told = f"no workflow {name!r} is loaded: deploy it, then release"
        return r.SessionHeld(MISSING, told)
    version, offset, whose, instead = max(loaded), None, "", ""
    rollout = rollouts.get(name)
    if pinned:
        version, whose = pinned, "the session is pinned to"
        instead = "or take the pin back with 'wakeful repair pin --unpin'"
    elif rollout is not None:
        given = rollout.version_for(position.tenant, position.session_id)
        version = version if given is None else given
        offset = rollout.offset
        whose = f"the rollout at control offset {offset} gives it"
        instead = f"or set another with 'wakeful rollout set {name}'"
    workflow = workflows.version(name, version)
    if workflow is not None:
        return workflow, offset
    told = (
        f"{whose} version {version} of workflow {name!r}, which is not loaded here (loaded: "
        f"{', '.join(map(str, loaded))}): deploy it, {instead}, then release"
    )
    return r.SessionHeld(MISSING, told)
