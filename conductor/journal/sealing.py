"""Encrypts the secrets of runs and of commands to hosts, so that databases, their logs and copies never have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings

from conductor.core.errors import Unavailable
from conductor.core.sealing import box

SEALED = "sealed"
PURPOSE = "novella runs"
PASSWORDS = ("password", "admin_password")  # as fields of a command, or of the guest in it


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` encrypted for a JSON column; empty values stay empty."""
    if not values:
        return {}
    return {SEALED: box(settings.SECRET_KEY, PURPOSE).encrypt(json.dumps(dict(values)).encode()).decode()}


def unseal(kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values that `seal` got; unencrypted ones of an earlier release are returned as they are.

    Raises:
        Unavailable: another secret key encrypted them.
    """
    if SEALED not in kept:
        return kept
    try:
        values: dict[str, Any] = json.loads(box(settings.SECRET_KEY, PURPOSE).decrypt(kept[SEALED].encode()))
    except InvalidToken:
        raise Unavailable("Secrets of this workflow were encrypted with another secret key.") from None
    return values


def seal_command(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return an encoded command with its passwords encrypted beside its body; one without passwords as it is."""
    body, guest = wire["body"], wire["body"].get("guest") or {}
    found = {"body": _passwords(body), "guest": _passwords(guest)}
    if not any(found.values()):
        return dict(wire)
    kept = {name: value for name, value in body.items() if name not in found["body"]}
    if found["guest"]:
        kept["guest"] = {name: value for name, value in guest.items() if name not in found["guest"]}
    return {**wire, "body": kept, **seal(found)}


def unseal_command(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the command that `seal_command` got. Raises Unavailable as `unseal` does."""
    if SEALED not in kept:
        return dict(kept)
    found = unseal(kept)
    body = {**kept["body"], **found["body"]}
    if found["guest"]:
        body["guest"] = {**body["guest"], **found["guest"]}
    return {**{name: value for name, value in kept.items() if name != SEALED}, "body": body}


def _passwords(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in PASSWORDS if fields.get(name)}
