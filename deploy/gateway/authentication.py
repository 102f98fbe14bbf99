"""Who asks: the bearer of an API key."""

from __future__ import annotations

from collections.abc import Callable

from .api_keys import ApiKeys
from .principals import Principal, permissions_of
from .problems import Problem

CHANNEL = "http"


class Authenticator:
    """Makes a principal of a request's `Authorization` header, or refuses it."""

    def __init__(self, api_keys: ApiKeys, now_ms: Callable[[], int]) -> None:
        self._api_keys = api_keys
        self._now_ms = now_ms

    def principal(self, authorization: str | None) -> Principal:
        """Who bears this; `Problem` 401 without saying which part of it was wrong."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unknown("no credentials: send 'Authorization: Bearer …' with an API key")
        key = self._api_keys.find(token.strip(), self._now_ms())
        if key is None:
            raise _unknown("the credentials are not valid here: ask for a new API key")
        return Principal(key.tenant, key.actor, permissions_of(key.roles), CHANNEL, f"key:{key.id}")


def _unknown(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
