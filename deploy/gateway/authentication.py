"""Who asks: the bearer of an API key, or of a token of the OIDC provider."""

from __future__ import annotations

from collections.abc import Callable

from .api_keys import ApiKeys
from .oidc import Oidc, refused
from .principals import Principal, permissions_of
from .problems import Problem

CHANNEL = "http"

TOKEN_PARTS = 3
"""A signed token reads `header.claims.signature`; an API key has no dots."""


class Authenticator:
    """Makes a principal of a request's `Authorization` header, or refuses it."""

    def __init__(
        self, api_keys: ApiKeys, now_ms: Callable[[], int], *, oidc: Oidc | None = None
    ) -> None:
        self._api_keys = api_keys
        self._now_ms = now_ms
        self._oidc = oidc

    def principal(self, authorization: str | None) -> Principal:
        """Who bears this; `Problem` 401, and what is wrong only where its issuer vouches for it."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            ways = "an API key" if self._oidc is None else "an API key or a token"
            told = f"no credentials: send 'Authorization: Bearer …' with {ways}"
            raise Problem(401, "unauthenticated", told, headers={"WWW-Authenticate": "Bearer"})
        if self._oidc is not None and len(token.split(".", TOKEN_PARTS)) == TOKEN_PARTS:
            return self._oidc.principal(token)
        key = self._api_keys.find(token, self._now_ms())
        if key is None:
            raise refused("the credentials are not valid here: ask for a new API key")
        return Principal(key.tenant, key.actor, permissions_of(key.roles), CHANNEL, f"key:{key.id}")
