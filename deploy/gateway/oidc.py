"""Tokens of an OIDC provider: signed by one of its keys, for us, now, and with a tenant, a person and roles in their claims.

The keys are fetched when first needed, kept, and asked for again now and then, or where a token names one that is not
known: at most once in `REFETCH_S`, so that no flood of made-up names becomes a flood of questions. A provider that does
not answer changes nothing for keys that are known. Rules: OpenID Connect Core 1.0 §3.1.3.7, RFC 7519 §4.1, RFC 8725.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx
import structlog
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from ...commands import inputs
from ...events.errors import InvalidKey
from ...events.keys import check_id
from .algorithms import ALGORITHMS, key_for, names, public_keys
from .principals import Principal, permissions_of
from .problems import Problem
from .strict import load_strict

CHANNEL = "http"

SKEW_S = 30
"""By how much the provider's clock may differ from ours."""

TOKEN_BYTES_MAX = 8 * 1024

REFETCH_S = 10.0

REFRESH_S = 600.0
"""How long keys are taken as they are; a provider that takes one back is heard after that."""

FETCH_S = 3.0
"""How long an answer of the provider may take."""

DOCUMENT_BYTES_MAX = 256 * 1024

TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})
"""What a token may say that it is; one for logging out, say, is no proof of who asks."""

logger = structlog.get_logger("wakeful.gateway")


@dataclass(frozen=True, slots=True)
class Provider:
    """Who issues tokens, for whom they must be, and which claims say whose they are."""

    issuer: str
    audience: str
    tenant_claim: str = "tenant"
    actor_claim: str = "sub"
    roles_claim: str = "roles"


class Oidc:
    """Makes a principal of a token, or refuses it; safe to use from several threads."""

    def __init__(
        self, provider: Provider, now_ms: Callable[[], int], steady_s: Callable[[], float]
    ) -> None:
        self._provider = provider
        self._now_ms, self._steady_s = now_ms, steady_s
        self._http = httpx.Client(timeout=FETCH_S, follow_redirects=False, trust_env=False)
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._fetched_s = self._tried_s = -math.inf

    def principal(self, token: str) -> Principal:
        """Whose token this is; `Problem` 401, 403 where it names no tenant of ours, 503 where no key could be had yet."""
        claims = self._claims(token)
        self._check(claims)
        told = self._provider
        tenant, actor = _at(claims, told.tenant_claim), _at(claims, told.actor_claim)
        try:
            if not isinstance(tenant, str):
                raise _nobody(told.tenant_claim, "tenant")
            if not isinstance(actor, str):
                raise _nobody(told.actor_claim, "actor")
            found = check_id("tenant", tenant), inputs.actor(actor)
        except InvalidKey as error:
            raise Problem(403, "no_principal", f"the token is valid, and {error}") from None
        return Principal(*found, permissions_of(_roles(claims, told)), CHANNEL, f"oidc:{actor}")

    def close(self) -> None:
        """Frees connections."""
        self._http.close()

    def _claims(self, token: str) -> dict[str, Any]:
        """What a key of the provider has signed; nothing of it is believed, nor told about, before that."""
        if len(token) > TOKEN_BYTES_MAX:
            raise refused(f"the token has {len(token)} characters, the limit is {TOKEN_BYTES_MAX}")
        try:
            said = jws.extract_compact(token.encode("ascii"))
            header = said.headers()
            if str(header.get("typ", "jwt")).lower() not in TYPES:
                raise _invalid()
            key = key_for(self._known(header.get("kid")), header)
            if key is None or not jws.validate_compact(said, key, ALGORITHMS):
                raise _invalid()
            claims = load_strict(said.payload)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise _invalid() from None
        except Problem as problem:
            raise (_invalid() if problem.status == 400 else problem) from None
        if not isinstance(claims, dict):
            raise _invalid()
        return claims

    def _check(self, claims: Mapping[str, Any]) -> None:
        """The token is signed: what is wrong with it may be told to whoever bears it."""
        now_s = self._now_ms() / 1000
        if claims.get("iss") != self._provider.issuer:
            raise refused("the token is of another issuer")
        audience = claims.get("aud")
        meant = audience if isinstance(audience, list) else [audience]
        if self._provider.audience not in meant:
            raise refused(f"the token is not for {self._provider.audience!r}: ask for one that is")
        expires_s = _seconds(claims, "exp")
        if expires_s is None:
            raise refused("the token never expires: ask for one that does")
        if now_s >= expires_s + SKEW_S:
            raise refused("the token has expired: sign in again")
        for name in ("nbf", "iat"):
            from_s = _seconds(claims, name)
            if from_s is not None and now_s < from_s - SKEW_S:
                raise refused(f"the token is not valid yet ({name}): set the clocks")

    def _known(self, kid: object) -> KeySet:
        """The keys as they are known; asked for again where they are old, or none has this name."""
        if self._has(kid):
            if not self._is_fresh() and self._lock.acquire(blocking=False):
                try:
                    self._ask()
                finally:
                    self._lock.release()
            return cast("KeySet", self._keys)
        with self._lock:  # one asks, the others wait for its answer
            if not self._has(kid):
                self._ask()
            if self._keys is None:
                raise Problem(
                    503,
                    "issuer_unavailable",
                    "the keys of the OIDC provider cannot be had now, so no token can be judged: ask again in a moment",
                    headers={"Retry-After": str(int(REFETCH_S))},
                )
            return self._keys

    def _has(self, kid: object) -> bool:
        keys = self._keys
        return keys is not None and (kid is None or names(keys, kid))

    def _ask(self) -> None:
        """Fetches the keys, unless that was tried just now. The caller has the lock."""
        now_s = self._steady_s()
        if now_s - self._tried_s >= REFETCH_S:
            self._tried_s = now_s
            self._fetch(now_s)

    def _is_fresh(self) -> bool:
        return self._steady_s() - self._fetched_s < REFRESH_S

    def _fetch(self, now_s: float) -> None:
        """Keys that are known stay where this fails."""
        issuer = self._provider.issuer
        try:
            found = self._get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != issuer:
                raise ValueError(f"it calls itself {str(found.get('issuer'))[:100]!a}")
            where = str(found.get("jwks_uri"))
            if issuer.startswith("https:") and not where.startswith("https:"):
                raise ValueError("its keys are not at an https address")
            self._keys = public_keys(self._get(where))
            self._fetched_s = now_s
        except (httpx.HTTPError, httpx.InvalidURL, JoseError, Problem) as error:
            why = str(error) or type(error).__name__
            logger.warning("the OIDC provider's keys cannot be had", issuer=issuer, why=why)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("the OIDC provider's keys cannot be used", issuer=issuer, why=str(error))

    def _get(self, url: str) -> dict[str, Any]:
        until_s = self._steady_s() + FETCH_S
        with self._http.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
            if answer.status_code != 200:
                raise ValueError(f"{url} answers with status {answer.status_code}")
            body = bytearray()
            for part in answer.iter_raw():
                body += part
                if self._steady_s() > until_s:
                    raise ValueError(f"{url} takes longer than {FETCH_S:.0f} s to answer")
                if len(body) > DOCUMENT_BYTES_MAX:
                    raise ValueError(f"{url} has more than {DOCUMENT_BYTES_MAX} bytes")
        found = load_strict(bytes(body))
        if not isinstance(found, dict):
            raise TypeError(f"{url} has no JSON object")
        return found


def refused(detail: str) -> Problem:
    """The answer to a token that proves nothing here."""
    challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    return Problem(401, "unauthenticated", detail, headers=challenge)


def _invalid() -> Problem:
    return refused("the credentials are not valid here: sign in again, or ask for a new API key")


def _nobody(claim: str, what: str) -> Problem:
    told = f"the token is valid, and its claim {claim!r} names no {what}: let the provider put one there"
    return Problem(403, "no_principal", told)


def _at(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name; else, where that has dots, by its path (`realm_access.roles`)."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _roles(claims: Mapping[str, Any], provider: Provider) -> list[str]:
    """A list, or words in one text; those that are none of ours grant nothing."""
    found = _at(claims, provider.roles_claim)
    if isinstance(found, str):
        return found.split()
    return [role for role in found if isinstance(role, str)] if isinstance(found, list) else []


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused(f"the token's {name!r} is no number of seconds")
    return float(value)
