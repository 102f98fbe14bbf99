"""Signing people in through the OIDC provider: the authorization code flow with PKCE, a state and a nonce.

```
address(…)  ─▶ the browser goes to the provider, with state, nonce and the hash of a verifier
redeem(…)   ◀─ it comes back with a code; that and the verifier are exchanged for an ID token, over our own connection
```

The ID token is judged as a bearer's token is, for this client and with the nonce in it. Nothing of it is kept but whom it
names, and until when. Rules: OpenID Connect Core 1.0 §3.1, RFC 7636, RFC 9207, RFC 9700 §2.1.
"""

from __future__ import annotations

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import quote, quote_plus, urlencode, urlsplit

import structlog

from .oidc import Named, Oidc, refused, unavailable
from .problems import Problem

WORD_MAX = 100
"""Characters of a word of the provider's that are shown."""

logger = structlog.get_logger("wakeful.gateway")


@dataclass(frozen=True, slots=True)
class OidcClient:
    """What we are to the provider."""

    id: str
    secret: str | None = field(default=None, repr=False)
    scopes: str = "openid"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whom the provider has vouched for, and until when."""

    named: Named
    until_ms: int


class SignIns:
    """Safe to use from several threads."""

    def __init__(
        self,
        oidc: Oidc,
        client: OidcClient,
        now_ms: Callable[[], int],
        *,
        base_url: str | None = None,
    ) -> None:
        """`base_url` is where browsers reach us; null on this machine alone, where each request says it."""
        self._oidc, self._client, self._now_ms = oidc, client, now_ms
        self.base_url = base_url

    @property
    def issuer(self) -> str:
        """The provider, as it names itself."""
        return self._oidc.issuer

    @property
    def name(self) -> str:
        """The provider, as people are told."""
        return urlsplit(self.issuer).hostname or self.issuer

    def address(self, *, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Where a browser is sent to sign in; `Problem` 503 where the provider does not say."""
        asked = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": redirect_uri,
            "scope": self._client.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        return _with(self._endpoint("authorization_endpoint"), asked)

    def redeem(self, code: str, *, redirect_uri: str, verifier: str, nonce: str) -> SignedIn:
        """Whom this code stands for; `Problem` 401, 403 where it names nobody of ours, 503 where the provider is silent."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        if self._client.secret is None or not self._takes_basic():
            form["client_id"] = self._client.id
        if self._client.secret is not None:
            if self._takes_basic():
                headers["Authorization"] = _basic(self._client.id, self._client.secret)
            else:
                form["client_secret"] = self._client.secret
        answer = self._oidc.post(self._endpoint("token_endpoint"), form, headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            why = str(answer.get("error", "it gave no ID token"))[:WORD_MAX]
            logger.warning("the OIDC provider refused a code", why=why)
            raise refused(f"the provider did not take the code ({why}): sign in again")
        claims = self._oidc.proved(token, self._client.id)
        self._check(claims, nonce)
        until_ms = int(claims["exp"] * 1000)
        if until_ms <= self._now_ms():
            raise refused("the token has expired: sign in again")
        return SignedIn(self._oidc.named(claims), until_ms)

    def way_out(self, back: str) -> str | None:
        """Where a browser signs out of the provider, too; null where that is not known, or the provider has no such place."""
        found = self._oidc.metadata_known.get("end_session_endpoint")
        if not self._is_safe(found):
            return None
        asked = {"client_id": self._client.id, "post_logout_redirect_uri": back}
        return _with(str(found), asked)

    def _check(self, claims: Mapping[str, Any], nonce: str) -> None:
        said = claims.get("nonce")
        if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
            raise refused("the token is not of this sign-in (nonce): sign in again")
        if claims.get("azp", self._client.id) != self._client.id:
            raise refused("the token was made for another client (azp): sign in again")

    def _endpoint(self, name: str) -> str:
        """An address from what the provider says of itself; https, where the provider is."""
        found = self._oidc.metadata().get(name)
        if not self._is_safe(found):
            logger.warning("the OIDC provider names no place to sign in", which=name)
            raise unavailable()
        return str(found)

    def _is_safe(self, found: object) -> bool:
        schemes = ("https://",) if self.issuer.startswith("https:") else ("https://", "http://")
        return isinstance(found, str) and found.startswith(schemes)

    def _takes_basic(self) -> bool:
        methods = self._oidc.metadata().get("token_endpoint_auth_methods_supported")
        return not isinstance(methods, list) or "client_secret_basic" in methods


def challenge_of(verifier: str) -> str:
    """What a sign-in begins with, so that only whoever began it can end it (RFC 7636, S256)."""
    return urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def check_iss(sign_ins: SignIns, iss: str) -> None:
    """`Problem` 401 where an answer names another provider than the one that was asked (RFC 9207)."""
    if iss and iss != sign_ins.issuer:
        raise Problem(401, "unauthenticated", "the answer is of another provider: sign in again")


def _with(address: str, asked: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(asked, quote_via=quote)}"


def _basic(id_: str, secret: str) -> str:
    """RFC 6749 §2.3.1: both are quoted first."""
    return "Basic " + b64encode(f"{quote_plus(id_)}:{quote_plus(secret)}".encode()).decode()
