"""Failures of commands: which exceptions a driver may raise, and their description in answers, without secrets."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from typing import Any

from conductor.core.errors import DriverError, Invalid, NotFound, NovellaError, StaleToken
from conductor.core.messages import fields, message, shortened

# What a driver may raise that would silently end a thread of the agent.
THREAD_EXITS = (SystemExit, KeyboardInterrupt)
MAX_MESSAGE_LENGTH = 1000
# Shorter decoded secrets would match ordinary words: any password may happen to be valid base64.
MIN_DECODED_LENGTH = 6
REDACTED = "[hidden]"
NOT_RESCHEDULABLE = (StaleToken, Invalid, NotFound)


def describe_error(error: Exception, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """Return {"class", "message", "is_reschedulable"} for an answer, with code and values of the message.

    Messages of Novella's own errors are public. Of any other error only the class is named, and another host may be
    tried.
    """
    name = type(error).__name__
    if isinstance(error, DriverError):
        error_text, is_reschedulable = error.message, error.reschedulable
    elif isinstance(error, NovellaError):
        error_text, is_reschedulable = error.message, not isinstance(error, NOT_RESCHEDULABLE)
    else:
        error_text, is_reschedulable = message("driver.failed", kind=name), True
    return {"class": name, **fields(_safe(error_text, list(secrets))), "is_reschedulable": is_reschedulable}


def _safe(error_text: str, secrets: Sequence[str]) -> str:
    """Return the message without secrets, shortened; a message without secrets keeps its code and values."""
    hidden = redact(error_text, secrets)
    return shortened(error_text if hidden == error_text else hidden, MAX_MESSAGE_LENGTH)


def redact(message: str, secrets: Iterable[str]) -> str:
    """Remove `secrets` from a message: as they are, escaped as in Python or JSON, and decoded from base64."""
    for secret in secrets:
        for form in _forms(secret):
            message = message.replace(form, REDACTED)
    return message


def _forms(secret: str) -> set[str]:
    forms = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]}
    decoded = _decoded(secret)
    return forms | {decoded} if len(decoded) >= MIN_DECODED_LENGTH else forms


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
