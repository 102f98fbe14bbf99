"""Whether what a person gives in an activity's or a turn's place is something that the workflow can read."""

from __future__ import annotations

from pydantic import ValidationError

from ..commands import models as m
from ..commands.check import Facts, Refusal
from ..commands.decisions import refused
from ..events import records as r
from ..events.blobs import BLOB_FAULTS, fetch
from ..events.payloads import JSON, keyed_digest
from ..events.replacing import replace
from ..events.state import State
from .activities.definitions import problems
from .app import App
from .stored_json import read_json


def fitting(
    state: State, command: m.Command, decided: list[r.EventBody], app: App, facts: Facts
) -> list[r.EventBody]:
    """What was decided, or a refusal: a result that a person gives must be one that the workflow can read.

    And the state that comes with a reset must be there, and be what its digest says.
    """
    match decided:
        case [r.ActivityResolved(result=r.Payload()) as resolved]:
            return _result(state, command, resolved, app, facts) or decided
        case [r.SessionReset(state=r.Payload() as left)]:
            return _state(command, left, facts) or decided
        case _:
            return decided


def _result(
    state: State, command: m.Command, resolved: r.ActivityResolved, app: App, facts: Facts
) -> list[r.EventBody]:
    names = (u.name for u in state.uncertain if u.activity_id == resolved.activity_id)
    activity = app.activities.get(next(names, ""))
    if activity is None or resolved.result is None:
        return []
    try:
        data = fetch(resolved.result, command.header.tenant, facts.digest_key, facts.blobs)
        read_json(activity.result_type, data)
    except ValidationError as error:
        told = f"the result is not one of {activity.name}: {problems(error)}"
        return [refused(command, Refusal("freshness", "wrong_result", told))]
    except BLOB_FAULTS as fault:
        told = f"{fault.message}: put it there, then resolve again"
        return [refused(command, Refusal("freshness", "payload_missing", told))]
    return []


def _state(command: m.Command, left: r.Payload, facts: Facts) -> list[r.EventBody]:
    """The digest that came with it is that of what the turn left; whether the bytes are those of the digest is seen here."""
    told = ""
    try:
        data = fetch(left, command.header.tenant, facts.digest_key, facts.blobs)
    except BLOB_FAULTS as fault:
        told = fault.message
    else:
        proved = r.Payload(JSON, data, None, keyed_digest(data, facts.digest_key), len(data), None)
        if replace(left, inline=data, ref=None) != proved:
            told = "the state that came with the reset is not what its digest says"
    if not told:
        return []
    told += ": give it as its TurnCompleted holds it, then reset again"
    return [refused(command, Refusal("freshness", "wrong_state", told))]
