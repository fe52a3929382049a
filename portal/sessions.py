"""How long a browser's session lasts: it is renewed by use, says how much of it is left, and ends for all that ask."""

from __future__ import annotations

import time
from collections.abc import Mapping, MutableMapping
from typing import Any

from django.conf import settings

ENDS_KEY = "ends_at"
WARNING_SECONDS = 300

Session = MutableMapping[str, Any]


def renew(session: Session) -> None:
    """From now on the whole time is left."""
    session[ENDS_KEY] = time.time() + settings.NOVELLA_SESSION_SECONDS


def seconds_left(session: Mapping[str, Any]) -> float | None:
    """None for a session that nobody has begun by signing in; such a one ends with its row."""
    ends_at = session.get(ENDS_KEY)
    return None if ends_at is None else max(0.0, ends_at - time.time())


def is_over(session: Mapping[str, Any]) -> bool:
    """Whether its time is up, also where its row is still there."""
    return seconds_left(session) == 0.0


def renew_by_use(session: Session) -> None:
    """Written once in half of its time at most, so that reading pages stays reading."""
    left = seconds_left(session)
    if left is not None and left < settings.NOVELLA_SESSION_SECONDS / 2:
        renew(session)


def warning_seconds() -> float:
    """How long before its end a page counts down."""
    return float(min(WARNING_SECONDS, settings.NOVELLA_SESSION_SECONDS / 2))
