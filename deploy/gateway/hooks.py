"""Hooks: who else may send signals or complete external jobs, each by its own secret or keys. A file, read again when it changes.

```json
{"hooks": {"payments": {"tenant": "local", "session": "{/order/id}", "signal": "paid", "secret": "32 characters or more"}}}
```

| member | what |
|---|---|
| `tenant` | whose sessions |
| `session` | the session's id; `{/order/id}` is a JSON pointer into the body |
| `signal` | the signal's name |
| `job` | instead of both: the id of an external job, made like the session's; the body is its result |
| `failure` | with it: a JSON pointer; where the body has a text there, the job has failed with it |
| `secret` | what a delivery is signed with (HMAC-SHA-256); a list while it is being replaced |
| `jwks` | instead of it: the public keys of a detached JWS |
| `bearer` | instead of both: true, for a sender that shows an API key of this tenant with the role `hook` and signs nothing |
| `tolerance_s` | how old a delivery may be; default 300, at most 3600 |
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from joserfc.jwk import KeySet
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from ...commands import inputs
from ...events.errors import InvalidKey
from ...events.keys import check_id
from ..exits import Exit, Stopped
from .algorithms import public_keys
from .problems import Problem
from .rereading import Reread

SECRET_CHARACTERS_MIN = 32

TOLERANCE_MAX_S = 3_600
"""Less than what a session remembers of its commands, so that nothing old enough to be forgotten is let in."""

UNNAMED = {"session": "unknown_session", "job": "unknown_job"}
"""The problem of a delivery that does not say which one it is about."""

_POINTER = re.compile(r"\{((?:/[^/{}]+)+)\}")


class Hook(BaseModel):
    """See the module."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    tenant: str
    session: Annotated[str, Field(max_length=400)] = ""
    signal: str = ""
    job: Annotated[str, Field(max_length=400)] = ""
    failure: Annotated[str, Field(pattern=r"^(/[^/]+)*$", max_length=400)] = ""
    secret: tuple[SecretStr, ...] = ()
    jwks: KeySet | None = None
    bearer: bool = False
    tolerance_s: int = Field(default=300, ge=1, le=TOLERANCE_MAX_S)

    @field_validator("tenant")
    @classmethod
    def _tenant(cls, value: str) -> str:
        return check_id("tenant", value)

    @field_validator("signal")
    @classmethod
    def _signal(cls, value: str) -> str:
        return inputs.name("signal", value) if value else value

    @field_validator("secret", mode="before")
    @classmethod
    def _secret(cls, value: Any) -> Any:
        found = [value] if isinstance(value, str) else value
        if isinstance(found, list):
            for one in found:
                if not isinstance(one, str) or len(one) < SECRET_CHARACTERS_MIN:
                    raise ValueError(f"a secret has {SECRET_CHARACTERS_MIN} characters or more")
        return found

    @field_validator("jwks", mode="before")
    @classmethod
    def _jwks(cls, value: Any) -> Any:
        try:
            found = public_keys(value)
        except KeyError:
            raise ValueError("it is no JWK set: give {'keys': [...]}") from None
        if any(key.is_private for key in found.keys):
            raise ValueError("it has private keys: give the public halves alone")
        return found

    @model_validator(mode="after")
    def _signed(self) -> Hook:
        if [bool(self.secret), self.jwks is not None, self.bearer].count(True) != 1:
            raise ValueError(
                "give one of secret, jwks and bearer: somebody must vouch for a delivery"
            )
        return self

    @model_validator(mode="after")
    def _aimed(self) -> Hook:
        if bool(self.session) != bool(self.signal) or bool(self.signal) == bool(self.job):
            raise ValueError("give session and signal, or job: what is a delivery for?")
        if self.failure and not self.job:
            raise ValueError("failure goes with job: a signal has its whole body")
        return self

    def job_of(self, body: Any) -> str:
        """The id of the job that this delivery is about; `Problem` 422 where the body does not say."""
        return _filled("job", self.job, body)

    def failure_of(self, body: Any) -> str | None:
        """Why the job has failed, by this delivery; null where it says nothing of the kind."""
        found = _at(body, self.failure) if self.failure else None
        return found if isinstance(found, str) and found else None

    def session_of(self, body: Any) -> str:
        """The id of the session that this delivery is for; `Problem` 422 where the body does not say."""
        return check_id("session id", _filled("session", self.session, body))


class Hooks(Reread[dict[str, Hook]]):
    """The hooks of a file, as they are now; none where there is no file."""

    def __init__(self, path: Path | None) -> None:
        """`Stopped` says what is wrong with the file."""
        super().__init__(path, read_hooks, {})

    def find(self, name: str) -> Hook | None:
        """The hook of this name."""
        return self.now().get(name)


def read_hooks(path: Path) -> dict[str, Hook]:
    """The hooks in this file, by name; `Stopped` where it is damaged, without a secret in the sentence."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["hooks"]
        return {inputs.name("hook", name): Hook.model_validate(row) for name, row in rows.items()}
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)[0]
        told = f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidKey) as error:
        told = str(error)
    raise Stopped(Exit.USAGE, f"the hooks in {path} cannot be used ({told}): mend the file")


class _Nothing:
    """What is where nothing is."""


def _at(body: Any, pointer: str) -> Any:
    value = body
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            return _Nothing
    return value


def _filled(what: str, template: str, body: Any) -> str:
    """The id of a session or a job, with what the body has at the template's pointers."""
    return _POINTER.sub(lambda match: _text_at(what, body, match[1]), template)


def _text_at(what: str, body: Any, pointer: str) -> str:
    value = _at(body, pointer)
    if value is _Nothing:
        raise _unnamed(what, pointer, "there is nothing")
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise _unnamed(what, pointer, f"there is {_kind(value)} and no text")


def _unnamed(what: str, pointer: str, why: str) -> Problem:
    told = f"this hook takes the {what} from {pointer} of the body, and {why}: deliver it with that"
    return Problem(422, UNNAMED[what], told)


def _kind(value: Any) -> str:
    """As JSON calls it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a number"
