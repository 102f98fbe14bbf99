"""User values to stored JSON and back, also where their text holds lone surrogates, which customers and models send.

pydantic's own JSON reader and writer refuse those; Python's do not. They are tried first, since they are faster.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

T = TypeVar("T")


def read_json(kind: TypeAdapter[T], data: bytes) -> T:
    """The value of this type in stored JSON; `ValidationError` where it does not fit."""
    try:
        return kind.validate_json(data)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid":
            raise
        try:
            value = json.loads(data)
        except ValueError:
            raise error from None
        return kind.validate_python(value)


def json_value(kind: TypeAdapter[T], value: T) -> Any:
    """The value as JSON-able values, under its fields' aliases; raises what its serialisers raise."""
    try:
        return json.loads(kind.dump_json(value, by_alias=True, warnings=False))
    except PydanticSerializationError:
        return kind.dump_python(value, mode="json", by_alias=True, warnings=False)
