"""A real OpenID provider on loopback, with a proxy that lets tests change its answers and signatures."""

from __future__ import annotations

import base64
import io
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
from joserfc import jwt
from joserfc.jwk import RSAKey
from joserfc.jws import JWSRegistry
from oidc_provider_mock import app as provider_app
from werkzeug.serving import make_server

from tests.waiting import WAIT_SECONDS

TOKEN, KEYS, DISCOVERY = "/oauth2/token", "/jwks", "/.well-known/openid-configuration"

Bend = Callable[[dict[str, Any]], dict[str, Any]]


class Provider:
    """The running provider and its recorded traffic. `bends` change the JSON of an answer, by its path."""

    def __init__(self, wire: Wire, port: int) -> None:
        self.issuer = f"http://localhost:{port}"
        self.client_id = self.client_secret = ""
        self._wire = wire

    @property
    def bends(self) -> dict[str, Bend]:
        return self._wire.bends

    @property
    def token_requests(self) -> list[dict[str, str]]:
        return self._wire.token_requests

    def quiet(self) -> None:
        """Reset the provider to its state at the start."""
        self.bends.clear()
        self.token_requests.clear()

    def register(self, back_to: str) -> None:
        """Register this cloud as a client of the provider."""
        body = {"redirect_uris": [back_to], "token_endpoint_auth_method": "client_secret_basic"}
        payload = requests.post(f"{self.issuer}/oauth2/clients", json=body, timeout=WAIT_SECONDS).json()
        self.client_id, self.client_secret = payload["client_id"], payload["client_secret"]

    def knows(self, subject: str, **claims: Any) -> None:
        """Add a user to the provider."""
        requests.put(f"{self.issuer}/users/{subject}", json=claims, timeout=WAIT_SECONDS).raise_for_status()

    def signs_in(self, address: str, subject: str) -> str:
        """Sign in at the provider's page; returns the redirect address."""
        answer = requests.post(address, data={"sub": subject}, allow_redirects=False, timeout=WAIT_SECONDS)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]

    def denies(self, address: str) -> str:
        answer = requests.post(address, data={"action": "deny"}, allow_redirects=False, timeout=WAIT_SECONDS)
        return answer.headers["Location"]

    def forge(self, changes: Mapping[str, Any], *, is_known_key: bool = True, algorithm: str = "RS256") -> None:
        """Identity tokens with other claims (None: without it), signed with a key that the provider may own up to."""
        key = _forgers_key()

        def forged(answer: dict[str, Any]) -> dict[str, Any]:
            claims = _claims(answer["id_token"])
            kept = {name: value for name, value in {**claims, **changes}.items() if value is not None}
            header = {"alg": algorithm, "kid": "forged"}
            registry = JWSRegistry(algorithms=[algorithm])
            return {**answer, "id_token": jwt.encode(header, kept, key, registry=registry)}

        self.bends[TOKEN] = forged
        if is_known_key:
            self.bends[KEYS] = lambda _: {"keys": [key.as_dict(private=False)]}


class Wire:
    """The provider behind it answers; what is bent here comes out changed."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind
        self.bends: dict[str, Bend] = {}
        self.token_requests: list[dict[str, str]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == TOKEN:
            self._remember(environ)
        bend = self.bends.get(path)
        if bend is None:
            return self._behind(environ, start_response)  # type: ignore[no-any-return]
        payload: list[Any] = []
        body = b"".join(self._behind(environ, lambda status, headers, error=None: payload.extend((status, headers))))
        changed = json.dumps(bend(json.loads(body))).encode() if payload[0].startswith("200") else body
        start_response(payload[0], [("Content-Type", "application/json"), ("Content-Length", str(len(changed)))])
        return [changed]

    def _remember(self, environ: dict[str, Any]) -> None:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
        self.token_requests.append({name: values[0] for name, values in parse_qs(body.decode()).items()})
        environ["wsgi.input"] = io.BytesIO(body)


@contextmanager
def running(back_to: str) -> Iterator[Provider]:
    """Run the provider until the block ends."""
    before = os.environ.get("AUTHLIB_INSECURE_TRANSPORT")
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # on loopback, for the provider's own side
    wire = Wire(provider_app(require_client_registration=True, require_nonce=True))
    server = make_server("localhost", 0, wire, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        provider = Provider(wire, server.server_port)
        provider.register(back_to)
        yield provider
    finally:
        server.shutdown()
        thread.join(WAIT_SECONDS)
        server.server_close()
        os.environ.pop("AUTHLIB_INSECURE_TRANSPORT")
        if before is not None:
            os.environ["AUTHLIB_INSECURE_TRANSPORT"] = before


@cache
def _forgers_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "forged"})  # once: it takes long


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a token, without checking its signature."""
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def question_of(address: str) -> dict[str, str]:
    """Return the parameters of the browser's request to the provider."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
