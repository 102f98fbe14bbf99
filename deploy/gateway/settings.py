"""Settings of the gateway alone, from the environment.

| variable | what | default |
|---|---|---|
| `WAKEFUL_HTTP_HOST` | the address it listens on | `127.0.0.1` |
| `WAKEFUL_HTTP_PORT` | its port; 0 takes a free one | 8400 |
| `WAKEFUL_API_KEYS` | the file of hashed API keys | `api_keys.json` in the home |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..exits import Exit, Stopped

PREFIX = "WAKEFUL_"

NAMES = {"host": "HTTP_HOST", "port": "HTTP_PORT", "api_keys": "API_KEYS"}


class GatewaySettings(BaseModel):
    """See the module."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8400, ge=0, le=65_535)
    api_keys: Path


def load_gateway_settings(environ: Mapping[str, str], home: Path) -> GatewaySettings:
    """Those of these variables; `Stopped` names the variable, its value and what it should be."""
    given: dict[str, object] = {"api_keys": home / "api_keys.json"}
    for field, name in NAMES.items():
        if environ.get(PREFIX + name):
            given[field] = environ[PREFIX + name]
    try:
        return GatewaySettings.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)[0]
        field = str(found["loc"][0])
        raise Stopped(
            Exit.USAGE, f"{PREFIX}{NAMES[field]}={given[field]}: {found['msg'].lower()}"
        ) from None
