"""User values on their way to stored JSON and back."""

import json

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from wakeful import Read, activity
from wakeful.processors.stored_json import json_value, read_json


class Note(BaseModel):
    text: str = ""


@pytest.mark.parametrize("text", ["plain", "half \ud83d of a character", "nul \x00", "é"])
def test_a_text_comes_back_as_it_was(text: str) -> None:
    kind = TypeAdapter(Note)
    stored = json.dumps(json_value(kind, Note(text=text))).encode()
    assert read_json(kind, stored) == Note(text=text)


def test_arguments_may_hold_half_a_character() -> None:
    @activity(contract=Read())
    async def read(text: str) -> str:
        return text

    action = read.call("half \ud83d of a character")
    assert read.typed(action.arguments) == {"text": "half \ud83d of a character"}


@pytest.mark.parametrize("data", [b"", b"{", b'{"text": 5}', b"[]"])
def test_what_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationError):
        read_json(TypeAdapter(Note), data)
