"""Encryption of secrets in databases: one key per purpose, derived from the cloud's secret key."""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


@lru_cache(maxsize=64)
def box(secret_key: str, purpose: str) -> Fernet:
    """Return the cipher for `purpose`, which names a use such as "novella credentials" and never changes."""
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode())
    return Fernet(base64.urlsafe_b64encode(derived.derive(secret_key.encode())))
