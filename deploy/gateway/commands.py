"""Commands: each is signed, handed to Kafka and answered with 202; what becomes of it, its status URL tells."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, JsonValue

from ...commands.sending import Receipt
from .asking import Asker, Shared

router = APIRouter(prefix="/v1", tags=["commands"])


class Message(BaseModel):
    """A message: text, or any JSON."""

    model_config = ConfigDict(extra="forbid")

    message: JsonValue


@router.post("/sessions/{session_id}/messages", status_code=202)
def send_message(
    session_id: str, said: Message, shared: Shared, asker: Asker, response: Response
) -> dict[str, Any]:
    """Adds a message to the session's queue."""
    return accepted(shared.client(asker).send(session_id, said.message), response)


def accepted(receipt: Receipt, response: Response) -> dict[str, Any]:
    """What is told of a command that the log has; `position` is for `wait_for` in queries."""
    status_url = f"/v1/sessions/{receipt.session_id}/commands/{receipt.command_id}"
    response.headers["Location"] = status_url
    return {
        "session_id": receipt.session_id,
        "command_id": receipt.command_id,
        "status_url": status_url,
        "command_position": f"{receipt.partition}:{receipt.offset}",
    }
