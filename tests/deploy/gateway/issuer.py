"""A real OIDC provider on this machine: discovery, keys, and tokens signed with them."""

from __future__ import annotations

import json
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

AUDIENCE = "wakeful"


class Issuer:
    """Use it as `with Issuer() as issuer:`; `answers` is what each path gives, to be changed by tests."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {}
        self.keys: dict[str, Key] = {}
        self.down = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_port}/realm"
        self.add("rsa", _rsa_key())

    def add(self, kid: str, key: Key) -> None:
        """One more key, published."""
        self.keys[kid] = key
        self.publish()

    def rotate(self, kid: str) -> None:
        """A new key, and none of the others any more."""
        self.keys = {kid: ECKey.generate_key("P-256", {"kid": kid})}
        self.publish()

    def publish(self, **more: Any) -> None:
        """Discovery and the public halves of all keys."""
        where = "/realm/.well-known/openid-configuration"
        self.answers[where] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **more}
        public = [{**key.as_dict(private=False), "kid": kid} for kid, key in self.keys.items()]
        self.answers["/realm/keys"] = {"keys": public}

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Those of a good token; null leaves one out."""
        now = int(self.now_s)
        good = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ann",
            "tenant": "acme",
            "roles": ["user"],
            "iat": now,
            "exp": now + 300,
        }
        return {name: value for name, value in {**good, **changed}.items() if value is not None}

    def token(self, kid: str = "rsa", alg: str | None = None, **changed: Any) -> str:
        """A token signed with this key."""
        key = self.keys[kid]
        fitting = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}[key.key_type]
        header = {"alg": alg or fitting, "kid": kid}
        return jwt.encode(header, self.claims(**changed), key, algorithms=[header["alg"]])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                answer = None if issuer.down else issuer.answers.get(self.path)
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(503 if issuer.down else 200 if answer is not None else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silent."""

        return Handler


@cache
def _rsa_key() -> Key:
    """The same for all: making one takes longer than most tests."""
    return RSAKey.generate_key(2048, {"kid": "rsa"})


def ed25519(kid: str) -> Key:
    """One of the other kinds of keys."""
    return OKPKey.generate_key("Ed25519", {"kid": kid})
