"""JSON of key pairs."""

from __future__ import annotations

from typing import Any

from conductor.services.servers.types import KeyPairView
from portal.api.compute.representations import parts
from portal.api.microversions import Microversion


def summary(key: KeyPairView, version: Microversion) -> dict[str, Any]:
    """Return a key pair in a list."""
    shown = {"name": key.name, "public_key": key.public_key, "fingerprint": key.fingerprint}
    return shown | {"type": key.key_type} if version.covers("2.2") else shown


def created(key: KeyPairView, version: Microversion) -> dict[str, Any]:
    """Return a new key pair, with its private key if we generated it."""
    shown = summary(key, version) | {"user_id": key.user_id}
    return shown | {"private_key": key.private_key} if key.private_key else shown


def show(key: KeyPairView, version: Microversion) -> dict[str, Any]:
    """Return one key pair."""
    return summary(key, version) | {
        "user_id": key.user_id,
        "id": key.number,
        "created_at": parts.to_the_digit(key.created_at),
        "updated_at": None,
        "deleted_at": None,
        "deleted": False,
    }
