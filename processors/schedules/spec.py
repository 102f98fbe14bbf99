"""What a schedule is: when it is due, what it sets to work, and what becomes of times that were missed."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from ...commands.check import NAME_LENGTH_MAX
from ...events.errors import InvalidKey
from ...events.keys import check_id, why_unreachable
from ...events.shown import shown
from ..activities.definitions import problems
from .times import BadTime, check_cron, next_after, to_ms, zone_of

WORKFLOW = "wakeful.schedule"
"""The built-in workflow whose sessions are schedules."""

TRIGGER = "schedule"
"""The kind of occasion of each run."""

CONTROL = "schedule"
"""The signal by which a schedule is paused, resumed and triggered."""

BY_NAME, SCHEDULED_BY, DUE, NEXT, PAUSED = "schedule", "scheduled_by", "due", "next", "paused"
"""Attributes: of a schedule its name, when it is due next, whether it is paused; of a run whose it is, and in a session of its own for when."""

CAUGHT_UP_MAX = 100
"""Runs that one schedule catches up on at once, the last ones; what was missed before them is skipped, and said."""

NAME_MAX = 64

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class Spec(BaseModel):
    """What a schedule is opened with, as the first message of its session."""

    model_config = ConfigDict(extra="forbid")

    name: str
    cron: str
    timezone: str = "UTC"
    workflow: str
    session: str | None = None
    data: Any = None
    catch_up: Literal["none", "last", "all"] = "last"
    overlap: Literal["skip", "allow"] | None = None
    until: AwareDatetime | None = None


class Control(BaseModel):
    """What a schedule is told later."""

    do: Literal["pause", "resume", "trigger"]


class BadSpec(ValueError):
    """What cannot be a schedule; says why not, and what can."""


def read_spec(given: Any, now_ms: int) -> Spec:
    """The schedule that this describes; `BadSpec` names the value that cannot be."""
    try:
        spec = Spec.model_validate(given)
        check_cron(spec.cron)
        zone_of(spec.timezone)
    except ValidationError as error:
        raise BadSpec(problems(error)) from error
    except BadTime as error:
        raise BadSpec(str(error)) from error
    if told := _why_not(spec):
        raise BadSpec(told)
    if first_due(spec, now_ms) is None:
        raise BadSpec(f"it is never due before {spec.until}: give a later end, or none")
    return spec


def first_due(spec: Spec, after_ms: int) -> int | None:
    """When it is due next; none where that would be past its end."""
    due_ms = next_after(spec.cron, spec.timezone, after_ms)
    if due_ms is None or (spec.until is not None and due_ms > to_ms(spec.until)):
        return None
    return due_ms


def schedule_id(name: str, generation: int) -> str:
    """The id of the session of a schedule. One that has ended keeps it: the next of that name is the next generation."""
    return f"schedule.{name}" if generation == 1 else f"schedule.{name}.{generation}"


def why_no_name(name: str) -> str:
    """Why no schedule may have this name, in words; nothing where one may."""
    if len(name) <= NAME_MAX and _NAME.fullmatch(name):
        return ""
    return f"name {shown(name, 80)}: use letters, digits, '.', '_' and '-', {NAME_MAX} at most"


def _no_session(session_id: str) -> str:
    try:
        return why_unreachable(check_id("session id", session_id))
    except InvalidKey as error:
        return error.message


def _why_not(spec: Spec) -> str:
    if told := why_no_name(spec.name):
        return told
    if not 1 <= len(spec.workflow) <= NAME_LENGTH_MAX or not spec.workflow.isprintable():
        return (
            f"workflow {shown(spec.workflow, 80)}: use 1 to {NAME_LENGTH_MAX} printable characters"
        )
    if spec.workflow == WORKFLOW:
        return f"workflow {WORKFLOW!r} is that of schedules themselves: name one of yours"
    if spec.session is not None and (told := _no_session(spec.session)):
        return told
    if spec.session is None and spec.overlap == "skip":
        return "overlap 'skip' is for a named session: each run has a session of its own otherwise, so none is in the way"
    return ""
