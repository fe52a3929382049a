"""Encryption of a subscription's secrets: the full URL of its target and the key that signs its messages."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from conductor.core.errors import Unavailable
from conductor.core.phrases import phrase
from conductor.core.sealing import box

SECRET_BYTES = 32
HINT_LENGTH = 4


@dataclass(frozen=True)
class Target:
    """URL of a webhook, and the key that signs its messages."""

    url: str = field(repr=False)
    secret: str = field(repr=False)


def new_secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def hint_of(secret: str) -> str:
    """Return the last characters of a key, by which its owner can distinguish keys."""
    return f"…{secret[-HINT_LENGTH:]}"


def seal(target: Target) -> str:
    return _box().encrypt(json.dumps(asdict(target)).encode()).decode()


def unseal(sealed: str) -> Target:
    """Decrypt a target. Raises Unavailable where it was encrypted with another secret key."""
    try:
        return Target(**json.loads(_box().decrypt(sealed.encode())))
    except InvalidToken:
        raise Unavailable(phrase("The URL was stored with another secret key. Enter it again.")) from None


def _box() -> Fernet:
    return box(settings.SECRET_KEY, "novella subscriptions")
