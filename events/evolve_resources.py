"""What facts about resources mean for the session that holds them. They outlive turns, and end with the session at last."""

from __future__ import annotations

from . import records as r
from .errors import Unfoldable
from .holding import RESOURCES_MAX, SESSION_ENDED, HeldResource
from .replacing import replace
from .state import State
from .undoing import DONE, Registered

Attaches = r.ResourceAttached | r.ResourceReattached
Resource = Attaches | r.ResourceExpired | r.ResourceReleased


def evolve(state: State, body: Resource, on_behalf_of: str | None) -> State:
    """The state after one more fact about a resource; none of them moves a session."""
    if isinstance(body, Attaches):
        return _attached(state, body, on_behalf_of)
    held = next((one for one in state.resources if one.resource_id == body.resource_id), None)
    if held is None or held.gone:
        raise Unfoldable(f"resource {body.kind} ({body.resource_id}) ends, but was not held")
    left = tuple(one for one in state.resources if one is not held)
    if isinstance(body, r.ResourceReleased):
        return replace(state, resources=left, steps=body.step)
    if body.reason == SESSION_ENDED:
        return replace(state, resources=left, registered=(*given_back([held]), *state.registered))
    gone = replace(held, gone=True, release=None)
    return replace(state, resources=tuple(gone if one is held else one for one in state.resources))


def given_back(held: list[HeldResource]) -> tuple[Registered, ...]:
    """These as effects that are taken back, as far as somebody said how."""
    return tuple(
        Registered(one.resource_id, one.kind, 1, DONE, one.release, on_behalf_of=one.on_behalf_of)
        for one in held
        if one.release is not None and not one.gone
    )


def _attached(state: State, body: Attaches, on_behalf_of: str | None) -> State:
    if any(one.kind == body.kind and not one.gone for one in state.resources):
        raise Unfoldable(f"resource {body.kind} ({body.resource_id}) is attached, and one is held")
    others = [one for one in state.resources if one.kind != body.kind]
    while len(others) >= RESOURCES_MAX:
        others.pop(next((at for at, one in enumerate(others) if one.gone), 0))
    held = HeldResource(
        body.resource_id,
        body.kind,
        body.turn,
        body.step,
        body.handle,
        body.expires_at_ms,
        body.release,
        on_behalf_of,
    )
    return replace(state, resources=(*others, held), steps=body.step)
