"""What an answer says about a command that failed: enough to decide by, and nothing that is secret."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from conductor.core.errors import DriverError, Invalid, NotFound, NovellaError, StaleToken

LONGEST_MESSAGE = 1000
# A shorter one hits innocent words: any password may happen to be base64.
SHORTEST_DECODED = 6
HIDDEN = "[hidden]"
NO_HOST_CAN_MEND = (StaleToken, Invalid, NotFound)


def describe(error: Exception, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """`error` as an answer tells it: {"class", "message", "is_reschedulable"}.

    Only errors of our own tree are written for other eyes. Of any other the class is told, and another host may try.
    """
    name = type(error).__name__
    if isinstance(error, DriverError):
        message, is_reschedulable = error.message, error.reschedulable
    elif isinstance(error, NovellaError):
        message, is_reschedulable = error.message, not isinstance(error, NO_HOST_CAN_MEND)
    else:
        message, is_reschedulable = f"The driver failed unexpectedly ({name}).", True
    return {"class": name, "message": hide(message, secrets)[:LONGEST_MESSAGE], "is_reschedulable": is_reschedulable}


def hide(message: str, secrets: Iterable[str]) -> str:
    """`message` without any of `secrets`: as they are, as Python or JSON would show them, or decoded from base64."""
    for secret in secrets:
        for form in _forms(secret):
            message = message.replace(form, HIDDEN)
    return message


def _forms(secret: str) -> set[str]:
    forms = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    decoded = _decoded(secret)
    return forms | {decoded} if len(decoded) >= SHORTEST_DECODED else forms


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
