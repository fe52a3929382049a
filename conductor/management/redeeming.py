"""Enrolment of a new host over HTTPS: creates a key pair, and sends the public key with a token."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from conductor.core.errors import Invalid, NotAuthenticated, Unavailable
from conductor.rpc import envelope
from conductor.rpc.envelope import SigningKey
from conductor.rpc.identities import Credentials

PATH = "/api/host-enrollments"
TIMEOUT_SECONDS = 30.0
LONGEST_ANSWER = 65_536
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def redeem(url: str, token: str) -> Credentials:
    """Return the credentials of the host that the token was created for.

    Raises Invalid for an address without TLS, NotAuthenticated for an invalid token, Unavailable where the portal does
    not respond as expected.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise Invalid("--url: it must begin with https://, as the token and the conductors' keys travel on it.")
    key = SigningKey.new()
    answer = _post(url.rstrip("/") + PATH, {"host_enrollment": {"token": token, "public_key": key.public_text}})
    try:
        enrolled = answer["host_enrollment"]
        pins = {str(key_id): str(text) for key_id, text in enrolled["conductor_keys"].items()}
        for text in pins.values():
            envelope.public_key(text)
        return Credentials(str(enrolled["host"]), str(enrolled["cell"]), (key,), pins)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unavailable(f"{url} answers, but not as a Novella portal does.") from None


def _post(url: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    requested = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(requested, timeout=TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read(LONGEST_ANSWER))
    except urllib.error.HTTPError as error:
        if error.code == 401:
            raise NotAuthenticated("The token is unknown, was used, or is too old.") from None
        raise Unavailable(f"{url} answered with {error.code}.") from None
    except (OSError, ValueError) as error:
        raise Unavailable(f"{url} does not answer: {error}") from None
