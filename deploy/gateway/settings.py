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
| `WAKEFUL_OIDC_CLIENT_ID` | what the provider calls the console, where people are to sign in through it | none |
| `WAKEFUL_OIDC_CLIENT_SECRET` | its secret at the provider, if it has one | none |
| `WAKEFUL_OIDC_SCOPES` | what is asked of the provider at a sign-in | `openid` |
| `WAKEFUL_HTTP_URL` | where browsers reach the gateway; a provider sends them back there | none |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

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
    "oidc_client_id": "OIDC_CLIENT_ID",
    "oidc_client_secret": "OIDC_CLIENT_SECRET",
    "oidc_scopes": "OIDC_SCOPES",
    "http_url": "HTTP_URL",
}

_ISSUER = re.compile(
    r"https://[^\s?#]+|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?(?:/[^\s?#]*)?"
)

_ORIGIN = re.compile(r"https://[^\s?#/@]+/?|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?/?")


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
    oidc_client_id: str | None = None
    oidc_client_secret: SecretStr | None = None
    oidc_scopes: str = "openid"
    http_url: str | None = None

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

    @field_validator("oidc_scopes")
    @classmethod
    def _scopes(cls, value: str) -> str:
        if "openid" not in value.split():
            raise ValueError("it should have the word openid, such as 'openid profile'")
        return value

    @field_validator("http_url")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        if value is not None and _ORIGIN.fullmatch(value) is None:
            raise ValueError(
                "it should be an https address without a path, such as https://wakeful.example.com"
            )
        return value.rstrip("/") if value is not None else None


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
    if found.oidc_client_id is not None and found.oidc_issuer is None:
        raise Stopped(
            Exit.USAGE,
            "WAKEFUL_OIDC_CLIENT_ID is set and WAKEFUL_OIDC_ISSUER is not: name the provider that knows this client",
        )
    if found.oidc_client_id is not None and found.http_url is None and not found.is_local:
        raise Stopped(
            Exit.USAGE,
            "WAKEFUL_OIDC_CLIENT_ID is set and WAKEFUL_HTTP_URL is not: say where browsers reach this gateway, "
            "such as https://wakeful.example.com, so that the provider can send them back there",
        )
    if found.hooks is not None and not found.hooks.is_file():
        raise Stopped(Exit.USAGE, f"WAKEFUL_HOOKS={found.hooks}: there is no such file")
