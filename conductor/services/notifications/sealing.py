"""What a subscription must not show: the whole address of its target and the key that signs what goes there."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from conductor.core.errors import Unavailable
from conductor.core.sealing import box

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
    return box(settings.SECRET_KEY, "novella subscriptions")
