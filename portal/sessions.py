"""Lifetime of browser sessions: renewed by use, and visible to all code that checks it."""

from __future__ import annotations

import time
from collections.abc import Mapping, MutableMapping
from typing import Any

from django.conf import settings

ENDS_KEY = "ends_at"
WARNING_SECONDS = 300

Session = MutableMapping[str, Any]


def renew(session: Session) -> None:
    """Restart the session's lifetime."""
    session[ENDS_KEY] = time.time() + settings.NOVELLA_SESSION_SECONDS


def seconds_left(session: Mapping[str, Any]) -> float | None:
    """Return the seconds left; None for a session without a sign-in, which ends with its row."""
    ends_at = session.get(ENDS_KEY)
    return None if ends_at is None else max(0.0, ends_at - time.time())


def is_over(session: Mapping[str, Any]) -> bool:
    """Return whether its lifetime is over, even if its row still exists."""
    return seconds_left(session) == 0.0


def renew_by_use(session: Session) -> None:
    """Renew the session at most once in half of its lifetime, so that most reads write nothing."""
    left = seconds_left(session)
    if left is not None and left < settings.NOVELLA_SESSION_SECONDS / 2:
        renew(session)


def warning_seconds() -> float:
    """Return how many seconds before the end a page counts down."""
    return float(min(WARNING_SECONDS, settings.NOVELLA_SESSION_SECONDS / 2))
