"""What a subscription must not show: the whole address of its target and the key that signs what goes there."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import asdict, dataclass, field

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from conductor.core.errors import Unavailable

SECRET_BYTES = 32
HINT_LENGTH = 4


@dataclass(frozen=True)
class Target:
    """Where a webhook goes, and the key that signs it."""

    url: str = field(repr=False)
    secret: str = field(repr=False)


def new_secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def hint_of(secret: str) -> str:
    """By which its owner tells one key from another."""
    return f"…{secret[-HINT_LENGTH:]}"


def seal(target: Target) -> str:
    return _box().encrypt(json.dumps(asdict(target)).encode()).decode()


def unseal(sealed: str) -> Target:
    """Raises Unavailable where it was sealed with another secret key."""
    try:
        return Target(**json.loads(_box().decrypt(sealed.encode())))
    except InvalidToken:
        raise Unavailable("The target was sealed with another secret key: give its URL again.") from None


def _box() -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"novella subscriptions")
    return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))
