"""The provider of `issuer.py` with sign-ins: it lets everybody in, and exchanges each code once, for whoever has its verifier."""

from __future__ import annotations

import base64
import json
import secrets
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from .issuer import Issuer

CLIENT_ID = "wakeful console"
CLIENT_SECRET = "s3cret/with:signs"


class CodeIssuer(Issuer):
    """`person` is who signs in: claims of the next ID tokens; `token_of` may be changed to forge one."""

    def __init__(self, now_s: float, *, host: str = "127.0.0.1") -> None:
        super().__init__(now_s)
        self.url = self.url.replace("127.0.0.1", host)
        self.person: dict[str, Any] = {"sub": "sue", "roles": ["operator"]}
        self.codes: dict[str, dict[str, str]] = {}
        self.publish()

    def publish(self, **more: Any) -> None:
        """With the places of a sign-in."""
        places = {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "end_session_endpoint": f"{self.url}/logout",
        }
        super().publish(**{**places, **more})

    def token_of(self, nonce: str) -> str:
        """The ID token of a sign-in."""
        return self.token(**{"aud": CLIENT_ID, "nonce": nonce, **self.person})

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        assert asked["client_id"] == CLIENT_ID
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        told = {"code": code, "state": asked["state"], "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(told)}"

    def redeem(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, str]]:
        """The answer to a code: a token, once."""
        quoted = "wakeful+console:s3cret%2Fwith%3Asigns"
        if authorization != "Basic " + base64.b64encode(quoted.encode()).decode():
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form["code"], None)
        digest = sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        fits = asked is not None and (asked["code_challenge"], asked["redirect_uri"]) == (
            challenge,
            form["redirect_uri"],
        )
        if asked is None or not fits or form["grant_type"] != "authorization_code":
            return 400, {"error": "invalid_grant"}
        return 200, {"id_token": self.token_of(asked["nonce"]), "token_type": "Bearer"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(super()._handler()):  # type: ignore[misc]
            def do_GET(self) -> None:  # noqa: N802 as the server calls it
                place = urlsplit(self.path)
                if place.path != "/realm/authorize" or issuer.down:
                    super().do_GET()
                    return
                self.send_response(303)
                self.send_header("location", issuer.authorize(dict(parse_qsl(place.query))))
                self.send_header("content-length", "0")
                self.end_headers()

            def do_POST(self) -> None:  # noqa: N802 the same
                size = int(self.headers["content-length"])
                form = dict(parse_qsl(self.rfile.read(size).decode()))
                status, told = issuer.redeem(form, self.headers.get("authorization", ""))
                body = json.dumps(told).encode()
                self.send_response(503 if issuer.down else status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler
