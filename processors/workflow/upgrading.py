"""A state that a turn has left, read by the version of its workflow that goes on with it.

Versions go forward and back, so whichever version has left the state, the one that reads it does so: as it is where every
field fits, else by its `upgrade`. A field that would be lost without a word is an error, and named.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from ...events.errors import InvalidPayload, OwnSignal
from ...events.payloads import canonical_json
from ...events.shown import shown, worded
from ..activities.definitions import problems
from ..stored_json import Path, field_at, json_value, read_json
from .definitions import Workflow


class StateUnreadable(Exception):
    """The state cannot be read; says which field, and what to do."""


def read_state(workflow: Workflow[Any], data: bytes, left_by: int) -> Any:
    """The state in stored JSON that version `left_by` has left (0: not known). Raises `StateUnreadable`.

    An upgrade is a user's function, asked in each replay: what it raises is told, with its line.
    """
    if left_by not in (0, workflow.version) and workflow.upgrade is not None:
        return _upgraded(workflow, data, left_by)
    state = _read(workflow, data, left_by)
    if left_by not in (0, workflow.version):
        lost = _lost_at(json.loads(data), json_value(workflow.state_type, state), ())
        if lost is not None:
            raise StateUnreadable(_told(workflow, left_by, f"{field_at(lost)} would be lost"))
    return state


def _read(workflow: Workflow[Any], data: bytes, left_by: int) -> Any:
    try:
        return read_json(workflow.state_type, data)
    except ValidationError as error:
        raise StateUnreadable(_told(workflow, left_by, problems(error))) from error


def _upgraded(workflow: Workflow[Any], data: bytes, left_by: int) -> Any:
    try:
        made = workflow.upgrade(json.loads(data), left_by) if workflow.upgrade else None
    except OwnSignal:
        raise
    except Exception as error:
        told = f"its upgrade raised {worded(error)}{_where(error)}"
        raise StateUnreadable(_told(workflow, left_by, told)) from error
    if isinstance(made, workflow.state_class):
        return made
    try:
        return read_json(workflow.state_type, canonical_json(made))
    except ValidationError as error:
        told = f"its upgrade gave what does not fit: {problems(error)}"
    except InvalidPayload:
        told = f"its upgrade gave {shown(made)}: let it return the {workflow.state_class.__name__}, or its JSON"
    raise StateUnreadable(_told(workflow, left_by, told))


def _told(workflow: Workflow[Any], left_by: int, why: str) -> str:
    kind = workflow.state_class.__name__
    this = f"workflow {workflow.name} version {workflow.version}"
    if left_by in (0, workflow.version):
        return (
            f"{this} does not read the {kind} that it has left itself ({why}): let {kind} read what is stored, "
            "deploy it, then release"
        )
    return (
        f"{this} does not read the state that version {left_by} has left as its {kind} ({why}): give it "
        f"@workflow(…, upgrade=…) that makes one of what version {left_by} leaves and deploy it, or go on with version "
        f"{left_by} (pin the session, then reset it), then release"
    )


def _where(error: BaseException) -> str:
    """The last line of the user's code that it came through."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" (line {trace.tb_lineno} of {trace.tb_frame.f_code.co_name})"


def _lost_at(stored: Any, written: Any, at: Path) -> Path | None:
    """The first field of the stored JSON that is not in what was read of it."""
    if isinstance(stored, dict) and isinstance(written, dict):
        for name, value in stored.items():
            if name not in written:
                return (*at, name)
            lost = _lost_at(value, written[name], (*at, name))
            if lost is not None:
                return lost
    elif isinstance(stored, list) and isinstance(written, list):
        for number, (one, other) in enumerate(zip(stored, written, strict=False)):
            lost = _lost_at(one, other, (*at, number))
            if lost is not None:
                return lost
    return None
