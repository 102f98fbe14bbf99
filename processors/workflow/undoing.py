"""Runs an action, and takes it back where it has an undo and nobody knows whether it was carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...events.contracts import UNDO
from ...events.payloads import storable_text
from ...events.records import Failure, Payload
from ..activities.definitions import Action
from .engine import Engine
from .errors import ActivityError, Uncertain


async def run_or_undo(
    live: Callable[[], Engine], action: Action[Any], on_uncertain: str, compensate: object
) -> Payload:
    """The action's result as stored. The undo is a step like any other: recorded, and replayed."""
    undoes = action.activity.contract.word == UNDO and on_uncertain == "wait"
    asked = "raise" if undoes else on_uncertain
    try:
        result: Payload = await live().run(action, on_uncertain=asked, compensate=compensate)
    except Uncertain as uncertain:
        if undoes:
            await _undo(live, action, uncertain)
        raise
    return result


async def _undo(live: Callable[[], Engine], action: Action[Any], uncertain: Uncertain) -> NoReturn:
    undo = action.activity.undo_action(action.arguments, uncertain.key)
    reason = uncertain.reason
    doubt = f"nobody knows whether it was carried out ({reason.kind}: {reason.message})"
    name = undo.activity.name
    try:
        await live().undo(undo)
    except ActivityError as error:
        told = f"{doubt}, and its undo {name} ended without a result ({error.failure.kind}: {error.failure.message})"
        raise Uncertain(action.activity.name, reason, key=uncertain.key, told=told) from error
    told = storable_text(f"{doubt}, so it was undone by {name}")
    raise ActivityError(action.activity.name, Failure("undone", "", told, "")) from uncertain
