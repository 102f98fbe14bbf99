"""Settings of the gateway alone, from the environment.

| variable | what | default |
|---|---|---|
| `WAKEFUL_HTTP_HOST` | the address it listens on | `127.0.0.1` |
| `WAKEFUL_HTTP_PORT` | its port; 0 takes a free one | 8400 |
| `WAKEFUL_HTTP_BODY_MAX` | bytes of a request's body | 1048576 |
| `WAKEFUL_HTTP_LAG_MAX_S` | seconds that the processors may be behind before commands are told to wait | 60 |
| `WAKEFUL_HTTP_UNREAD_S` | seconds that a client may leave unread what it was sent, before it is cut off | 30 |
| `WAKEFUL_API_KEYS` | the file of hashed API keys | `api_keys.json` in the home |
| `WAKEFUL_HOOKS` | the file of webhooks | none |
| `WAKEFUL_OIDC_ISSUER` | the OIDC provider, as its tokens name it; https, but on this machine | none |
| `WAKEFUL_OIDC_AUDIENCE` | for whom tokens must be; needed with an issuer | none |
| `WAKEFUL_OIDC_TENANT_CLAIM` | the claim that names the tenant; dots go into objects | `tenant` |
| `WAKEFUL_OIDC_ACTOR_CLAIM` | the claim that names the person | `sub` |
| `WAKEFUL_OIDC_ROLES_CLAIM` | the claim with the roles, a list or words | `roles` |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..exits import Exit, Stopped

PREFIX = "WAKEFUL_"

MIB = 1024 * 1024

NAMES = {
    "host": "HTTP_HOST",
    "port": "HTTP_PORT",
    "body_max": "HTTP_BODY_MAX",
    "lag_max_s": "HTTP_LAG_MAX_S",
    "unread_s": "HTTP_UNREAD_S",
    "api_keys": "API_KEYS",
    "hooks": "HOOKS",
    "oidc_issuer": "OIDC_ISSUER",
    "oidc_audience": "OIDC_AUDIENCE",
    "oidc_tenant_claim": "OIDC_TENANT_CLAIM",
    "oidc_actor_claim": "OIDC_ACTOR_CLAIM",
    "oidc_roles_claim": "OIDC_ROLES_CLAIM",
}

_ISSUER = re.compile(
    r"https://[^\s?#]+|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?(?:/[^\s?#]*)?"
)


class GatewaySettings(BaseModel):
    """See the module."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8400, ge=0, le=65_535)
    body_max: int = Field(default=MIB, ge=1_024, le=64 * MIB)
    lag_max_s: float = Field(default=60.0, gt=0, le=86_400)
    unread_s: float = Field(default=30.0, ge=0.1, le=3_600)
    api_keys: Path
    hooks: Path | None = None
    oidc_issuer: str | None = None
    oidc_audience: str | None = None
    oidc_tenant_claim: str = "tenant"
    oidc_actor_claim: str = "sub"
    oidc_roles_claim: str = "roles"

    @property
    def can_sign_in(self) -> bool:
        """Whether somebody could: there are API keys, or a provider."""
        return self.oidc_issuer is not None or self.api_keys.is_file()

    @property
    def is_local(self) -> bool:
        """Whether only this machine can speak to it."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    @field_validator("oidc_issuer")
    @classmethod
    def _issuer(cls, value: str | None) -> str | None:
        if value is not None and _ISSUER.fullmatch(value) is None:
            raise ValueError("it should be an https address, such as https://login.example.com")
        return value


def load_gateway_settings(environ: Mapping[str, str], home: Path) -> GatewaySettings:
    """Those of these variables; `Stopped` names the variable, its value and what it should be."""
    given: dict[str, object] = {"api_keys": home / "api_keys.json"}
    for field, name in NAMES.items():
        if environ.get(PREFIX + name):
            given[field] = environ[PREFIX + name]
    try:
        found = GatewaySettings.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        field = str(fault["loc"][0])
        told = fault["msg"].removeprefix("Value error, ").lower()
        raise Stopped(Exit.USAGE, f"{PREFIX}{NAMES[field]}={given[field]}: {told}") from None
    _check_together(found)
    return found


def _check_together(found: GatewaySettings) -> None:
    if found.oidc_issuer is not None and found.oidc_audience is None:
        raise Stopped(
            Exit.USAGE,
            "WAKEFUL_OIDC_ISSUER is set and WAKEFUL_OIDC_AUDIENCE is not: name the audience that tokens must be for, "
            "or tokens made for other services would count here",
        )
    if found.hooks is not None and not found.hooks.is_file():
        raise Stopped(Exit.USAGE, f"WAKEFUL_HOOKS={found.hooks}: there is no such file")
