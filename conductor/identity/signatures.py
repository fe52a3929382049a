"""Requests that are signed as OAuth 1.0 says, with the secrets of a consumer and a token: checked, and taken once."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from authlib.oauth1.rfc5849.signature import construct_base_string, hmac_sha1_signature
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import IntegrityError

from conductor.core.errors import NotAuthenticated, Unavailable
from conductor.core.sealing import box
from conductor.identity.models import Nonce
from conductor.transactions import database_now, database_time, write_tx

METHOD = "HMAC-SHA1"
CLOCK_SECONDS = 600.0  # a consumer's clock may be off by so much


@dataclass(frozen=True)
class Signed:
    """A request: its method, its address without the query, and all parameters, those of the signature included."""

    method: str
    address: str
    parameters: Sequence[tuple[str, str]]

    def get(self, name: str) -> str:
        """A parameter of OAuth. Raises NotAuthenticated where it is missing or there twice."""
        found = [value for key, value in self.parameters if key == name]
        if len(found) != 1 or not found[0]:
            raise NotAuthenticated()
        return found[0]


def new_secret() -> tuple[str, str]:
    """A secret, and what is stored of it."""
    text = secrets.token_urlsafe(32)
    return text, _box().encrypt(text.encode()).decode()


def secret_of(encrypted: str) -> str:
    """Raises Unavailable when the secret key is no longer the one that encrypted it."""
    try:
        return _box().decrypt(encrypted.encode()).decode()
    except InvalidToken:
        raise Unavailable("This secret of OAuth was encrypted with another secret key.") from None


def require(signed: Signed, consumer_secret: str, token_secret: str = "") -> None:
    """Raises NotAuthenticated for a wrong signature, a time that is not about now, or a request that was taken."""
    if signed.get("oauth_signature_method") != METHOD:
        raise NotAuthenticated()
    try:
        moment = float(signed.get("oauth_timestamp"))
        base = construct_base_string(signed.method, signed.address, list(signed.parameters))
    except ValueError:
        raise NotAuthenticated() from None
    if not abs(moment - database_time().timestamp()) <= CLOCK_SECONDS:
        raise NotAuthenticated()
    wanted = hmac_sha1_signature(base, consumer_secret, token_secret)
    if not hmac.compare_digest(wanted.encode(), signed.get("oauth_signature").encode()):
        raise NotAuthenticated()
    _take_once(signed)


def _take_once(signed: Signed) -> None:
    parts = (signed.get("oauth_consumer_key"), signed.get("oauth_timestamp"), signed.get("oauth_nonce"))
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    try:
        with write_tx():
            Nonce.objects.filter(expires_at__lt=database_now()).delete()
            Nonce.objects.create(digest=digest, expires_at=database_now(2 * CLOCK_SECONDS))
    except IntegrityError:
        raise NotAuthenticated() from None


def _box() -> Fernet:
    return box(settings.SECRET_KEY, "novella oauth1")
