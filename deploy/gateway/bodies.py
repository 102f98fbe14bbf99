"""What commands carry over HTTP. Unknown names are refused: a typo must not be taken for nothing said."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
)

from ...commands.check import NAME_LENGTH_MAX
from ...commands.inputs import SEQ_MAX
from ...commands.repairs import VERSION_MAX
from ...events.keys import ID_LENGTH_MAX
from ...events.limits import TEXT_MAX

Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX)]
Text = Annotated[str, Field(max_length=TEXT_MAX)]
SessionId = Annotated[
    str,
    Field(
        pattern=r"^(?:[A-Za-z0-9_:-]|\.[A-Za-z0-9_:-]|\.\.[A-Za-z0-9._:-])[A-Za-z0-9._:-]*$",
        max_length=ID_LENGTH_MAX,
        description="No path can have . or .. as a part, so no session is called that.",
    ),
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]


VALUE_SHOWN_MAX = 80
"""Characters of a value in a sentence."""


class Body(BaseModel):
    """See the module."""

    model_config = ConfigDict(extra="forbid")


class Opening(Body):
    """A session of this workflow; its id follows from the Idempotency-Key, or is random, where none is given.

    `attributes` is what it is to be found by, until its workflow says more.
    """

    workflow: Name
    session_id: SessionId | None = None
    attributes: dict[str, StrictBool | StrictInt | StrictFloat | StrictStr] = {}

    @field_validator("attributes", mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        """Refused in one sentence, and not once for each type that it is none of."""
        for name, value in given.items() if isinstance(given, dict) else ():
            if not isinstance(value, bool | int | float | str):
                told = json.dumps(value, ensure_ascii=False)[:VALUE_SHOWN_MAX]
                raise ValueError(  # noqa: TRY004 pydantic tells of it
                    f"{json.dumps(name)[:VALUE_SHOWN_MAX]} is {told}: use a text, a number, true or false"
                )
        return given


class Message(Body):
    """A message: text, or any JSON."""

    message: JsonValue


class Decision(Body):
    """`digest` is that of the action as it was shown. `data`: the arguments as they should be, or what to answer."""

    decision: Literal["approve", "reject", "edit", "respond"]
    digest: Digest
    comment: Text = ""
    data: JsonValue = None


class Signal(Body):
    """Data for the turn that asks for this name, now or later."""

    name: Name
    data: JsonValue = None


class Trigger(Body):
    """The kind of occasion that starts a turn, and what it was in words."""

    trigger: Name
    reason: Text = ""
    data: JsonValue = None


class Change(Body):
    """A thing outside, which the session relies on, and the version that it has now."""

    artifact_id: Name
    version: Name


class Reason(Body):
    """Why, for the record."""

    reason: Text = ""


class Recovery(Reason):
    """What has stalled: an attempt of an activity, or, where none is named, the session."""

    activity_id: Text = ""
    attempt: Annotated[StrictInt, Field(ge=0, le=SEQ_MAX)] = 0


class Reset(Reason):
    """The turn as whose end the session is to stand, 0 before the first.

    With `answers_again` the message of the turn that is open is answered again, from there.
    """

    to_turn: Annotated[StrictInt, Field(ge=0, le=SEQ_MAX)]
    answers_again: StrictBool = True


class Pin(Reason):
    """The version of its workflow on which the session's turns begin from now on; null takes a pin back."""

    version: Annotated[StrictInt, Field(ge=1, le=VERSION_MAX)] | None


class Resolution(Body):
    """What became of an activity of which nobody knew; `result` is what the tool would have returned."""

    resolution: Literal["completed", "failed"]
    result: JsonValue = None
    comment: Text = ""


class JobFailure(Body):
    """Why a job will not be done; `type` is a word for it, such as an error's class."""

    message: Text
    type: Annotated[str, Field(max_length=NAME_LENGTH_MAX)] = ""


class Completion(Body):
    """What became of an external job: its result, any JSON, or a failure."""

    result: JsonValue = None
    failure: JobFailure | None = None


class Accepted(BaseModel):
    """The log has the command; what becomes of it, `status_url` tells. `command_position` is its place in the log."""

    session_id: str
    command_id: str
    status_url: str
    command_position: str


class Fate(Accepted):
    """What became of a command.

    `applied`; `refused`; `kept`: its session is held, and decides it once released; `held`: released, and held again at
    once; `repeat`: nothing changed, the session has had it before; `undecided`: ask again. `position` is for reads that
    shall show it.
    """

    state: Literal["applied", "refused", "kept", "held", "repeat", "undecided"]
    reason: str | None = None
    detail: str | None = None
    next_step: str | None = None
    position: str | None = None
