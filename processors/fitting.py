"""Whether what a person gives in an activity's place is something that the workflow can read."""

from __future__ import annotations

from pydantic import ValidationError

from ..commands import models as m
from ..commands.check import Facts, Refusal
from ..commands.decisions import refused
from ..events import records as r
from ..events.blobs import BLOB_FAULTS, fetch
from ..events.state import State
from .activities.definitions import problems
from .app import App
from .stored_json import read_json


def fitting(
    state: State, command: m.Command, decided: list[r.EventBody], app: App, facts: Facts
) -> list[r.EventBody]:
    """What was decided, or a refusal: a result that a person gives must be one that the workflow can read."""
    if len(decided) != 1 or not isinstance(decided[0], r.ActivityResolved):
        return decided
    resolved = decided[0]
    names = (u.name for u in state.uncertain if u.activity_id == resolved.activity_id)
    activity = app.activities.get(next(names, ""))
    if activity is None or resolved.result is None:
        return decided
    try:
        data = fetch(resolved.result, command.header.tenant, facts.digest_key, facts.blobs)
        read_json(activity.result_type, data)
    except ValidationError as error:
        told = f"the result is not one of {activity.name}: {problems(error)}"
        return [refused(command, Refusal("freshness", "wrong_result", told))]
    except BLOB_FAULTS as fault:
        told = f"{fault.message}: put it there, then resolve again"
        return [refused(command, Refusal("freshness", "payload_missing", told))]
    return decided
